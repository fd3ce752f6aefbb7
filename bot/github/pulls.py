"""The Pulls port: one open pull request for each branch (PR2), and the check run "Plan approved" (RC6)."""

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from bot.core.codepoints import with_visible_codepoints
from bot.core.errors import Refused, Transient
from bot.core.markdown.elements import code, first_values
from bot.core.names import SHORT_DIGEST, CommitId, ThreadNumber, branch_prefix
from bot.core.receipt import receipt_ref
from bot.core.turn import Actor
from bot.core.work import PullOrder, PullRequest
from bot.github.client import LAGS, GitHubClient, Json
from bot.github.repository import Address
from bot.github.responses import Missing, OutcomeUnknown, Unprocessable
from bot.ports import Pulls

# --- The check run "Plan approved" (RC6) -----------------------------------------------------------------------------
# Only an App, or a job whose workflow grants it, may create check runs. Elsewhere there is none, and nothing fails.
# https://docs.github.com/en/rest/checks/runs#create-a-check-run

NAME: Final = "Plan approved"
_NAMES_ROOM: Final = 1_000
"""Characters of approvers' logins that are shown."""
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ApprovalChecks:
    """The check runs of one repository that say that a plan was approved."""

    client: GitHubClient
    """A client whose token may lack the permission to write check runs; then none is created."""
    at: Address

    async def ensure(self, statement: Json, commit: CommitId) -> None:
        """Create the check run of a receipt's statement on its commit, unless it exists or GitHub refuses it.

        Raises Transient if GitHub does not answer; it is safe to repeat.
        """
        predicate = statement["predicate"]
        is_there = partial(self._exists, commit, str(predicate["plan"]["digest"]))
        try:
            if not await is_there():
                await self.client.post_once(f"{self.at.path}/check-runs", _check_run(predicate, commit), is_there)
        except Refused as error:
            _log.info("there is no check run on %s: %s", commit, error)

    async def _exists(self, commit: CommitId, digest: str) -> bool:
        path, query = f"{self.at.path}/commits/{commit}/check-runs", {"check_name": NAME, "filter": "all"}
        return any([run["external_id"] == digest async for run in self.client.pages(path, query, items="check_runs")])


def _check_run(predicate: Json, commit: CommitId) -> Json:
    """Return the check run to create: which plan, who approved it, and where the receipt is."""
    plan, place = predicate["plan"], predicate["repository"]
    logins = dict.fromkeys(person["login"] for decision in predicate["approvals"] for person in decision["by"])
    who = (
        first_values([with_visible_codepoints(login) for login in logins], _NAMES_ROOM)
        if logins
        else "the configuration"
    )
    ref = code(receipt_ref(commit))
    return {
        "name": NAME,
        "head_sha": commit,
        "external_id": plan["digest"],
        "details_url": f"https://{place['host']}/{place['name']}/issues/{predicate['thread']}",
        "status": "completed",
        "conclusion": "success",
        "output": {
            "title": f"Plan {plan['version']} ({plan['digest'][:SHORT_DIGEST]}) was approved",
            "summary": f"Approved by {who}. The signed receipt is in {ref}.",
        },
    }


# --- The Pulls port (PR2) --------------------------------------------------------------------------------------------
# Each branch has one open pull request, even if a response is lost or a step is repeated.
# https://docs.github.com/en/rest/pulls/pulls

