"""Reads the edit history of the plan comment, in which ticks explain edits, and the editors of other texts.

An edit is explained if the comment showed an accepted text before and after it, ignoring the one box. Accepted texts
are the posted one and those that the bot wrote when the work began, as the journal records. The time of the last
unexplained edit is `History.since`: no older opinion counts, even if that edit restored the posted text.
https://docs.github.com/en/graphql/reference/objects#usercontentedit
"""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final

from bot.core.turn import Actor
from bot.github.client import AT_ONCE, GitHubClient, Json
from bot.github.comments import is_ticked, untick
from bot.github.responses import WHO, actor, time

EDIT_FIELDS: Final = """
  body createdAt lastEditedAt author { ...who } editor { ...who }
  userContentEdits(first: 100) { totalCount nodes { editedAt deletedAt diff editor { ...who } } }
"""
"""The GraphQL fields of a comment or an issue that `versions` needs."""

_EDITORS: Final = f"""
query ($ids: [ID!]!, $after: String) {{
  nodes(ids: $ids) {{ ... on Comment {{ createdViaEmail userContentEdits(first: 100, after: $after) {{
    nodes {{ editor {{ ...who }} }} pageInfo {{ hasNextPage endCursor }}
  }} }} }}
}}
{WHO}
"""


@dataclass(frozen=True, slots=True)
class Version:
    """A text that the comment showed from `at` on, and who wrote it. `text` is None if GitHub no longer has it."""

    at: datetime
    by: Actor
    text: str | None


@dataclass(frozen=True, slots=True)
class BoxTick:
    """Who ticked the one box, and when. The box is still ticked."""

    by: Actor
    at: datetime


@dataclass(frozen=True, slots=True)
class History:
    """Summary of the edits of a comment."""

    since: datetime
    """Time since which the comment has shown its present text, ignoring ticks."""
    intact: bool
    """Whether it shows the posted text."""
    tick: BoxTick | None


@dataclass(frozen=True, slots=True)
class Provenance:
    """Who may have written parts of a text, apart from its author. Names nobody for a text that is gone."""

    editors: frozenset[int]
    """The numeric ids of everybody who ever edited it."""
    by_mail: bool
    """Whether it was sent by mail, so that it may quote anybody (A6)."""


async def provenances(client: GitHubClient, texts: Sequence[str]) -> dict[str, Provenance]:
    """Return the provenance of each text, by its global id."""
    found: dict[str, Provenance] = {}
    for start in range(0, len(texts), AT_ONCE):
        some = texts[start : start + AT_ONCE]
        data = await client.graphql(_EDITORS, {"ids": some, "after": None}, partial=True)
        for text, node in zip(some, data["nodes"], strict=True):
            editors = frozenset([who async for who in _editors(client, text, node)])
            found[text] = Provenance(editors, by_mail=bool(node and node["createdViaEmail"]))
    return found


async def _editors(client: GitHubClient, text: str, node: Json | None) -> AsyncIterator[int]:
    """Yield the ids of the accounts that edited a text, from all pages."""
    while page := (node or {}).get("userContentEdits"):
        for edit in page["nodes"] or []:
            yield actor(edit["editor"]).id
        if not page["pageInfo"]["hasNextPage"]:
            return
        more = {"ids": [text], "after": page["pageInfo"]["endCursor"]}
        (node,) = (await client.graphql(_EDITORS, more, partial=True))["nodes"]


def history(node: Json, posted: str, begun: Sequence[str] = ()) -> History:
    """Return the edit history of a comment: posted as `posted`, perhaps changed by the bot to one of `begun`."""
    own_texts = frozenset(map(untick, (posted, *begun)))
    past = versions(node, posted)
    unexplained = [
        after.at for before, after in pairwise(past) if not (_shows(before, own_texts) and _shows(after, own_texts))
    ]
    since = max([time(node["createdAt"]), *unexplained])
    return History(since, untick(node["body"]) in own_texts, _tick(past))


def versions(node: Json, posted: str) -> Sequence[Version]:
    """Return what the comment showed, from its posting until now.

    GitHub lists edits newest first, each with the full text after it, and the posting itself as the first edit. The
    text of the newest edit is taken from the comment itself, whatever the list has.
    """
    created_at = time(node["createdAt"])
    edits = node["userContentEdits"] or {"totalCount": 0, "nodes": []}
    edited = [_version(edit) for edit in reversed(edits["nodes"] or [])]
    # The posting itself is kept as well: an edit within the same second differs from it only in its text.
    edited = sorted((version for version in edited if version.at >= created_at), key=lambda version: version.at)
    if edits["totalCount"] > len(edits["nodes"] or []):
        # GitHub did not list them all: the older ones are unknown.
        edited.insert(0, Version(created_at, actor(None), None))
    first = Version(created_at, actor(node.get("author")), posted)
    if node["lastEditedAt"] is None:
        return [first, *edited]
    newest = Version(time(node["lastEditedAt"]), actor(node["editor"]), node["body"])
    older = [version for version in edited if version.at != newest.at]
    # A list without the newest edit may be incomplete: what was shown before that edit is unknown.
    unknown = [] if len(older) < len(edited) else [Version(newest.at, actor(None), None)]
    return [first, *older, *unknown, *_at(edited, newest)]


def _at(edited: Sequence[Version], newest: Version) -> Sequence[Version]:
    """Return the versions of the newest second, ending with what is shown now."""
    return [*[version for version in edited if version.at == newest.at][:-1], newest]


def _version(edit: Json) -> Version:
    text = edit["diff"] if edit["deletedAt"] is None else None
    return Version(time(edit["editedAt"]), actor(edit["editor"]), text)


def _shows(version: Version, texts: Collection[str]) -> bool:
    return version.text is not None and untick(version.text) in texts


def _tick(versions: Sequence[Version]) -> BoxTick | None:
    """Return the newest edit that ticked the box, if the box is still ticked."""
    if versions[-1].text is None or not is_ticked(versions[-1].text):
        return None
    turned = [
        after
        for before, after in pairwise(versions)
        if after.text is not None and is_ticked(after.text) and (before.text is None or not is_ticked(before.text))
    ]
    return BoxTick(turned[-1].by, turned[-1].at) if turned else None
