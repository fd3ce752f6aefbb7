"""What became of the plan comment: every edit that it ever had, explained by a tick or not (product.md, Approval); and
who ever edited what others said.

An edit is explained when the comment showed the posted text before and after it, the one box aside, or what the bot
made of that when the work began, as the journal accounts for it. The last edit that is not explained is when the plan,
as it is shown now, began to be shown.
https://docs.github.com/en/graphql/reference/objects#usercontentedit
"""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final

from bot.core.actor import Actor
from bot.github.client import AT_ONCE, GitHubClient, Json
from bot.github.comments import is_ticked, untick
from bot.github.people import WHO, actor, time

EDITS: Final = """
fragment edits on IssueComment {
  body createdAt lastEditedAt editor { ...who }
  userContentEdits(first: 100) { totalCount nodes { editedAt deletedAt diff editor { ...who } } }
}
"""

_EDITORS: Final = f"""
query ($ids: [ID!]!, $after: String) {{
  nodes(ids: $ids) {{
    ... on Comment {{
      userContentEdits(first: 100, after: $after) {{
        nodes {{ editor {{ ...who }} }}
        pageInfo {{ hasNextPage endCursor }}
      }}
    }}
  }}
}}
{WHO}
"""


@dataclass(frozen=True, slots=True)
class Version:
    """What the comment showed from a moment on, by whom; None where GitHub no longer says what it was."""

    at: datetime
    by: Actor
    text: str | None


@dataclass(frozen=True, slots=True)
class Tick:
    """Somebody ticked the one box, and it is ticked still."""

    by: Actor
    at: datetime


@dataclass(frozen=True, slots=True)
class History:
    """What the edits of a comment come to."""

    since: datetime
    """From when on the comment shows what it shows now, ticks aside."""
    intact: bool
    """It shows the posted text."""
    tick: Tick | None


async def editors(door: GitHubClient, texts: Sequence[str]) -> dict[str, frozenset[int]]:
    """Give the numeric ids of all who ever edited some texts, by the texts' global ids; nobody for one that is gone."""
    found: dict[str, frozenset[int]] = {}
    for start in range(0, len(texts), AT_ONCE):
        some = texts[start : start + AT_ONCE]
        data = await door.graphql(_EDITORS, {"ids": some, "after": None}, partial=True)
        for text, node in zip(some, data["nodes"], strict=True):
            found[text] = frozenset([who async for who in _editors(door, text, node)])
    return found


async def _editors(door: GitHubClient, text: str, node: Json | None) -> AsyncIterator[int]:
    """Yield who edited a text, on from the first page to the last."""
    while page := (node or {}).get("userContentEdits"):
        for edit in page["nodes"] or []:
            yield actor(edit["editor"]).id
        if not page["pageInfo"]["hasNextPage"]:
            return
        more = {"ids": [text], "after": page["pageInfo"]["endCursor"]}
        (node,) = (await door.graphql(_EDITORS, more, partial=True))["nodes"]


def history(node: Json, posted: str, begun: Sequence[str] = ()) -> History:
    """Read the edits of a comment that was posted with this text, and that may show others of the bot's since."""
    wanted = frozenset(map(untick, (posted, *begun)))
    shown = versions(node, posted)
    unexplained = [
        after.at for before, after in pairwise(shown) if not (_shows(before, wanted) and _shows(after, wanted))
    ]
    since = max([time(node["createdAt"]), *unexplained])
    return History(since, untick(node["body"]) in wanted, _tick(shown))


def versions(node: Json, posted: str) -> Sequence[Version]:
    """List what the comment showed, from the posting to now.

    GitHub lists edits newest first, each with the whole text after it, and the posting itself as the first. Of the
    newest one the text is what the comment shows now, whatever the list says.
    """
    made = time(node["createdAt"])
    edits = node["userContentEdits"] or {"totalCount": 0, "nodes": []}
    listed = [_version(edit) for edit in reversed(edits["nodes"] or [])]
    # The posting itself is kept as well: an edit of the same second looks like it, but for its text.
    listed = sorted((version for version in listed if version.at >= made), key=lambda version: version.at)
    if edits["totalCount"] > len(edits["nodes"] or []):
        listed.insert(0, Version(made, actor(None), None))  # more than are listed: nothing is known of the older ones
    first = Version(made, actor(node.get("author")), posted)
    if node["lastEditedAt"] is None:
        return [first, *listed]
    newest = Version(time(node["lastEditedAt"]), actor(node["editor"]), node["body"])
    older = [version for version in listed if version.at != newest.at]
    # A list without the newest one cannot be trusted to be whole: what was shown before it is not known.
    unknown = [] if len(older) < len(listed) else [Version(newest.at, actor(None), None)]
    return [first, *older, *unknown, *_at(listed, newest)]


def _at(listed: Sequence[Version], newest: Version) -> Sequence[Version]:
    """Give the versions of the newest second; the last of them is what is shown now."""
    return [*[version for version in listed if version.at == newest.at][:-1], newest]


def _version(edit: Json) -> Version:
    text = edit["diff"] if edit["deletedAt"] is None else None
    return Version(time(edit["editedAt"]), actor(edit["editor"]), text)


def _shows(version: Version, wanted: Collection[str]) -> bool:
    return version.text is not None and untick(version.text) in wanted


def _tick(versions: Sequence[Version]) -> Tick | None:
    """Give the newest edit that turned the box on, while it is on."""
    if versions[-1].text is None or not is_ticked(versions[-1].text):
        return None
    turned = [
        after
        for before, after in pairwise(versions)
        if after.text is not None and is_ticked(after.text) and (before.text is None or not is_ticked(before.text))
    ]
    return Tick(turned[-1].by, turned[-1].at) if turned else None
