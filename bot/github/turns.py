"""Finds the turns of a thread: the things that a person says to the bot."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from threading import Lock
from typing import Final

from bot.core.codepoints import without_invisible_runs
from bot.core.errors import Refused
from bot.core.markdown.visible import (
    LIMIT,
    Visible,
    command_lines,
    may_name,
    mentions,
    newlines,
    visible_text,
    visible_title,
    without_mention,
)
from bot.core.turn import (
    MAIL_NOTE,
    Actor,
    ActorKind,
    Role,
    Turn,
    addressing_line,
    first_line,
    is_repost,
    parse,
    without_item_mark,
)
from bot.github.client import GitHubClient, Json
from bot.github.edit_history import provenances
from bot.github.permissions import Roles
from bot.github.repository import Address
from bot.github.responses import rest_actor, time
from bot.github.threads import GitHubThread, ThreadPost

# --- Cache of parsed Markdown ----------------------------------------------------------------------------------------
# It is kept as long as the process lives. Parsing is the one part of a check whose cost depends on what somebody wrote,
# so each text is parsed once, however often its thread is checked. The key is a digest of the text itself. So an edit
# within the second of another edit, which `lastEditedAt` cannot tell apart, still counts as a new text.

REMEMBERED: Final = 4_000_000
"""Maximum characters that all cached texts hold together."""
_OVERHEAD: Final = 500
"""Characters that a parsed text without any words counts as."""


@dataclass(frozen=True, slots=True)
class ParsedText:
    """What a text shows, whether it addresses the bot, and which of its lines may be commands."""

    shown: Visible
    speaks: bool
    lines: tuple[str, ...]

    @property
    def size(self) -> int:
        """The characters that it counts as in the cache."""
        return _OVERHEAD + sum(map(len, (self.shown.text, *self.shown.removed, *self.lines)))


@dataclass(slots=True)
class ParsedTextCache:
    """The parsed texts of one process, evicted least recently used first. Safe to use from several threads."""

    limit: int = REMEMBERED
    parsed: int = field(default=0, init=False)
    """Number of texts parsed so far."""
    size: int = field(default=0, init=False)
    """Characters that the cached texts count as."""
    _known: OrderedDict[bytes, ParsedText] = field(default_factory=OrderedDict, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def parse(self, text: str, mention: str, *, by_mail: bool) -> ParsedText:
        """Return a text parsed for a bot with that mention, from the cache if it was parsed before.

        GitHub shows a text that was sent by mail as it is, as plain text (A6).
        """
        if by_mail:
            line = addressing_line(text, mention)
            shown = Visible(*without_invisible_runs(newlines(text)[:LIMIT]))
            return ParsedText(shown, bool(line), (line,) if line else ())
        key = blake2b(f"{mention}\n{text}".encode(errors="surrogatepass"), digest_size=32).digest()
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        parsed = ParsedText(visible_text(text), mentions(text, mention), command_lines(text))
        with self._lock:
            self._remember(key, parsed)
        return parsed

    def _remember(self, key: bytes, text: ParsedText) -> None:
        self.parsed += 1
        if key not in self._known:
            self._known[key] = text
            self.size += text.size
        while self.size > self.limit:
            _, forgotten = self._known.popitem(last=False)
            self.size -= forgotten.size


# --- The turns of a thread: what people say to the bot ---------------------------------------------------------------

LABEL: Final = "plangate"
MARKS: Final = ("label-", "assigned-")
"""Key prefixes of turns without a text of their own: the bot's label, and its assignment."""
SHORT: Final = 1_000
"""Maximum characters of a text by somebody who may not act that is still parsed, so that it can get a reaction."""
GLIMPSES: Final = 5
"""Maximum number of such texts per check. Each reaction delays others, and GitHub limits them to 500 an hour (E2)."""

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BotIdentity:
    """The bot's account, its name, and the numeric ids of the other bots that may address it."""

    bot: Actor
    mention: str = "@plangate"
    bots: frozenset[int] = frozenset()

    def accepts(self, actor: Actor) -> bool:
        """Return whether an account can address the bot at all: people and listed bots, but never the bot itself."""
        if actor.id in {0, self.bot.id}:
            return False
        return actor.kind is ActorKind.USER or (actor.kind is ActorKind.BOT and actor.id in self.bots)

    def may_be_addressed(self, thread: GitHubThread, post: ThreadPost) -> bool:
        """Return whether something that was said can address the bot, judged in linear time without parsing it."""
        texts = (*(map(first_line, post.words) if post.by_mail else post.words), *_title(thread, post))
        return self._is_reviewed(thread, post) or any(may_name(text, self.mention) for text in texts)

    def is_addressed(
        self, thread: GitHubThread, post: ThreadPost, parsed_texts: ParsedTextCache, *, is_renamed: bool = False
    ) -> bool:
        """Return whether something that was said addresses the bot.

        A title speaks for the opening post, unless somebody else may have written it (`is_renamed`).
        """
        texts = post.words if is_renamed else (*post.words, *_title(thread, post))
        return self._is_reviewed(thread, post) or any(
            may_name(text, self.mention) and parsed_texts.parse(text, self.mention, by_mail=post.by_mail).speaks
            for text in texts
        )

    def _is_reviewed(self, thread: GitHubThread, post: ThreadPost) -> bool:
        """Return whether a post is a review of the bot's own pull request, not sent by mail.

        Such a review always addresses the bot.
        """
        return post in thread.reviews and thread.opened.actor.id == self.bot.id and not post.by_mail


