"""The bot's own comments on one thread: each exactly once, found again by its marker (E1), shown as it was meant.

Listing runs through all pages: GitHub lists the oldest first, and a look-up that missed the newest would post twice.
https://docs.github.com/en/rest/issues/comments
"""

import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bot.core import marker
from bot.core.actor import Actor
from bot.core.errors import Refused, Transient
from bot.core.markdown.inert import POSTED_CHARACTERS
from bot.core.markdown.visible import newlines
from bot.core.marker import NO_DIGEST, Key
from bot.core.names import ThreadNumber
from bot.core.turn import Acknowledgment
from bot.github.client import LAGS, GitHubClient, Json
from bot.github.errors import Unknown
from bot.github.people import time
from bot.github.repository import Address

BOX: Final = "- [ ] Approve this plan"
_TICKED: Final = re.compile(r"^- \[[xX]\] Approve this plan$", re.MULTILINE)
_ANY_TICK: Final = re.compile(r"^- \[[xX]\] ", re.MULTILINE)
_OUTDATED: Final = re.compile(r"\A\*\*Outdated\.\*\* [^\n]*\n\n")
_LOOK_AGAIN_SECONDS: Final = (3.0, 6.0, 12.0)
"""So long GitHub may take to show what it did, where its answer was lost, before that is done again."""
_log: Final = logging.getLogger(__name__)

# https://docs.github.com/en/rest/reactions/reactions#about-reactions
_SIGNS: Final = {Acknowledgment.SEEN: "eyes", Acknowledgment.MAY_NOT: "confused"}
# https://docs.github.com/en/graphql/reference/mutations
_MINIMISE: Final = """
mutation ($id: ID!) {
  minimizeComment(input: { subjectId: $id, classifier: OUTDATED }) { minimizedComment { isMinimized } }
}
"""
_REACT: Final = """
mutation ($id: ID!, $content: ReactionContent!) {
  addReaction(input: { subjectId: $id, content: $content }) { reaction { content } }
}
"""
_COMMENT: Final = "query ($id: ID!) { node(id: $id) { ... on IssueComment { fullDatabaseId body isMinimized } } }"


async def no_fence() -> None:
    """Fence nothing off: for comments that no other process can make."""


@dataclass(frozen=True, slots=True)
class Posted:
    """A comment of the bot's as GitHub shows it."""

    id: int
    node: str
    url: str
    body: str
    at: datetime