_TRIES: Final = 4
_WAIT_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class GitHubPulls(Pulls):
    """The bot's pull requests in one repository."""

    client: GitHubClient
    address: Address
    bot: Actor

    async def ensure(self, order: PullOrder) -> PullRequest:
        """Return the open pull request of the branch, creating it if there is none.

        If the bot already made a pull request with the same body, or of the same commit, and somebody closed or merged
        it, that one is returned and no new one is created.
        """
        clean = self.client.redactor.redact
        order = replace(order, title=clean(order.title), body=clean(order.body))
        pull = await self._find_or_create(order, order.body.rstrip())
        undone = await self._label_and_request_reviews(pull, order) if pull["state"] == "open" else ()
        if order.draft and pull["state"] == "open" and not pull.get("draft"):
            undone = ("draft: it is ready for review, because drafts are off here, or somebody marked it", *undone)
        return PullRequest(int(pull["number"]), str(pull["html_url"]), bool(pull.get("draft")), undone)

    async def head(self, number: int) -> CommitId | None:
        """Return the head of an open pull request, or None if it is closed or merged."""
        pull = await self.client.get(f"{self.address.path}/pulls/{number}")
        return CommitId(str(pull["head"]["sha"])) if pull["state"] == "open" else None

    async def is_merged(self, number: int) -> bool:
        """Return whether a pull request was merged."""
        return bool((await self.client.get(f"{self.address.path}/pulls/{number}"))["merged_at"])

    async def find(self, branch: str) -> int | None:
        """Return the number of the newest pull request that the bot made from a branch, open or not, or None.

        Nobody can delete a pull request, and it still names its branch after the branch was deleted.
        https://docs.github.com/en/rest/pulls/pulls#list-pull-requests
        """
        own = (
            pull for pull in await self._branch_pull_requests(branch) if (pull["user"] or {}).get("id") == self.bot.id
        )
        return next((int(pull["number"]) for pull in own), None)

    async def open_on(self, thread: ThreadNumber) -> tuple[int, ...]:
        """Return the numbers of the bot's open pull requests from branches of a thread, journaled or not."""
        query = {"state": "open", "sort": "created", "direction": "asc"}
        pulls = [pull async for pull in self.client.pages(f"{self.address.path}/pulls", query)]
        own = [pull for pull in pulls if (pull["user"] or {}).get("id") == self.bot.id]
        return tuple(int(pull["number"]) for pull in own if pull["head"]["ref"].startswith(branch_prefix(thread)))

    async def _find_or_create(self, order: PullOrder, body: str) -> Json:
        """Return the pull request, creating it if needed, even if responses are lost."""
        for _ in range(_TRIES - 1):
            try:
                return await self._find(order, body) or await self._create(order, body)
            except (OutcomeUnknown, Unprocessable) as error:
                if isinstance(error, Unprocessable) and not _may_pass(error):
                    raise
                await self.client.clock.sleep(_WAIT_SECONDS)
                if isinstance(error, OutcomeUnknown):
                    return await self._result_of_lost_write(error, order, body)
        return await self._find(order, body) or await self._create(order, body)

    async def _result_of_lost_write(self, error: OutcomeUnknown, order: PullOrder, body: str) -> Json:
        """Return the result of a write whose response was lost. Raises the error instead of repeating the write."""
        pull = await self._find(order, body)
        if pull is None:
            raise error
        return pull

    async def _find(self, order: PullOrder, body: str) -> Json | None:
        """Return the branch's open pull request, else the bot's pull request with the same body or commit, or None."""
        pulls = await self._branch_pull_requests(order.branch)
        first = next((pull for pull in pulls if pull["state"] == "open"), None)
        return first or next((pull for pull in pulls if self._is_pull_of(pull, order, body)), None)

    async def _branch_pull_requests(self, branch: str) -> list[Json]:
        """Return all pull requests of a branch, the newest first."""
        query = {"head": f"{self.address.owner}:{branch}", "state": "all", "sort": "created", "direction": "desc"}
        pulls = [pull async for pull in self.client.pages(f"{self.address.path}/pulls", query)]
        return [pull for pull in pulls if pull["head"]["ref"] == branch]

    def _is_pull_of(self, pull: Json, order: PullOrder, body: str) -> bool:
        same = _plain(pull["body"]) == _plain(body) or order.commit == pull["head"]["sha"]
        return same and (pull["user"] or {}).get("id") == self.bot.id

    async def _create(self, order: PullOrder, body: str) -> Json:
        fields = {"title": order.title, "head": order.branch, "base": order.base, "body": body, "draft": order.draft}
        created = await self._post(fields)
        back = await self._read_back(f"{self.address.path}/pulls/{created['number']}")
        if back["head"]["ref"] != order.branch or _plain(back["body"]) != _plain(body):
            raise Transient("GitHub shows a different pull request than was created", where=str(back["html_url"]))
        return back

    async def _post(self, fields: Json) -> Json:
        """Create a pull request, as a draft if the order asks for one and the repository's plan allows drafts.

        https://docs.github.com/en/pull-requests/collaborating-with-pull-requests/proposing-changes-to-your-work-with-pull-requests/about-pull-requests#draft-pull-requests
        """
        path = f"{self.address.path}/pulls"
        try:
            return dict(await self.client.post(path, fields))
        except Unprocessable as error:
            if not (fields["draft"] and "draft" in error.what.lower()):
                raise
        return dict(await self.client.post(path, fields | {"draft": False}))

    async def _read_back(self, path: str) -> Json:
        """Read back what was created, as soon as it is visible."""
        for pause in LAGS:
            try:
                return dict(await self.client.get(path))
            except Missing:
                await self.client.clock.sleep(pause)
        return dict(await self.client.get(path))

    async def _label_and_request_reviews(self, pull: Json, order: PullOrder) -> tuple[str, ...]:
        """Add labels and request reviews, each by its own request. Return what could not be done, and why.

        Adding what is there already changes nothing. An author cannot be asked to review.
        https://docs.github.com/en/rest/issues/labels#add-labels-to-an-issue
        https://docs.github.com/en/rest/pulls/review-requests#request-reviewers-for-a-pull-request
        """
        number, author = pull["number"], str((pull["user"] or {}).get("login", "")).casefold()
        additions: list[tuple[str, str, Json]] = []
        if order.labels:
            additions.append(("labels", f"issues/{number}/labels", {"labels": [*order.labels]}))
        for login in order.reviewers:
            if login.casefold() != author:
                path = f"pulls/{number}/requested_reviewers"
                additions.append((f"reviewer {login}", path, {"reviewers": [login]}))
        undone = []
        for what, path, payload in additions:
            try:
                await self.client.post(f"{self.address.path}/{path}", payload, repeatable=True)
            except (Refused, Transient) as error:
                undone.append(f"{what}: {error}")
        return tuple(undone)


def _plain(body: str | None) -> str:
    return (body or "").replace("\r\n", "\n").rstrip()


def _may_pass(error: Unprocessable) -> bool:
    """Return whether a refusal may be temporary: the branch is not visible yet, or the pull request already exists."""
    reason = error.what.lower()
    return "already exists" in reason or ("head" in reason and ("invalid" in reason or "blank" in reason))
