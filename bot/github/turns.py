"""Which of what was said on a thread is a turn: something that a person says to the bot (product.md, Turns)."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from bot.core.actor import Actor, ActorKind, Role
from bot.core.command import parse
from bot.core.errors import Refused
from bot.core.markdown.visible import command_lines, mentions, visible, visible_title, without_mention
from bot.core.turn import Turn
from bot.github.door import Door, Json
from bot.github.edits import editors
from bot.github.people import rest_actor, time
from bot.github.permissions import Roles
from bot.github.repository import Address
from bot.github.threads import Said, Thread

LABEL: Final = "plangate"
MARKS: Final = ("label-", "assigned-")
"""What the keys of turns begin with that nobody wrote."""

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Listener:
    """Who the bot is, what it is called, and which other bots it listens to (numeric ids)."""

    bot: Actor
    mention: str = "@plangate"
    bots: frozenset[int] = frozenset()

    def hears(self, actor: Actor) -> bool:
        """Tell whether an account can speak to the bot at all: people, listed bots, never the bot itself."""
        if actor.id in {0, self.bot.id}:
            return False
        return actor.kind is ActorKind.USER or (actor.kind is ActorKind.BOT and actor.id in self.bots)

    def addressed(self, thread: Thread, said: Said) -> bool:
        """Tell whether something that was said speaks to the bot."""
        if any(mentions(text, self.mention) for text in said.words):
            return True
        return said in thread.reviews and thread.opened.actor.id == self.bot.id


async def turns(thread: Thread, seen: Collection[str], listener: Listener, roles: Roles) -> tuple[Turn, ...]:
    """Give the turns of a thread that were not seen, oldest first, each with its author's role looked up."""
    found = await asyncio.to_thread(_spoken, thread, frozenset(seen), listener)
    if _marked(thread, listener) or (thread.moved and any(turn.key == "issue" for turn in found)):
        events = [event async for event in _events(roles.door, roles.address, thread.number)]
        found += _marks(thread, seen, listener, events)
        renamers = {rest_actor(event["actor"]).id for event in events if event["event"] == "renamed"}
        found = [_renamed(turn, renamers) for turn in found]
    found = await _edited(roles.door, thread, found)
    known = [
        replace(turn, role=await roles.of(turn.actor), listed=bool(await roles.listed(turn.actor))) for turn in found
    ]
    return tuple(sorted(known, key=lambda turn: turn.at))


def _spoken(thread: Thread, seen: frozenset[str], listener: Listener) -> list[Turn]:
    """Read what speaks to the bot and was not seen; it may take seconds."""
    fresh = (said for said in thread.everything() if said.key not in seen and listener.hears(said.actor))
    return [_turn(thread, said, listener.mention) for said in fresh if listener.addressed(thread, said)]


async def strangers(thread: Thread, listener: Listener, roles: Roles) -> bool:
    """Tell whether anybody speaks on a thread who can only read here; who cannot be looked up counts as one."""
    speakers = {said.actor.id: said.actor for said in thread.everything() if said.actor.id != listener.bot.id}
    for speaker in speakers.values():
        if (await roles.of(speaker) or Role.NONE) < Role.TRIAGE:
            return True
    return False


def _turn(thread: Thread, said: Said, mention: str) -> Turn:
    """Read a turn as people see it. A command keeps its line, mention and all, as its first line."""
    shows = [visible(part) for part in said.parts]
    text = "\n\n".join(without_mention(part.text, mention) for part in shows).strip()
    lines = (line for body in said.words for line in command_lines(body))
    command = next((line for line in lines if parse(line, mention) is not None), "")
    if command:
        rest = [line for line in text.split("\n") if line.strip() != without_mention(command, mention)]
        text = "\n".join((command, *rest)).strip()
    if said.key == "issue":
        shows.insert(0, visible_title(thread.title))
        text = _titled(shows[0].text, text)
    hidden = tuple(fragment for part in shows for fragment in part.removed)
    hands = _hands(said, said.actor)
    return Turn(
        said.key, said.actor, text, said.at, edited=said.edited, foreign=said.edited, hands=hands, hidden=hidden
    )


