"""The quoted thread: the part of other people's texts that the planner is shown, and what was removed from it (K7).

Rules
- The opening post is always shown, and then the newest entries that fit. What is part of the task is not quoted again.
- It reads at most CATCH_UP comments, and shows at most 80,000 characters. The session may read more with GitHubRead.
- Anybody can write on a thread, so a text is measured before it is parsed, and all parsed text together is limited.
- The visible text is cut, never the source: a cut in Markdown could bring to sight what its author hid, and hide what
  everybody saw.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from bot.core.lines import cut_middle
from bot.core.markdown.visible import visible_title
from bot.github.parsed_texts import ParsedTextCache
from bot.github.threads import CATCH_UP, GitHubThread, ThreadPost, Threads
from bot.github.turns import BotIdentity

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
    """Return the most characters that the entries can take, by the size of their sources."""
    return sum(min(ENTRY_LIMIT, sum(map(len, post.parts))) for post in (*thread.comments, *thread.reviews))


def _attribution(post: ThreadPost) -> str:
    edited = ", edited" if post.edited else ""
    by_mail = ", sent by mail (parts may be other people's words)" if post.by_mail else ""
    return f"@{post.actor.login} at {post.at:%Y-%m-%d %H:%M} UTC{edited}{by_mail}:"
