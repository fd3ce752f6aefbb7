"""The bot's own comments on one thread. Each is posted exactly once, found again by its marker (E1), and checked."""

import asyncio
import logging
import re
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final

from bot.core import marker
from bot.core.errors import PlangateError, Refused, Transient
from bot.core.markdown.inert import POSTED_CHARACTERS
from bot.core.markdown.visible import newlines
from bot.core.marker import NO_DIGEST, Key
from bot.core.names import ThreadNumber
from bot.core.turn import Acknowledgment, Actor
from bot.github.client import GitHubClient, Json
from bot.github.repository import Address
from bot.github.responses import Missing, OutcomeUnknown, require_present, time
from bot.ports import ThreadFence

# --- The bot's own comments on one thread ----------------------------------------------------------------------------
# Each comment is posted exactly once, found again by its marker (E1), and checked. Every search lists all pages: GitHub
# lists the oldest comments first, so a search that missed the newest would post twice.
# https://docs.github.com/en/rest/issues/comments

BOX: Final = "- [ ] Approve this plan"
_TICKED: Final = re.compile(r"^- \[[xX]\] Approve this plan$", re.MULTILINE)
_ANY_TICK: Final = re.compile(r"^- \[[xX]\] ", re.MULTILINE)
_OUTDATED: Final = re.compile(r"\A\*\*Outdated\.\*\* [^\n]*\n\n")
_LOOK_AGAIN_SECONDS: Final = (3.0, 6.0, 12.0)
"""Seconds to wait before each search for a comment after the response to its creation was lost."""
COMPLETION_SECONDS: Final = 4.0
"""Seconds that a cancelled caller waits for a comment that is being posted. A process that ends has 5 in all."""
_log: Final = logging.getLogger(__name__)

# https://docs.github.com/en/rest/reactions/reactions#about-reactions
_SIGNS: Final = {Acknowledgment.SEEN: "eyes", Acknowledgment.MAY_NOT: "confused"}
# https://docs.github.com/en/graphql/reference/mutations
MINIMIZE: Final = """
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


@dataclass(frozen=True, slots=True)
class Posted:
    """One of the bot's comments as GitHub shows it."""

    id: int
    node: str
    url: str
    body: str
    at: datetime