def _hands(said: Said, who: Actor) -> tuple[int, ...]:
    """Give the accounts beside that one whose words these may be."""
    return tuple(sorted({hand.id for hand in (said.actor, *said.editors)} - {0, who.id}))


def _titled(title: str, text: str) -> str:
    """Put the title before a text, as a heading: what stands in it is no command."""
    return f"# {title}\n\n{text}".strip()


def _renamed(turn: Turn, renamers: Collection[int]) -> Turn:
    """Say of a turn with the thread's title whose words that may be, too: everybody's who ever renamed the thread."""
    others = {*renamers} - {turn.actor.id}
    if not others or not (turn.key == "issue" or turn.mark):
        return turn
    return replace(turn, foreign=True, hands=tuple(sorted({*turn.hands, *others} - {0})))


async def _edited(door: Door, thread: Thread, found: Collection[Turn]) -> list[Turn]:
    """Say of turns that were edited whose words these may be: everybody's who ever edited them, not the last one's."""
    said = {said.key: said.changed for said in thread.everything()}
    texts = {turn.key: said.get(turn.key, thread.opened.changed) for turn in found if turn.edited}
    try:
        by = await editors(door, [text for some in texts.values() for text in some])
    except Refused as error:
        _log.warning("who edited what was said cannot be seen on #%s, but for the last: %s", thread.number, error)
        return list(found)
    hands = {key: {who for text in some for who in by[text]} for key, some in texts.items()}
    return [
        replace(turn, hands=tuple(sorted({*turn.hands, *hands.get(turn.key, ())} - {0, turn.actor.id})))
        for turn in found
    ]


def _marked(thread: Thread, listener: Listener) -> frozenset[str]:
    """Give which events may be marks, while these are there."""
    wanted = {"labeled": LABEL in thread.labels, "assigned": listener.bot.id in thread.assignees}
    return frozenset(kind for kind, there in wanted.items() if there and not thread.pull_request)


def _marks(thread: Thread, seen: Collection[str], listener: Listener, events: Iterable[Json]) -> Iterator[Turn]:
    """Give the label, or the bot's assignment, as a turn of who set it; the newest of each."""
    wanted, newest = _marked(thread, listener), dict[str, Json]()
    for event in events:
        kind = event["event"]
        if kind in wanted and _about_us(event, listener.bot):
            newest[kind] = event
    title, shows = visible_title(thread.title), visible(thread.opened.body)
    text, hidden = _titled(title.text, without_mention(shows.text, listener.mention)), (*title.removed, *shows.removed)
    for kind, event in newest.items():
        who = rest_actor(event.get("assigner") or event["actor"])
        key = f"{'label' if kind == 'labeled' else kind}-{event['id']}"
        if listener.hears(who) and key not in seen:
            foreign = thread.opened.edited or thread.opened.actor.id != who.id
            at, edited, hands = time(event["created_at"]), thread.opened.edited, _hands(thread.opened, who)
            said = Turn(key, who, text, at, edited=edited, foreign=foreign, hands=hands, hidden=hidden)
            yield replace(said, mark=True)


async def _events(door: Door, address: Address, number: int) -> AsyncIterator[Json]:
    """List what was done to a thread; nothing where this token may not see it.

    https://docs.github.com/en/rest/issues/events#list-issue-events
    """
    try:
        async for event in door.pages(f"{address.path}/issues/{number}/events"):
            yield event
    except Refused:
        _log.warning("who set the label, assigned the bot or renamed it cannot be seen on #%s", number)


def _about_us(event: Json, bot: Actor) -> bool:
    if event["event"] == "labeled":
        return bool(event["label"]["name"] == LABEL)
    return bool((event.get("assignee") or {}).get("id") == bot.id)