@dataclass(frozen=True, slots=True)
class TurnReader:
    """Reads the turns of threads. Looks up each author first, and parses a text only if its author may act.

    Other people's texts can only lead to a reaction, so only a few short ones are parsed. A text that is not a turn is
    returned with `aside` set and the key of its current version, so that once it is in the journal it is not judged
    again.
    """

    identity: BotIdentity
    roles: Roles
    """The roles for this one check."""
    parsed_texts: ParsedTextCache
    may_act: Callable[[Turn], bool]
    """Whether the author of an unread turn may ask or decide anything here."""

    async def turns(self, thread: GitHubThread, seen: Collection[str]) -> tuple[Turn, ...]:
        """Return the unseen turns of a thread, oldest first, each with its author's role."""
        unseen = {post.key: post for post in thread.everything() if {post.key, post.version}.isdisjoint(seen)}
        candidates, renamers = await self._candidate_turns(thread, seen, unseen)
        await self.roles.prefetch_roles({turn.actor for turn in candidates})
        with_roles = [await self._with_role(turn) for turn in candidates]
        is_renamed = renamers is None or not renamers <= {thread.opened.actor.id}
        turns = await asyncio.to_thread(lambda: list(self._read(thread, with_roles, is_renamed=is_renamed)))
        actionable = [turn for turn in turns if not turn.aside and self.may_act(turn)]
        by_key = {turn.key: turn for turn in await _with_editors(self.roles.client, thread, actionable)}
        turns = [_with_renamers(by_key.get(turn.key, turn), renamers) for turn in turns]
        keys = {turn.key for turn in turns} | {turn.key.partition("@")[0] for turn in turns}
        further = [_no_turn(_unread(post), post) for post in unseen.values() if post.key in thread.further - keys]
        return tuple(sorted((*turns, *further), key=lambda turn: turn.at))

    async def _candidate_turns(
        self, thread: GitHubThread, seen: Collection[str], posts: Mapping[str, ThreadPost]
    ) -> tuple[list[Turn], frozenset[int] | None]:
        """Return the possible turns, unread, and the ids of everybody who renamed the thread, if that matters.

        The ids are None if they are unknown.
        """
        identity = self.identity
        heard = (post for post in posts.values() if identity.accepts(post.actor))
        candidates = [_unread(post) for post in heard if identity.may_be_addressed(thread, post)]
        is_titled = thread.moved and any(turn.key == "issue" for turn in candidates)
        if not (is_titled or _marking_events(thread, identity)):
            return candidates, frozenset()
        events = await _events(self.roles.client, self.roles.address, thread.number)
        if events is None:
            return candidates, None
        renamers = {rest_actor(event["actor"]).id for event in events if event["event"] == "renamed"}
        return [*candidates, *_label_and_assignment(thread, seen, identity, events)], frozenset(renamers)

    async def _with_role(self, turn: Turn) -> Turn:
        is_listed = bool(await self.roles.is_listed(turn.actor))
        return replace(turn, role=await self.roles.of(turn.actor), listed=is_listed)

    def _read(self, thread: GitHubThread, turns: Collection[Turn], *, is_renamed: bool) -> Iterator[Turn]:
        """Yield the turns with the texts of people who may act, which may take seconds to parse.

        A turn whose author's role is unknown stays unread.
        """
        posts, glimpses = {post.key: post for post in thread.everything()}, 0
        is_addressed = partial(self.identity.is_addressed, thread, is_renamed=is_renamed)
        for turn in turns:
            if turn.role is None or (turn.mark and not self.may_act(turn)):
                yield turn
            elif turn.mark:
                yield self._read_mark(thread, turn)
            elif self.may_act(turn):
                addressed = is_addressed(posts[turn.key], self.parsed_texts)
                yield self._turn(thread, posts[turn.key], turn) if addressed else _no_turn(turn, posts[turn.key])
            else:
                short = glimpses < GLIMPSES and sum(map(len, posts[turn.key].words)) <= SHORT
                glimpses += short
                addressed = short and is_addressed(posts[turn.key], self.parsed_texts)
                yield turn if addressed else _no_turn(turn, posts[turn.key])

    def _turn(self, thread: GitHubThread, post: ThreadPost, turn: Turn) -> Turn:
        """Return a turn with its text as people see it.

        A command keeps its line, including the mention, as its first line. Of a text sent by mail, only the line that
        addresses the bot is part of the turn.
        """
        mention = self.identity.mention
        shows = [self._parse(part, post).shown for part in post.parts]
        text = "\n\n".join(without_mention(part.text, mention) for part in shows).strip()
        lines = [line for body in post.words for line in self._parse(body, post).lines]
        is_reposted = turn.strangers and not post.by_mail
        command = next((line for line in lines if not is_reposted and parse(line, mention) is not None), "")
        if post.by_mail:
            text = f"{command or without_mention(lines[0], mention)}\n\n{MAIL_NOTE}"
        elif command:
            own = without_mention(command, mention)
            others = [line for line in text.split("\n") if own not in {line.strip(), without_item_mark(line).strip()}]
            text = "\n".join((command, *others)).strip()
        if post.key == "issue":
            shows.insert(0, visible_title(thread.title))
            text = _with_title(without_mention(shows[0].text, mention), text)
        if not command:
            text = self._without_command(text)
        hidden = tuple(fragment for part in shows for fragment in part.removed)
        return replace(turn, text=text, hidden=hidden)

    def _read_mark(self, thread: GitHubThread, turn: Turn) -> Turn:
        """Return a turn by label or assignment with the text that it refers to: the issue's."""
        title, shows = visible_title(thread.title), self._parse(thread.opened.body, thread.opened).shown
        text = _with_title(*(without_mention(part.text, self.identity.mention) for part in (title, shows)))
        return replace(turn, text=self._without_command(text), hidden=(*title.removed, *shows.removed))

    def _without_command(self, text: str) -> str:
        """Return a text that holds no command, with a blank first line if its own first line looks like one."""
        return text if parse(text.partition("\n")[0], self.identity.mention) is None else f"\n{text}"

    def _parse(self, text: str, post: ThreadPost) -> ParsedText:
        return self.parsed_texts.parse(text, self.identity.mention, by_mail=post.by_mail)


