"""The Pulls port: one open pull request for each branch, whatever is lost or done twice (PR2).

https://docs.github.com/en/rest/pulls/pulls
"""

from dataclasses import dataclass
from typing import Final

from bot.core.approval import Actor
from bot.core.errors import Transient
from bot.github.door import Door, Json
from bot.github.errors import Unknown, Unprocessable
from bot.github.repository import Address
from bot.ports import PullOrder, PullRequest

BODY_LIMIT: Final = 58_000
"""Code points: GitHub drops a longer body without a word."""
_TRIES: Final = 4
_WAIT_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class GitHubPulls:
    """The pull requests of one repository that the bot makes."""

    door: Door
    address: Address
    bot: Actor

    async def ensure(self, order: PullOrder, ask: int) -> PullRequest:  # noqa: ARG002 - the port's
        """Give the open pull request of the branch, made when there is none.

        One that the bot made by the same order and that somebody closed since is given as it is, not made again.
        """
        body = order.body[:BODY_LIMIT].rstrip()
        for _ in range(_TRIES - 1):
            try:
                return await self._find(order.branch, body) or await self._made(order, body)
            except (Unknown, Unprocessable) as error:
                if isinstance(error, Unprocessable) and not _may_pass(error):
                    raise
                await self.door.clock.sleep(_WAIT_SECONDS)
                if isinstance(error, Unknown):
                    return await self._after(error, order.branch, body)
        return await self._find(order.branch, body) or await self._made(order, body)

    async def _after(self, error: Unknown, branch: str, body: str) -> PullRequest:
        """Look what came of a write whose answer was lost; it is not done again while nothing is seen of it."""
        found = await self._find(branch, body)
        if found is None:
            raise error
        return found

    async def _find(self, branch: str, body: str) -> PullRequest | None:
        """Look through all pull requests of the branch: the open one, else the one that was made with this body."""
        query = {"head": f"{self.address.owner}:{branch}", "state": "all", "sort": "created", "direction": "desc"}
        pulls = [pull async for pull in self.door.pages(f"{self.address.path}/pulls", query)]
        ours = [pull for pull in pulls if pull["head"]["ref"] == branch]
        first = next((pull for pull in ours if pull["state"] == "open"), None)
        first = first or next((pull for pull in ours if self._is(pull, body)), None)
        return _read(first) if first is not None else None

    def _is(self, pull: Json, body: str) -> bool:
        return (pull["user"] or {}).get("id") == self.bot.id and _plain(pull["body"]) == _plain(body)

    async def _made(self, order: PullOrder, body: str) -> PullRequest:
        wanted = {"title": order.title, "head": order.branch, "base": order.base, "body": body, "draft": order.draft}
        made = await self.door.post(f"{self.address.path}/pulls", wanted)
        back = await self.door.get(f"{self.address.path}/pulls/{made['number']}")
        if back["head"]["ref"] != order.branch or _plain(back["body"]) != _plain(body):
            raise Transient("GitHub shows another pull request than was made", where=str(back["html_url"]))
        return _read(back)


def _plain(body: str | None) -> str:
    return (body or "").replace("\r\n", "\n").rstrip()


def _read(pull: Json) -> PullRequest:
    return PullRequest(int(pull["number"]), str(pull["html_url"]))


def _may_pass(error: Unprocessable) -> bool:
    """Tell whether a refusal may pass: the branch is not seen yet, or the pull request is there already."""
    said = error.what.lower()
    return "already exists" in said or ("head" in said and ("invalid" in said or "blank" in said))
