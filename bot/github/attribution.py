"""Attributes what people wrote, and withholds it from sessions that may not read it (K8, S9).

A text counts as foreign unless its author may ask, nobody else ever edited it, it was not sent by mail, and it repeats
nothing that was posted elsewhere. The bot's own words count as foreign, too, because those may quote somebody.
What is withheld is not parsed.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bot.core.actor import Actor, Role
from bot.core.errors import PlangateError
from bot.core.markdown.visible import visible_title
from bot.core.repository_text import Passage
from bot.core.reposts import is_repost
from bot.github.client import GitHubClient, Json
from bot.github.edit_history import Provenance, provenances
from bot.github.parsed_texts import ParsedTextCache
from bot.github.people import rest_actor, time
from bot.github.permissions import Roles
from bot.github.turns import BotIdentity

WITHHELD: Final = "(Withheld here, because people who may not ask may have written it.)"


@dataclass(frozen=True, slots=True)
class WrittenText:
    """One thing that somebody wrote: what it is, who wrote it, and what they wrote."""

    what: str
    actor: Actor
    node: str
    """Global id."""
    at: datetime
    markdown: str
    place: str = ""
    """The path and line that it is about."""
    title: str = ""
    """Lines such as a title and labels. Others than the author can change them, so not every session reads them."""

    @classmethod
    def of(cls, what: str, item: Json, *, place: str = "", title: str = "", at: str = "created_at") -> "WrittenText":
        """Return what an item of GitHub's REST API says."""
        who, body = rest_actor(item["user"]), item.get("body") or ""
        return cls(what, who, item["node_id"], time(item[at]), body, place, title)


@dataclass(frozen=True, slots=True)
class Attribution:
    """Attributes texts of one repository."""

    client: GitHubClient
    identity: BotIdentity
    roles: Roles
    parsed_texts: ParsedTextCache
    may_ask: Callable[[Actor, Role | None], bool]

    async def passages(self, items: Sequence[WrittenText], *, strangers: bool, longest: int) -> tuple[Passage, ...]:
        """Return a passage for each item, with at most `longest` characters of its text."""
        if not items:
            return ()
        known = await self._provenances(items)
        people = {item.node for item in items if item.actor.id != self.identity.bot.id}
        own = people & await self._select_trusted(items, known)
        mails = {node for node, provenance in known.items() if provenance.by_mail}

        def text_of(item: WrittenText) -> str:
            is_shown = strangers or item.node in own
            return self._text(item, longest, titled=strangers, by_mail=item.node in mails) if is_shown else WITHHELD

        texts = await asyncio.to_thread(lambda: [*map(text_of, items)])
        heads = [await self._head(item, by_mail=item.node in mails) for item in items]
        rows = zip(items, heads, texts, strict=True)
        return tuple(Passage(head, text, foreign=strangers and item.node not in own) for item, head, text in rows)

    async def is_trusted(self, actor: Actor) -> bool:
        """Return whether an account is the bot's own or belongs to somebody who may ask."""
        return actor.id == self.identity.bot.id or self.may_ask(actor, await self.roles.of(actor))

    def clean(self, text: str) -> str:
        """Return a text without secrets (X3)."""
        return self.client.redactor.redact(text)

    async def trusted_ids(self, items: Sequence[WrittenText]) -> set[str]:
        """Return the global ids of the texts that nobody but people who may ask, or the bot, can have written."""
        return await self._select_trusted(items, await self._provenances(items))

    async def _provenances(self, items: Sequence[WrittenText]) -> dict[str, Provenance]:
        """Return the provenance of each text, by its global id; none if it is unknown."""
        try:
            return await provenances(self.client, [text.node for text in items])
        except PlangateError:
            return {}

    async def _select_trusted(self, items: Sequence[WrittenText], known: Mapping[str, Provenance]) -> set[str]:
        await self.roles.prefetch_roles({text.actor for text in items})
        own = [text for text in items if text.node in known and await self.is_trusted(text.actor)]
        found = ((text, known[text.node]) for text in own)
        found = ((text, past) for text, past in found if not (past.by_mail or is_repost(text.markdown)))
        return {text.node for text, past in found if past.editors <= {text.actor.id}}

    async def _head(self, text: WrittenText, *, by_mail: bool) -> str:
        if text.actor.id == self.identity.bot.id:
            right = "the bot"
        else:
            right = "may ask" if await self.is_trusted(text.actor) else "may not ask"
        right += "; sent by mail: parts may be other people's words" if by_mail else ""
        return f"{text.what} by @{text.actor.login} ({right}), {text.at:%Y-%m-%d %H:%M} UTC"

    def _text(self, text: WrittenText, longest: int, *, titled: bool, by_mail: bool) -> str:
        shown = self.parsed_texts.parse(text.markdown, self.identity.mention, by_mail=by_mail).shown.text
        above = f"{text.title if titled else ''}\n{text.place}"
        lines = [line for above_line in above.splitlines() if (line := visible_title(above_line).text)]
        return cut(self.clean("\n\n".join(filter(None, ("\n".join(lines), shown)))), longest)


def cut(text: str, longest: int) -> str:
    """Return the beginning of a text, with a note if the rest was cut."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}\n[{len(text) - longest:,} more characters were cut]"
