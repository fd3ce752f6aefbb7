"""Reads everything that can answer a question: one query, then the roles of the people who spoke.

A failed read makes the snapshot incomplete, never empty (A3). This module decides nothing; core/question.py does.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from bot.core import marker
from bot.core.errors import PlangateError
from bot.core.markdown.visible import visible_title, without_mention
from bot.core.names import ThreadNumber
from bot.core.question import AnswerComment, AnswerSnapshot, Author, BoxEdit, grant_of
from bot.core.turn import MAIL_NOTE, Actor, Command, UnknownCommand, first_line, mention_pattern, parse
from bot.github.client import Json
from bot.github.edit_history import EDIT_FIELDS, provenances, versions
from bot.github.permissions import Roles
from bot.github.responses import WHO, actor, time
from bot.github.threads import COMMENTS, ThreadPost, Threads, is_closed
from bot.github.turns import BotIdentity, ParsedText, ParsedTextCache

_BOX: Final = re.compile(r"- \[([ xX])\] ")
_QUOTED: Final = re.compile(r"\s*(?:(?:[-*+]|\d+[.)])\s+)*>")
"""The beginning of a quoted line, also one in a list."""
_SUBJECT: Final = "closed comments(last: 100) { ...comments }"
# https://docs.github.com/en/graphql/reference/objects#issuecomment
_QUERY: Final = f"""
query ($owner: String!, $name: String!, $number: Int!, $question: ID!) {{
  repository(owner: $owner, name: $name) {{
    databaseId
    issueOrPullRequest(number: $number) {{
      __typename
      ... on Issue {{ {_SUBJECT} }}
      ... on PullRequest {{ {_SUBJECT} merged }}
    }}
  }}
  node(id: $question) {{
    ... on IssueComment {{ isMinimized {EDIT_FIELDS} }}
  }}
}}
{COMMENTS} {WHO}
"""


@dataclass(frozen=True, slots=True)
class AnswerReader:
    """Reads the possible answers on one thread."""

    threads: Threads
    identity: BotIdentity
    roles: Roles
    """The roles looked up for this one check."""
    parsed_texts: ParsedTextCache
    may: Callable[[Author], bool]
    """Whether this person's words can be the answer. Comments by anybody else are not parsed."""

    async def read(self, number: ThreadNumber, shown: str, posted: str, boxes: int) -> AnswerSnapshot:
        """Return a live snapshot of the question in a comment (`shown`: its node id), which was posted as `posted`.

        A GitHub error makes the snapshot incomplete.
        """
        try:
            variables = {**self.threads.address.variables, "number": number, "question": shown}
            data = await self.threads.client.node(_QUERY, variables)
            return await self._read(number, data, posted, boxes)
        except PlangateError:
            return AnswerSnapshot(complete=False)

    async def _read(self, number: ThreadNumber, data: Json, posted: str, boxes: int) -> AnswerSnapshot:
        """Return the answers to a question from GitHub's data."""
        subject = (data["repository"] or {}).get("issueOrPullRequest")
        if not subject:
            return AnswerSnapshot(complete=False)
        node = data["node"]
        if not node or actor(node["author"]).id != self.identity.bot.id:
            return AnswerSnapshot(open=not is_closed(subject), gone=True, ticked=None)
        posted_at = time(node["createdAt"])
        comments = await self.threads.comments_since(number, subject["comments"], posted_at)
        newer = [comment for comment in comments if comment.at > posted_at and self.identity.accepts(comment.actor)]
        edits = list(_edits(node, posted, boxes))
        people = {comment.actor for comment in newer} | {by for by, *_ in edits}
        await self.roles.prefetch_roles(people)
        authors = {who: Author(who, await self.roles.of(who), bool(await self.roles.is_listed(who))) for who in people}
        permitted = [comment for comment in newer if self.may(authors[comment.actor])]
        spoken = await asyncio.to_thread(lambda: [comment for comment in permitted if self._can_answer(comment)])
        edited = await provenances(self.threads.client, [said.node for said in spoken if said.edited])
        return AnswerSnapshot(
            tuple(BoxEdit(authors[by], at, before, after) for by, at, before, after in edits),
            tuple(
                AnswerComment(
                    said.key,
                    authors[said.actor],
                    said.at,
                    self._text(said),
                    said.edited,
                    said.by_mail,
                    tuple(sorted({said.actor.id, *edited[said.node].editors} if said.edited else {said.actor.id})),
                )
                for said in spoken
            ),
            None if node["isMinimized"] else ticks(node["body"], posted, boxes),
            open=not is_closed(subject),
            complete=all(who.role is not None for who in authors.values()),
        )

    def _can_answer(self, post: ThreadPost) -> bool:
        """Return whether a comment can be an answer: it addresses the bot or everybody, and holds no command."""
        text, parsed = self._own_text(post), self._parse(post)
        commands = (parse(line, self.identity.mention) for line in parsed.lines)
        is_for_bot = any(
            isinstance(command, Command) or (isinstance(command, UnknownCommand) and command.nearest)
            for command in commands
        )
        first = without_mention(next(iter(parsed.lines), ""), self.identity.mention)
        is_said = post.by_mail or grant_of(text) is None or grant_of(first) is not None  # a quotation allows nothing
        return bool(text) and not is_for_bot and is_said and (parsed.speaks or mention_pattern().match(text) is None)

    def _text(self, post: ThreadPost) -> str:
        """Return the text of a comment that counts as its answer, with a note if it was sent by mail."""
        return f"{self._own_text(post)}\n\n{MAIL_NOTE}" if post.by_mail else self._own_text(post)

    def _own_text(self, post: ThreadPost) -> str:
        """Return the visible text that is surely the author's own: no quotations, and only the first line of a mail."""
        first = visible_title(first_line(post.body)).text
        shown = first if post.by_mail else self._parse(post).shown.text
        own = "\n".join(line for line in shown.split("\n") if not _QUOTED.match(line))
        return without_mention(own, self.identity.mention).strip()

    def _parse(self, post: ThreadPost) -> ParsedText:
        return self.parsed_texts.parse(post.body, self.identity.mention, by_mail=post.by_mail)


def ticks(text: str | None, posted: str, boxes: int) -> frozenset[int] | None:
    """Return the numbers of the ticked boxes among the last `boxes` of a text.

    Returns None unless the text is `posted`, apart from its boxes.
    """
    if text is None:
        return None
    empty, on = _boxes(text, boxes)
    return on if empty == _boxes(posted, boxes)[0] else None


def _boxes(text: str, count: int) -> tuple[str, frozenset[int]]:
    """Return a text and the numbers of those of its last `count` boxes that were ticked.

    The text comes back without its marker and with these boxes unticked.
    """
    lines = marker.without(text).split("\n")
    places = [at for at, line in enumerate(lines) if _BOX.match(line)][-count:]
    on = frozenset(box for box, at in enumerate(places) if lines[at][3] != " ")
    for at in places:
        lines[at] = _BOX.sub("- [ ] ", lines[at], count=1)
    return "\n".join(lines), on


def _edits(node: Any, posted: str, boxes: int) -> Iterator[tuple[Actor, datetime, frozenset[int] | None, Any]]:
    """Yield each edit with its author, its time, and the boxes that were ticked before and after it."""
    for before, after in pairwise(versions(node, posted)):
        was, now = ticks(before.text, posted, boxes), ticks(after.text, posted, boxes)
        if was != now or was is None:
            yield after.by, after.at, was, now