@dataclass(slots=True)
class Comments:
    """The bot's comments on one thread."""

    client: GitHubClient
    address: Address
    thread: ThreadNumber
    bot: Actor
    key: Key
    fence: ThreadFence
    """Checked just before a comment is created or corrected (E4)."""
    after: int = 0
    """Id of the newest comment that a restored journal no longer knows, or 0. `find` skips comments up to this id."""

    async def put(self, kind: str, ask: int, body: str, *, digest: str = NO_DIGEST) -> Posted:
        """Post a text as the only comment of that kind and ask: find, create, or correct it, and read it back."""
        clean = self.client.redactor.redact(body).rstrip()
        text = f"{clean}\n\n{marker.make(kind, self.thread, ask, digest=digest, key=self.key)}"
        posted = await self.find(kind, ask, digest) or await self._create(kind, ask, text, digest=digest)
        if shows_same_text(posted.body, text):
            return posted
        await self.fence.check_run()  # a process that was paused would show an older state again
        return await self.edit(posted.id, text)

    async def find(self, kind: str, ask: int, digest: str = "") -> Posted | None:
        """Return the bot's oldest comment of that kind, ask, and digest ("" for any), or None. Reads all pages.

        A new journal numbers its asks from the start again. Without the digest, the comment of another plan could be
        mistaken for this plan's comment.
        """
        async for comment in self.client.pages(f"{self._path}/comments"):
            if int(comment["id"]) > self.after and self.is_ours(comment, kind, ask, digest):
                return _posted_comment(comment)
        return None

    def is_ours(self, comment: Json, kind: str, ask: int, digest: str = "") -> bool:
        """Return whether the bot wrote a comment of that kind, ask, and digest, by its author and marker (A4)."""
        mark = marker.parse(comment.get("body") or "")
        return (
            mark is not None
            and (comment["user"] or {}).get("id") == self.bot.id
            and (mark.kind, mark.thread, mark.ask) == (kind, self.thread, ask)
            and digest in {"", mark.digest}
            and mark.holds(self.key.mac)
        )

    async def edit(self, ident: int, text: str) -> Posted:
        """Set a comment's text and read it back. Raises Transient if GitHub shows a different text."""
        text = self.client.redactor.redact(text)
        path = f"{self.address.path}/issues/comments/{ident}"
        await self.client.change(path, {"body": text})

        async def read() -> Posted:
            return _posted_comment(await self.client.get(path))

        posted = await self.client.read_until(read, lambda back: shows_same_text(back.body, text))
        return _require_text(posted, text)

    async def supersede(self, node: str, why: str) -> None:
        """Write above a comment what replaced it, and fold it as outdated. Does nothing if the comment is gone.

        Somebody may have made the comment very long, and it may already have such a line. The line is replaced and the
        rest is cut to fit.
        """
        comment = (await self.client.graphql(_COMMENT, {"id": node}, partial=True))["node"]
        if not comment:
            return
        text = _mark_outdated(comment["body"], why)
        if not shows_same_text(comment["body"], text):
            await self.edit(_number(comment), text)
        if not comment["isMinimized"]:
            await self.minimize(node)

    async def rewrite(self, node: str, text: str) -> None:
        """Set the text of a comment that has a box, and keep its tick and its marker.

        Raises Conflict if another process has taken over the thread, and Transient if the comment is gone.
        """
        await self.fence.raise_if_moved()
        comment = (await self.client.graphql(_COMMENT, {"id": node}, partial=True))["node"]
        if not comment:
            raise Transient("the comment of the plan is gone", where=node, fix="try again")
        if shows_same_text(comment["body"], text):
            return
        if is_ticked(comment["body"]):
            text = text.replace(BOX, BOX.replace("[ ]", "[x]"))
        last = newlines(comment["body"]).rstrip().rpartition("\n")[2]
        await self.edit(_number(comment), f"{text}\n\n{last}" if marker.parse(last) else text)

    async def fold(self, node: str) -> None:
        """Fold a comment as outdated, if it still exists."""
        comment = (await self.client.graphql(_COMMENT, {"id": node}, partial=True))["node"]
        if comment and not comment["isMinimized"]:
            await self.minimize(node)

    async def minimize(self, node: str) -> None:
        """Fold a comment as outdated. Folding it twice changes nothing."""
        await self.client.mutate(MINIMIZE, {"id": node})

    async def sign(self, key: str, sign: Acknowledgment) -> None:
        """Add a reaction to what a turn's key names. Doing it twice has the same effect as once.

        Does nothing if the target is gone, or if the conversation is locked, where nobody can react. Does nothing for
        people who may not ask if much was written in the last hour.
        https://docs.github.com/en/rest/reactions/reactions
        """
        if sign is Acknowledgment.MAY_NOT and not self.client.pace.has_spare:
            return
        post = post_path(self.thread, key)
        path = f"{self.address.path}/{post}"
        try:
            if "/reviews/" in post:  # REST has no endpoint for reactions to a review
                review = await self.client.get(path)
                await self.client.mutate(_REACT, {"id": review["node_id"], "content": _SIGNS[sign].upper()})
            else:
                await self.client.post(f"{path}/reactions", {"content": _SIGNS[sign]}, repeatable=True)
        except Refused as error:
            _log.info("no reaction was added to %s: %s", key, error)

    async def _create(self, kind: str, ask: int, text: str, *, digest: str) -> Posted:
        """Create a comment. If the response is lost, search for it, and raise OutcomeUnknown if it does not appear.

        Another process may have posted first, too recently for the fence to notice. Then its comment counts, and ours
        is deleted, even if the caller is cancelled: a worker that was paused learns at about the same time that its
        thread was taken over, and drops its work.
        """
        await self.fence.raise_if_moved()
        return await _complete(self._post(kind, ask, text, digest=digest))

    async def _post(self, kind: str, ask: int, text: str, *, digest: str) -> Posted:
        """Post a comment, and return it. If another process posted it first, delete this one, so that it shows once."""
        try:
            created = await self.client.post(f"{self._path}/comments", {"body": text})
        except OutcomeUnknown:
            for pause in _LOOK_AGAIN_SECONDS:
                await self.client.clock.sleep(pause)
                if comment := await self.find(kind, ask, digest):
                    return comment
            raise
        # A later search that missed the new comment would post it twice, so wait until the list shows one.
        found = await self.client.read_until(partial(self.find, kind, ask, digest), bool)
        oldest = found or _posted_comment(created)
        if oldest.id < int(created["id"]):
            with suppress(Missing):
                await self.client.delete(f"{self.address.path}/issues/comments/{created['id']}")
            return oldest
        return _require_text(oldest, text)

    @property
    def _path(self) -> str:
        return f"{self.address.path}/issues/{self.thread}"


def post_path(thread: int, key: str) -> str:
    """Return the path of a post in the REST API, below its repository."""
    kind, _, ident = key.rpartition("-")
    paths = {
        "comment": f"issues/comments/{ident}",
        "review-comment": f"pulls/comments/{ident}",
        "review": f"pulls/{thread}/reviews/{ident}",
    }
    return paths.get(kind, f"issues/{thread}")


