"""The check run "Plan approved" on a commit that has a receipt (RC6).

Only an App, or a job whose workflow grants it, may create check runs. Elsewhere there is none, and nothing fails.
https://docs.github.com/en/rest/checks/runs#create-a-check-run
"""

import logging
from dataclasses import dataclass
from functools import partial
from typing import Final

from bot.core.codepoints import with_visible_codepoints
from bot.core.errors import Refused
from bot.core.markdown.elements import code, first_values
from bot.core.names import SHORT_DIGEST, CommitId
from bot.core.receipt_format import receipt_ref
from bot.core.transcript import Json
from bot.github.client import GitHubClient
from bot.github.repository import Address

NAME: Final = "Plan approved"
_NAMES_ROOM: Final = 1_000
"""Characters of approvers' logins that are shown."""
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ApprovalChecks:
    """The check runs of one repository that say that a plan was approved."""

    client: GitHubClient
    """A client whose token may write check runs, or may not."""
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
        """Return whether the commit has the check run of this plan."""
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
