"""The bot's replies in review threads: one in each for a completed request, found again by its marker (E1).

https://docs.github.com/en/rest/pulls/comments
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from bot.core import marker
from bot.core.errors import Refused
from bot.github.client import Json
from bot.github.comments import Comments

_KIND: Final = "reply"
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Replies:
    """The review threads of one pull request."""

    comments: Comments
    """The bot's other comments on it."""

    async def put(self, turns: Collection[str], text: str, ask: int) -> None:
        """Reply once in each thread that contains a comment of these turns. Skips a thread in which GitHub refuses the
        reply."""
        comments = self.comments
        clean = comments.client.redactor.redact(text)
        digest = marker.digest_of(clean)  # a journal that starts again numbers its asks from the start
        text = f"{clean}\n\n{marker.make(_KIND, comments.thread, ask, digest=digest, key=comments.key)}"
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

        await self.comments.fence.check()
        await self.comments.client.post_once(f"{self._path}/{root}/replies", {"body": text}, is_answered)

    async def _listed_replies(self) -> list[Json]:
        return [comment async for comment in self.comments.client.pages(self._path)]

    def _answered_threads(self, comments: Collection[Json], ask: int, digest: str) -> set[int]:
        """Return the ids of the first comments of the threads that have our reply of that ask."""
        return {_root(comment) for comment in comments if self.comments.is_ours(comment, _KIND, ask, digest)}

    @property
    def _path(self) -> str:
        return f"{self.comments.address.path}/pulls/{self.comments.thread}/comments"


def _root(comment: Json) -> int:
    """Return the id of the first comment of a comment's thread. GitHub accepts replies only to that one."""
    return int(comment.get("in_reply_to_id") or comment["id"])


def _names(comment: Json) -> set[str]:
    """Return the keys of the turns that a comment can belong to."""
    return {f"review-comment-{comment['id']}", f"review-{comment['pull_request_review_id']}"}