async def _complete(work: Coroutine[Any, Any, Posted]) -> Posted:
    """Return what some work returns. If the caller is cancelled, wait for the work, at most COMPLETION_SECONDS."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=COMPLETION_SECONDS)
        if not task.cancel() and not task.cancelled() and (error := task.exception()):
            _log.info("a comment failed after its caller was cancelled: %s", error)
        raise


def _mark_outdated(body: str, why: str) -> str:
    """Return a comment with a line above it that names its replacement. The marker at its end is kept."""
    text = _OUTDATED.sub("", newlines(body), count=1).rstrip()
    mark = f"\n\n{text.rpartition(chr(10))[2]}" if marker.parse(text) else ""
    head = f"**Outdated.** {' '.join(why.split())}\n\n"
    return f"{head}{marker.without(text)[: POSTED_CHARACTERS - len(head) - len(mark)]}{mark}"


def shows_same_text(one: str, other: str) -> bool:
    """Return whether two comments show the same text, ignoring newline style, the hidden last line, and ticks."""
    return _ANY_TICK.sub("- [ ] ", marker.without(one)) == _ANY_TICK.sub("- [ ] ", marker.without(other))


def untick(text: str) -> str:
    """Return a comment's text for comparison: without its marker, and with its one box unticked."""
    plain = marker.without(text)
    return _TICKED.sub(BOX, plain, count=1) if len(_TICKED.findall(plain)) == 1 and BOX not in plain else plain


def is_ticked(text: str) -> bool:
    """Return whether the one box of a comment is ticked."""
    return bool(_TICKED.search(marker.without(text)))


def _require_text(posted: Posted, text: str) -> Posted:
    """Return a comment that shows a text. Raises Transient if it shows a different one."""
    if not shows_same_text(posted.body, text):
        raise Transient("GitHub shows a different text than was posted", where=posted.url, fix="check the comment")
    return posted


def _number(comment: Json) -> int:
    return int(require_present(comment["fullDatabaseId"], "the id of a comment"))


def _posted_comment(comment: Json) -> Posted:
    return Posted(
        int(comment["id"]),
        str(comment["node_id"]),
        str(comment["html_url"]),
        str(comment.get("body") or ""),
        time(comment["created_at"]),
    )


# --- The progress comment --------------------------------------------------------------------------------------------
# It is edited only when its text changes: at most every 5 s in the first minute, then every 20 s. The last state is
# always delivered. Progress is written after everything else, and its failures are only logged.

FIRST_MINUTE: Final = 60.0
OFTEN: Final = 5.0
SELDOM: Final = 20.0


@dataclass(slots=True)
class Progress:
    """Shows how far the work on one thread is."""

    comments: Comments
    _asks: set[int] = field(default_factory=set)
    _wanted: tuple[int, str] | None = None
    _shown: tuple[int, str] | None = None
    _began: float | None = None
    _last: float = 0.0
    _task: asyncio.Task[None] | None = None
    _hurry: asyncio.Event = field(default_factory=asyncio.Event)

    async def show(self, text: str, ask: int) -> None:
        """Show a text as soon as the pace allows. A newer text of the same ask replaces it. Never raises."""
        if self._wanted is not None and not self.shows(ask):
            await self.finish()
        self._wanted = (ask, text)
        self._asks.add(ask)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._deliver())

    def shows(self, ask: int) -> bool:
        """Return whether the newest text, shown or still waiting, is of this ask."""
        return self._wanted is not None and self._wanted[0] == ask

    def has_shown(self, ask: int) -> bool:
        """Return whether this process shows, or has shown, the progress of an ask."""
        return ask in self._asks

    async def finish(self) -> None:
        """Deliver the last state now, without waiting for the pace."""
        self._hurry.set()
        if self._task is not None:
            await self._task
        self._hurry.clear()

    async def drop(self) -> None:
        """Discard every update that was not shown yet, and wait for one that is being sent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _deliver(self) -> None:
        while self._wanted is not None and self._wanted != self._shown:
            await self._wait()
            ask, text = self._shown = self._wanted
            clock = self.comments.client.clock
            self._last = clock.monotonic()
            self._began = self._last if self._began is None else self._began
            try:
                await self.comments.put("progress", ask, text)
            except PlangateError as error:
                _log.warning("progress was not shown: %s", error)

    async def _wait(self) -> None:
        """Wait until the next edit is due, or until `finish` asks for the last one."""
        clock = self.comments.client.clock
        while self._began is not None and not self._hurry.is_set():
            between = OFTEN if clock.monotonic() - self._began < FIRST_MINUTE else SELDOM
            left = self._last + between - clock.monotonic()
            if left <= 0 and not self.comments.client.pace.busy:
                return
            sleeping = asyncio.ensure_future(clock.sleep(max(left, 1.0)))
            hurrying = asyncio.ensure_future(self._hurry.wait())
            try:
                await asyncio.wait({sleeping, hurrying}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                sleeping.cancel()
                hurrying.cancel()