async def has_strangers(thread: GitHubThread, identity: BotIdentity, roles: Roles) -> bool:
    """Return whether anybody on a thread has less than triage access, or may be quoted in a mail.

    A failed look-up counts as such a person.
    """
    speakers = {post.actor.id: post.actor for post in thread.everything() if post.actor.id != identity.bot.id}
    for speaker in speakers.values():
        if (await roles.of(speaker) or Role.NONE) < Role.TRIAGE:
            return True
    return any(map(_repeats_others, thread.everything()))


def _title(thread: GitHubThread, post: ThreadPost) -> tuple[str, ...]:
    """Return the title that belongs to a post: to the opening post alone, unless it was sent by mail (A6)."""
    return (thread.title,) if post.key == thread.opened.key and not post.by_mail else ()


def _unread(post: ThreadPost) -> Turn:
    """Return a post as a turn without its text.

    A post that was edited, sent by mail, or repeats what was posted elsewhere may contain others' words.
    """
    repeats_others = _repeats_others(post)
    turn = Turn(post.key, post.actor, "", post.at, edited=post.edited, by_mail=post.by_mail, version=post.version)
    editors = _other_writers(post, post.actor)
    return replace(turn, foreign=post.edited or repeats_others, strangers=repeats_others, editors=editors)


def _repeats_others(post: ThreadPost) -> bool:
    return post.by_mail or any(map(is_repost, post.words))


