"""The bot's replies in review threads: one in each for a request that was carried out, found again by its marker (E1).

https://docs.github.com/en/rest/pulls/comments
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from bot.core import marker
from bot.core.errors import Refused
from bot.github.client import LAGS, Json
from bot.github.comments import Comments
from bot.github.errors import Unknown

_KIND: Final = "reply"
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Replies:
    """The review threads of one pull request."""

    comments: Comments
    """The bot's other comments on it."""

    async def put(self, turns: Collection[str], text: str, ask: int) -> None:
        """Reply once in each thread that these turns have a comment in; one that takes no reply is no matter."""
        ours = self.comments
        text = f"{ours.door.redactor.redact(text)}\n\n{marker.make(_KIND, ours.thread, ask, key=ours.key)}"
        comments = await self._listed_replies()
        answered = self._answered_threads(comments, ask)
        for root in dict.fromkeys(_root(comment) for comment in comments if _names(comment) & {*turns}):
            if root not in answered:
                try:
                    await self._create(root, text, ask)
                except Refused as error:
                    _log.info("no reply was put under review comment %d: %s", root, error)

    async def _create(self, root: int, text: str, ask: int) -> None:
        """Make a reply; after a lost answer look for it, and raise when it is not to be seen (yet)."""
        await self.comments.fence()
        try:
            await self.comments.door.post(f"{self._path}/{root}/replies", {"body": text})
        except Unknown:
            for pause in LAGS:
                await self.comments.door.clock.sleep(pause)
                if root in self._answered_threads(await self._listed_replies(), ask):
                    return
            raise

    async def _listed_replies(self) -> list[Json]:
        return [comment async for comment in self.comments.door.pages(self._path)]

    def _answered_threads(self, comments: Collection[Json], ask: int) -> set[int]:
        """Name the threads that have our reply of that ask, by their first comments."""
        return {_root(comment) for comment in comments if self.comments.ours(comment, _KIND, ask)}

    @property
    def _path(self) -> str:
        return f"{self.comments.address.path}/pulls/{self.comments.thread}/comments"


def _root(comment: Json) -> int:
    """Give the first comment of a comment's thread: GitHub takes replies to no other."""
    return int(comment.get("in_reply_to_id") or comment["id"])


def _names(comment: Json) -> set[str]:
    """Give the keys of the turns that a comment can be of."""
    return {f"review-comment-{comment['id']}", f"review-{comment['pull_request_review_id']}"}
