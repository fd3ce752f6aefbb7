"""The bot's reviews of pull requests, and its replies in review threads (E1)."""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Final

from bot.core import marker
from bot.core.errors import Refused
from bot.core.markdown.elements import right_lines
from bot.core.work import Review, ReviewFinding, body_text
from bot.github.client import Json
from bot.github.comments import Comments
from bot.github.pull_facts import PullReader

# --- The bot's replies in review threads (E1) ------------------------------------------------------------------------
# There is one reply in each thread for a completed request, found again by its marker.
# https://docs.github.com/en/rest/pulls/comments

_REPLY_KIND: Final = "reply"
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Replies:
    """The review threads of one pull request."""

    comments: Comments
    """The bot's other comments on it."""

    async def put(self, turns: Collection[str], text: str, ask: int) -> None:
        """Reply once in each thread that contains a comment of these turns.

        Skips a thread in which GitHub refuses the reply.
        """
        comments = self.comments
        clean = comments.client.redactor.redact(text)
        digest = marker.digest_of(clean)  # a journal that starts again numbers its asks from the start
        text = f"{clean}\n\n{marker.make(_REPLY_KIND, comments.thread, ask, digest=digest, key=comments.key)}"
        review_comments = await self._listed_replies()
        answered = self._answered_threads(review_comments, ask, digest)
        for root in dict.fromkeys(_root(comment) for comment in review_comments if _names(comment) & {*turns}):
            if root not in answered:
                try:
                    await self._create(root, text, ask, digest=digest)
                except Refused as error:
                    _log.info("no reply was put under review comment %d: %s", root, error)

    async def _create(self, root: int, text: str, ask: int, *, digest: str) -> None:
        """Create a reply. Raises OutcomeUnknown if the response was lost and the reply does not appear."""

        async def is_answered() -> bool:
            return root in self._answered_threads(await self._listed_replies(), ask, digest)

        await self.comments.fence.raise_if_moved()
        await self.comments.client.post_once(f"{self._path}/{root}/replies", {"body": text}, is_answered)

    async def _listed_replies(self) -> list[Json]:
        return [comment async for comment in self.comments.client.pages(self._path)]

    def _answered_threads(self, comments: Collection[Json], ask: int, digest: str) -> set[int]:
        """Return the ids of the first comments of the threads that have our reply of that ask."""
        return {_root(comment) for comment in comments if self.comments.is_ours(comment, _REPLY_KIND, ask, digest)}

    @property
    def _path(self) -> str:
        return f"{self.comments.address.path}/pulls/{self.comments.thread}/comments"


def _root(comment: Json) -> int:
    """Return the id of the first comment of a comment's thread. GitHub accepts replies only to that one."""
    return int(comment.get("in_reply_to_id") or comment["id"])


def _names(comment: Json) -> set[str]:
    """Return the keys of the turns that a comment can belong to."""
    return {f"review-comment-{comment['id']}", f"review-{comment['pull_request_review_id']}"}


# --- The bot's review of a pull request (E1) -------------------------------------------------------------------------
# There is one review for each ask, found again by its marker. The marker holds the digest of the review, because a
# journal that starts again numbers its asks from the start.
#
# A review only comments: it neither approves nor requests changes. Findings at lines that the diff does not show go
# into the body, because GitHub refuses them (422).
# https://docs.github.com/en/rest/pulls/reviews#create-a-review-for-a-pull-request

_REVIEW_KIND: Final = "review"


@dataclass(frozen=True, slots=True)
class Reviews:
    """The bot's reviews of one pull request."""

    comments: Comments
    """The bot's other comments on it."""
    inert: Callable[[str], str]
    """Makes a text inert and redacts it."""

    async def put(self, review: Review, ask: int) -> None:
        """Post a review with its line comments, unless it is there. If GitHub refuses it, post one comment."""
        comments = self.comments
        if await self._is_posted(review, ask) or await comments.find("tell", ask):
            return
        try:
            await self._create(review, ask)
        except Refused as error:
            _log.info("the review of #%s becomes a comment: %s", comments.thread, error)
            await comments.put("tell", ask, self.inert(review.text))

    async def _request(self, review: Review, ask: int) -> Json:
        """Return the body of the request. What the diff does not show goes into the review's own text."""
        diff_lines = await self._lines_of_diff(review)
        at_lines = [finding for finding in review.findings if (finding.path, finding.line) in diff_lines]
        others = [finding for finding in review.findings if finding not in at_lines]
        digest = marker.digest_of(review.text)
        mark = marker.make(_REVIEW_KIND, self.comments.thread, ask, digest=digest, key=self.comments.key)
        notes = list(map(self._line_comment, at_lines))
        text = f"{self.inert(body_text(review.summary, others)).rstrip()}\n\n{mark}"
        return {"commit_id": review.commit, "event": "COMMENT", "body": text, "comments": notes}

    def _line_comment(self, finding: ReviewFinding) -> Json:
        return {"path": finding.path, "line": finding.line, "side": "RIGHT", "body": self.inert(finding.text)}

    async def _lines_of_diff(self, review: Review) -> frozenset[tuple[str, int]]:
        """Return the lines that can be commented on: none where the head has moved since the review."""
        if not review.findings:
            return frozenset()
        pull = await PullReader(self.comments.client, self.comments.address).read(self.comments.thread)
        if pull.head != review.commit:
            return frozenset()
        paths = {finding.path for finding in review.findings}
        files = (file for file in pull.files if file.path in paths)
        return frozenset((file.path, line) for file in files for line in right_lines(file.patch))

    async def _create(self, review: Review, ask: int) -> None:
        """Create the review. Raises OutcomeUnknown if the response was lost and the review does not appear."""
        body = await self._request(review, ask)
        await self.comments.fence.raise_if_moved()
        client = self.comments.client
        await client.post_once(self._path, client.redactor.redact_json(body), partial(self._is_posted, review, ask))

    async def _is_posted(self, review: Review, ask: int) -> bool:
        """Return whether that review of that ask is there. Reads all pages."""
        async for earlier in self.comments.client.pages(self._path):
            if self.comments.is_ours(earlier, _REVIEW_KIND, ask, marker.digest_of(review.text)):
                return True
        return False

    @property
    def _path(self) -> str:
        return f"{self.comments.address.path}/pulls/{self.comments.thread}/reviews"