@dataclass(slots=True)
class Comments:
    """The bot's comments on one thread."""

    door: GitHubClient
    address: Address
    thread: ThreadNumber
    bot: Actor
    key: Key
    fence: Callable[[], Awaitable[None]] = no_fence
    """Asked just before a comment is made; raises Conflict where another process has the thread by now (E4)."""
    after: int = 0
    """The comments up to this one belong to what a journal that was set back has forgotten: none is looked up."""

    async def put(self, kind: str, ask: int, body: str, *, digest: str = NO_DIGEST) -> Posted:
        """Show a text as the one comment of that kind and ask: looked up, made or mended, and read back."""
        clean = self.door.redactor.redact(body).rstrip()
        text = f"{clean}\n\n{marker.make(kind, self.thread, ask, digest=digest, key=self.key)}"
        there = await self.find(kind, ask, digest) or await self._create(kind, ask, text, digest=digest)
        if same(there.body, text):
            return there
        return await self.edit(there.id, text)

    async def find(self, kind: str, ask: int, digest: str = "") -> Posted | None:
        """Return our oldest comment of that kind, ask and digest ("" for any), or None; reads all pages.

        A journal that begins anew counts its asks anew: without the digest, the comment of another plan would be
        taken for this plan's.
        """
        async for comment in self.door.pages(f"{self._path}/comments"):
            if int(comment["id"]) > self.after and self.ours(comment, kind, ask, digest):
                return _posted_comment(comment)
        return None

    def ours(self, comment: Json, kind: str, ask: int, digest: str = "") -> bool:
        """Tell whether a comment is the bot's own of that kind, ask and digest, by its author and its marker (A4)."""
        found = marker.parse(comment["body"] or "")
        return (
            found is not None
            and (comment["user"] or {}).get("id") == self.bot.id
            and (found.kind, found.thread, found.ask) == (kind, self.thread, ask)
            and digest in {"", found.digest}
            and found.holds(self.key.mac)
        )

    async def edit(self, ident: int, text: str) -> Posted:
        """Set a comment's text and read it back; raises Transient when GitHub shows another one."""
        text = self.door.redactor.redact(text)
        path = f"{self.address.path}/issues/comments/{ident}"
        await self.door.change(path, {"body": text})
        for pause in LAGS:
            if same((back := _posted_comment(await self.door.get(path))).body, text):
                return back
            await self.door.clock.sleep(pause)
        return _with_ticked_box(_posted_comment(await self.door.get(path)), text)

    async def supersede(self, node: str, why: str) -> None:
        """Say above a comment what replaced it, and fold it as outdated; one that is gone is no matter.

        Somebody may have edited it to any length, or it may say so already: the rest gives way to what is said now.
        """
        found = (await self.door.graphql(_COMMENT, {"id": node}, partial=True))["node"]
        if not found:
            return
        text = _mark_outdated(found["body"], why)
        if not same(found["body"], text):
            await self.edit(int(found["fullDatabaseId"]), text)
        if not found["isMinimized"]:
            await self.minimise(node)

    async def rewrite(self, node: str, text: str) -> None:
        """Set the text of a comment with a box; its tick and its marker stay as they are.

        Raises Conflict where another process has the thread by now, Transient where the comment is gone.
        """
        await self.fence()
        found = (await self.door.graphql(_COMMENT, {"id": node}, partial=True))["node"]
        if not found:
            raise Transient("the comment of the plan is gone", where=node, mend="look again")
        if same(found["body"], text):
            return
        if is_ticked(found["body"]):
            text = text.replace(BOX, BOX.replace("[ ]", "[x]"))
        last = newlines(found["body"]).rstrip().rpartition("\n")[2]
        await self.edit(int(found["fullDatabaseId"]), f"{text}\n\n{last}" if marker.parse(last) else text)

    async def fold(self, node: str) -> None:
        """Fold a comment as outdated, where it is still there."""
        found = (await self.door.graphql(_COMMENT, {"id": node}, partial=True))["node"]
        if found and not found["isMinimized"]:
            await self.minimise(node)

    async def minimise(self, node: str) -> None:
        """Fold a comment as outdated; folding it twice changes nothing."""
        await self.door.mutate(_MINIMISE, {"id": node})

    async def sign(self, key: str, sign: Acknowledgment) -> None:
        """Put a reaction under what a turn's key names; twice is the same as once.

        A place that is gone, and a locked conversation, where nobody can react, are no matter.
        https://docs.github.com/en/rest/reactions/reactions
        """
        kind, _, ident = key.rpartition("-")
        body = {"content": _SIGNS[sign]}
        try:
            match kind:
                case "comment":
                    path = f"{self.address.path}/issues/comments/{ident}/reactions"
                case "review-comment":
                    path = f"{self.address.path}/pulls/comments/{ident}/reactions"
                case "review":
                    await self._sign_review(ident, _SIGNS[sign].upper())
                    return
                case _:
                    path = f"{self._path}/reactions"
            await self.door.post(path, body, repeatable=True)
        except Refused as error:
            _log.info("no sign was put under %s: %s", key, error)

    async def _sign_review(self, ident: str, content: str) -> None:
        """React to a review, which REST has no way for."""
        review = await self.door.get(f"{self.address.path}/pulls/{self.thread}/reviews/{ident}")
        await self.door.mutate(_REACT, {"id": review["node_id"], "content": content})

    async def _create(self, kind: str, ask: int, text: str, *, digest: str) -> Posted:
        """Make a comment; after a lost answer look for it, and raise when it is not to be seen (yet).

        Where another process was quicker by less than the fence can tell, its comment is the one: ours says so, and is
        folded.
        """
        await self.fence()
        try:
            made = await self.door.post(f"{self._path}/comments", {"body": text})
        except Unknown:
            for pause in _LOOK_AGAIN_SECONDS:
                await self.door.clock.sleep(pause)
                if found := await self.find(kind, ask, digest):
                    return found
            raise
        there = await self._find_listed(kind, ask, made, digest=digest)
        if there.id < int(made["id"]):
            await self.supersede(str(made["node_id"]), f"The same stands in {there.url}: that comment counts.")
            return there
        return _with_ticked_box(there, text)

    async def _find_listed(self, kind: str, ask: int, made: Json, *, digest: str) -> Posted:
        """Read a new comment back from the list: what the next look-up missed there would be posted twice."""
        for pause in (*LAGS, 0.0):
            if found := await self.find(kind, ask, digest):
                return found
            await self.door.clock.sleep(pause)
        return _posted_comment(made)

    @property
    def _path(self) -> str:
        return f"{self.address.path}/issues/{self.thread}"


def _mark_outdated(body: str, why: str) -> str:
    """Give a comment with what replaced it above; its end, which holds the marker, stays."""
    rest = _OUTDATED.sub("", newlines(body), count=1).rstrip()
    mark = f"\n\n{rest.rpartition(chr(10))[2]}" if marker.parse(rest) else ""
    head = f"**Outdated.** {' '.join(why.split())}\n\n"
    return f"{head}{marker.without(rest)[: POSTED_CHARACTERS - len(head) - len(mark)]}{mark}"


def same(one: str, other: str) -> bool:
    """Tell whether two comments show the same, newlines, the hidden last line and what is ticked aside."""
    return _ANY_TICK.sub("- [ ] ", marker.without(one)) == _ANY_TICK.sub("- [ ] ", marker.without(other))


def untick(text: str) -> str:
    """Give a comment's text in the form to compare: without its marker, the one box empty."""
    plain = marker.without(text)
    return _TICKED.sub(BOX, plain, count=1) if len(_TICKED.findall(plain)) == 1 and BOX not in plain else plain


def is_ticked(text: str) -> bool:
    """Tell whether the one box of a comment is ticked."""
    return bool(_TICKED.search(marker.without(text)))


def _with_ticked_box(posted: Posted, text: str) -> Posted:
    if not same(posted.body, text):
        raise Transient("GitHub shows another text than was posted", where=posted.url, mend="look at the comment")
    return posted


def _posted_comment(comment: Json) -> Posted:
    return Posted(
        int(comment["id"]),
        str(comment["node_id"]),
        str(comment["html_url"]),
        str(comment["body"] or ""),
        time(comment["created_at"]),
    )
