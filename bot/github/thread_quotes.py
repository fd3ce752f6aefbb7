"""The quoted thread: the part of other people's texts that the planner is shown, attributed (K7, K8, S9)."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from bot.core.brief import Passage
from bot.core.errors import PlangateError
from bot.core.markdown.elements import cut_middle
from bot.core.markdown.visible import visible_title
from bot.core.turn import Actor, Role, is_repost
from bot.github.client import GitHubClient, Json
from bot.github.edit_history import Provenance, provenances
from bot.github.permissions import Roles
from bot.github.responses import rest_actor, time
from bot.github.threads import CATCH_UP, GitHubThread, ThreadPost, Threads
from bot.github.turns import BotIdentity, ParsedTextCache

# --- Attribution of what people wrote (K8, S9) -----------------------------------------------------------------------
# A session that may not read what somebody wrote does not get it. A text counts as foreign unless its author may ask,
# nobody else ever edited it, it was not sent by mail, and it repeats nothing that was posted elsewhere. The bot's own
# words count as foreign, too, because those may quote somebody. What is withheld is not parsed.

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


# --- The quoted thread (K7) ------------------------------------------------------------------------------------------
# It is the part of other people's texts that the planner is shown, and what was removed from it.
#
# Rules
# - The opening post is always shown, and then the newest entries that fit. The task itself is not quoted again.
# - It reads at most CATCH_UP comments, and shows at most 80,000 characters. The session may read more with GitHubRead.
# - Anybody can write on a thread, so a text is measured before it is parsed, and all parsed text together is limited.
# - The visible text is cut, never the source: a cut in Markdown could show what its author hid, and hide what everybody
#   saw.

OPENING_LIMIT: Final = 20_000
"""Characters of the opening post that are shown; its middle is cut."""
ENTRIES_LIMIT: Final = 60_000
"""Characters that all other entries together may take."""
ENTRY_LIMIT: Final = 4_000
"""Characters that one of them may take; its middle is cut."""
PARSED_LIMIT: Final = 150_000
"""Characters of source that are parsed for the other entries, whoever wrote them: two seconds at worst."""


@dataclass(frozen=True, slots=True)
class _Quotation:
    """One quoted post, and the invisible text that was removed from it."""

    said: ThreadPost
    text: str
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadQuotes:
    """Quotes one thread for the bot."""

    thread: GitHubThread
    parsed_texts: ParsedTextCache
    identity: BotIdentity
    requested: frozenset[str] = frozenset()
    """Keys and global ids of the posts that are part of the task."""

    def text(self) -> str:
        """Return the posts as people see them, quoted and attributed: the opening post, then the newest entries."""
        entries = self._newest_entries()
        title = f"> Title: {visible_title(self.thread.title).text}"
        opening = self._quote(self.thread.opened, OPENING_LIMIT).text
        omitted = self._omission_line([entry.said for entry in entries])
        return "\n\n".join(filter(None, (title, opening, omitted, *(entry.text for entry in entries))))

    def hidden_fragments(self) -> tuple[str, ...]:
        """Return the invisible fragments of what is quoted, except the bot's."""
        opening = self._quote(self.thread.opened, OPENING_LIMIT)
        others = [quote for quote in (opening, *self._newest_entries()) if quote.said.actor.id != self.identity.bot.id]
        about = opening in others and opening.said.key not in self.requested
        title = visible_title(self.thread.title).removed if about else ()
        return (*title, *(fragment for quote in others for fragment in quote.hidden))

    def _newest_entries(self) -> list[_Quotation]:
        """Return the newest entries that fit, oldest first."""
        return list(self._newest_first())[::-1]

    def _newest_first(self) -> Iterator[_Quotation]:
        """Yield the quoted posts, newest first, as far as ENTRIES_LIMIT allows."""
        room, parsing = ENTRIES_LIMIT, PARSED_LIMIT
        for post in reversed(self.thread.everything()):
            if post is self.thread.opened:
                continue
            source = sum(map(len, post.parts))
            in_task = self._is_in_task(post)
            if in_task or source <= parsing:
                parsing -= 0 if in_task else source
                entry = self._quote(post, ENTRY_LIMIT)
            else:
                entry = _Quotation(post, f"> {_attribution(post)} ({source:,} characters, too long to be read here.)")
            room -= len(entry.text) + 2
            if room < 0:
                return
            yield entry

    def _quote(self, post: ThreadPost, limit: int) -> _Quotation:
        if self._is_in_task(post) and not post.by_mail:  # the task has one line of a mail
            return _Quotation(post, f"> {_attribution(post)} (These words are in the task.)")
        parse, mention = self.parsed_texts.parse, self.identity.mention
        shows = [parse(part, mention, by_mail=post.by_mail).shown for part in post.parts]
        body = cut_middle("\n\n".join(shown.text for shown in shows), limit)
        lines = (f"> {line}".rstrip() for line in (_attribution(post), *body.split("\n")))
        own = [shown for shown in shows if not self._is_in_task(post)]  # the turn itself tells what it hid
        return _Quotation(post, "\n".join(lines), tuple(fragment for shown in own for fragment in shown.removed))

    def _is_in_task(self, post: ThreadPost) -> bool:
        return not self.requested.isdisjoint({post.key, post.node})

    def _omission_line(self, shown: Iterable[ThreadPost]) -> str:
        """Return the line that says what is not shown, and how to read it; "" if everything is shown."""
        thread, keys = self.thread, {post.key for post in shown}
        comments = max(thread.comment_count, len(thread.comments)) - sum(post.key in keys for post in thread.comments)
        missing = [f"{comments:,} earlier comment{'s' * (comments != 1)}"] if comments else []
        if thread.older_reviews or not all(post.key in keys for post in thread.reviews):
            missing.append("earlier reviews")
        call = f'GitHubRead{{what: "comments", number: {thread.number}, page: 1}}'
        return f"> ({' and '.join(missing)} left out here. To read them: {call}.)" if missing else ""


async def with_older_comments(threads: Threads, thread: GitHubThread) -> GitHubThread:
    """Return a thread with as many older comments as can be quoted, read a page at a time, up to CATCH_UP."""
    while thread.older and len(thread.comments) < CATCH_UP and _shown_size(thread) < ENTRIES_LIMIT:
        comments, cursor = await threads.before(thread.number, thread.older)
        thread = replace(thread, comments=(*comments, *thread.comments), older=cursor)
    return thread


def _shown_size(thread: GitHubThread) -> int:
    """Return an upper limit of the characters that the entries take, by the size of their sources."""
    return sum(min(ENTRY_LIMIT, sum(map(len, post.parts))) for post in (*thread.comments, *thread.reviews))


def _attribution(post: ThreadPost) -> str:
    edited = ", edited" if post.edited else ""
    by_mail = ", sent by mail (parts may be other people's words)" if post.by_mail else ""
    return f"@{post.actor.login} at {post.at:%Y-%m-%d %H:%M} UTC{edited}{by_mail}:"
