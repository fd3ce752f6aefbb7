"""Workload identity: a job or a service proves its identity and gets a token for the model, without any API key.

GitHub's proof lasts minutes and Anthropic's token ten, so a fresh proof is fetched for every token. The library
requests one before the previous token expires (anthropic.WorkloadIdentityCredentials, measured with anthropic 2.12).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bot.agent.model.failures import CallFailure, status_failure

if TYPE_CHECKING:
    from anthropic import WorkloadIdentityCredentials, WorkloadIdentityError

AUDIENCE: Final = "https://api.anthropic.com"
TIMEOUT: Final = 30.0
"""Seconds for GitHub's answer."""
_CURE: Final = (
    "check the federation rule, organization, service account, ANTHROPIC_WORKSPACE_ID where the rule enables more than "
    "one workspace, and the proof (in a job: id-token: write)"
)


@dataclass(frozen=True, slots=True)
class WorkloadIdentity:
    """The identity to use for the model, and the source of its proof; the secret is a function."""

    rule_id: str
    organization_id: str
    service_account_id: str
    request_url: str
    """The job's ACTIONS_ID_TOKEN_REQUEST_URL; if empty, `request_token` returns the proof itself."""
    request_token: Callable[[], str] = field(repr=False)
    workspace_id: str = ""
    """The workspace to act in; required where the federation rule enables more than one."""

    def credentials(self) -> "WorkloadIdentityCredentials":
        """Return the library's credentials, which exchange tokens with the client's server."""
        from anthropic import WorkloadIdentityCredentials

        return WorkloadIdentityCredentials(
            identity_token_provider=self.proof,
            federation_rule_id=self.rule_id,
            organization_id=self.organization_id,
            service_account_id=self.service_account_id,
            workspace_id=self.workspace_id or None,
        )

    def proof(self) -> str:
        """Return a proof that is meant only for Anthropic, from GitHub or as it is stored locally; blocks.

        Raises WorkloadIdentityError. https://docs.github.com/en/actions/reference/security/oidc
        """
        import httpx2
        from anthropic import WorkloadIdentityError

        if not self.request_url:
            try:
                return self.request_token().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise WorkloadIdentityError(f"the proof cannot be read: {error}", status_code=401) from None
        where = httpx2.URL(self.request_url).copy_merge_params({"audience": AUDIENCE})
        try:
            answer = httpx2.get(where, headers={"Authorization": f"bearer {self.request_token()}"}, timeout=TIMEOUT)
        except httpx2.HTTPError as error:
            raise WorkloadIdentityError(f"GitHub gave no proof of this job ({type(error).__name__})") from None
        if answer.status_code != httpx2.codes.OK:
            status = answer.status_code
            raise WorkloadIdentityError(f"GitHub gave no proof of this job (HTTP {status})", status_code=status)
        try:
            return str(answer.json()["value"])
        except (ValueError, KeyError, TypeError):
            raise WorkloadIdentityError("GitHub answered with something else than a proof", status_code=200) from None


def identity_failure(error: "WorkloadIdentityError") -> CallFailure:
    """Classify a failed exchange: without an answer it can be retried, else the answer's status decides."""
    if error.status_code is None:
        return CallFailure(str(error), retryable=True)
    failure = status_failure(error.status_code, "", str(error), {})
    return CallFailure(str(error), failure.retryable, status=failure.status, fix=_CURE)