def _no_turn(turn: Turn, post: ThreadPost) -> Turn:
    """Return a text that is not a turn with `aside` set, under its version's key: an edit can make it one."""
    return replace(turn, key=post.version, aside=True, foreign=False, strangers=False, editors=())


def _other_writers(post: ThreadPost, who: Actor) -> tuple[int, ...]:
    """Return the ids of the accounts other than `who` that may have written parts of this text."""
    return tuple(sorted({hand.id for hand in (post.actor, *post.editors)} - {0, who.id}))


def _with_title(title: str, text: str) -> str:
    """Return a text with the title before it, as a heading. A command in the title does not count."""
    return f"# {title}\n\n{text}".strip() if title else text


def _with_renamers(turn: Turn, renamers: Collection[int] | None) -> Turn:
    """Add everybody who ever renamed the thread to the possible authors of a turn that includes the title.

    If they are unknown (None), anybody may have written it.
    """
    others = {*(renamers or ())} - {turn.actor.id}
    if not (others or renamers is None) or not (turn.key == "issue" or turn.mark):
        return turn
    return replace(turn, foreign=True, editors=tuple(sorted({*turn.editors, *others} - {0})))


async def _with_editors(client: GitHubClient, thread: GitHubThread, turns: Collection[Turn]) -> list[Turn]:
    """Add everybody who ever edited a turn, not only the last editor, to its possible authors."""
    changed = {post.key: post.changed for post in thread.everything()}
    texts = {turn.key: changed.get(turn.key, thread.opened.changed) for turn in turns if turn.edited}
    try:
        by = await provenances(client, [text for some in texts.values() for text in some])
    except Refused as error:
        _log.warning("only the last editor of each text can be seen on #%s: %s", thread.number, error)
        return list(turns)
    editors = {key: {who for text in some for who in by[text].editors} for key, some in texts.items()}
    return [
        replace(turn, editors=tuple(sorted({*turn.editors, *editors.get(turn.key, ())} - {0, turn.actor.id})))
        for turn in turns
    ]


def _marking_events(thread: GitHubThread, identity: BotIdentity) -> frozenset[str]:
    """Return the kinds of events that may be marks, as long as the label or the assignment is still set."""
    is_set = {"labeled": LABEL in thread.labels, "assigned": identity.bot.id in thread.assignees}
    return frozenset(kind for kind, is_present in is_set.items() if is_present and thread.pull is None)


def _label_and_assignment(
    thread: GitHubThread, seen: Collection[str], identity: BotIdentity, events: Iterable[Json]
) -> Iterator[Turn]:
    """Yield the newest label and the newest assignment of the bot, each as an unread turn by the person who set it."""
    kinds, newest = _marking_events(thread, identity), dict[str, Json]()
    for event in events:
        kind = event["event"]
        if kind in kinds and _is_about_us(event, identity.bot):
            newest[kind] = event
    for kind, event in newest.items():
        who = rest_actor(event.get("assigner") or event["actor"])
        key = f"{'label' if kind == 'labeled' else kind}-{event['id']}"
        if identity.accepts(who) and key not in seen:
            opened = replace(_unread(thread.opened), key=key, actor=who, at=time(event["created_at"]), mark=True)
            foreign, editors = opened.foreign or thread.opened.actor.id != who.id, _other_writers(thread.opened, who)
            yield replace(opened, foreign=foreign, editors=editors, by_mail=False)


async def _events(client: GitHubClient, address: Address, number: int) -> list[Json] | None:
    """Return the events of a thread; None if this token may not see them.

    https://docs.github.com/en/rest/issues/events#list-issue-events
    """
    try:
        return [event async for event in client.pages(f"{address.path}/issues/{number}/events")]
    except Refused:
        _log.warning("this token may not see who set the label, assigned the bot, or renamed #%s", number)
        return None


def _is_about_us(event: Json, bot: Actor) -> bool:
    if event["event"] == "labeled":
        return bool(event["label"]["name"] == LABEL)
    return bool((event.get("assignee") or {}).get("id") == bot.id)
