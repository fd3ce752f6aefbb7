"""Reads what a run of the Action is given: its inputs (docs/action.md), its event, and the runner's file paths.

Only the inputs decide which keys the Action uses and whom it speaks as; config reads the rest of the environment.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from bot.config.environment import environment_variables, settings
from bot.config.settings import PATH, Identity, Overrides, Secret, Settings
from bot.core.errors import Misconfigured

INPUTS: Final = (
    "anthropic_api_key",
    "anthropic_federation_rule_id",
    "anthropic_organization_id",
    "anthropic_service_account_id",
    "anthropic_workspace_id",
    "state_key",
    "github_token",
    "app_id",
    "app_private_key",
    "mention",
    "config",
    "model",
    "max_cost_usd",
    "approval_wait_minutes",
    "dry_run",
    "verify",
    "keys",
)
"""The inputs of action.yml. Each reaches the program as the variable INPUT_<NAME>."""

_SECRETS: Final = (
    "INPUT_ANTHROPIC_API_KEY",
    "INPUT_STATE_KEY",
    "INPUT_GITHUB_TOKEN",
    "PLANGATE_JOB_TOKEN",
    "INPUT_APP_PRIVATE_KEY",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
)


class NoModelKey(Misconfigured):
    """The Action has no key for the model, as before somebody adds the secret."""


@dataclass(frozen=True, slots=True)
class ActionSettings:
    """One run of the Action: its inputs, the event that started it, and the files that the runner reads afterward."""

    settings: Settings
    event: str
    event_path: Path
    repository: str
    """``owner/name``"""
    wait_minutes: float = 0.0
    dry_run: bool = False
    verify: bool = False
    """Whether the job only checks the receipts of a pull request."""
    keys: str = ""
    """The path of the keys that receipts are checked with."""
    workspace: Path = Path()
    """The checkout of the job."""
    run: str = ""
    """The workflow run that the job belongs to, or "" if unknown."""
    only_listen: bool = False
    """Whether this job only reads comments, because another job works on threads."""
    sandbox_script: Path | None = None
    """The script that prepares this machine for a sandbox; None if nothing has to be done."""
    job_token: Secret = field(default_factory=lambda: Secret(""))
    """The token of the job itself, whichever account the bot speaks as; empty if unknown."""
    output: Path | None = None
    summary: Path | None = None
    secrets: tuple[Secret, ...] = ()
    """Every secret that the run was given. The log must never show them."""


def action(environ: Mapping[str, str] | None = None) -> ActionSettings:
    """Return what a run of the Action is given. Raises Misconfigured, which names the input or variable.

    https://docs.github.com/en/actions/reference/workflows-and-actions/variables
    """
    env = environment_variables(environ)
    inputs = {name: env.get(f"INPUT_{name.upper()}", "") for name in INPUTS}
    return ActionSettings(
        settings=_of_inputs(settings(env), inputs, env),
        event=_require(env, "GITHUB_EVENT_NAME"),
        event_path=Path(_require(env, "GITHUB_EVENT_PATH")),
        repository=_require(env, "GITHUB_REPOSITORY"),
        wait_minutes=_amount(inputs, "approval_wait_minutes") or 0.0,
        dry_run=_flag(inputs["dry_run"], "dry_run"),
        verify=_flag(inputs["verify"], "verify"),
        keys=inputs["keys"],
        workspace=Path(env.get("GITHUB_WORKSPACE", "")),
        run=env.get("GITHUB_RUN_ID", "").strip(),
        only_listen=_flag(env.get("PLANGATE_ONLY_LISTEN", ""), "PLANGATE_ONLY_LISTEN"),
        sandbox_script=Path(env["PLANGATE_SANDBOX_SCRIPT"]) if env.get("PLANGATE_SANDBOX_SCRIPT") else None,
        job_token=Secret(env.get("PLANGATE_JOB_TOKEN", "")),
        output=Path(env["GITHUB_OUTPUT"]) if "GITHUB_OUTPUT" in env else None,
        summary=Path(env["GITHUB_STEP_SUMMARY"]) if "GITHUB_STEP_SUMMARY" in env else None,
        secrets=tuple(Secret(env[name]) for name in _SECRETS if name in env),
    )


def _of_inputs(base: Settings, inputs: Mapping[str, str], env: Mapping[str, str]) -> Settings:
    """Return the settings of an Action. Only its inputs decide which keys it uses, and whom it speaks as.

    A job that verifies receipts needs no key, and speaks to nobody.
    """
    if _flag(inputs["verify"], "verify"):
        return base
    api_key, identity = Secret(inputs["anthropic_api_key"]), _identity(inputs, env)
    if not api_key and identity is None:
        raise NoModelKey("no key for the model", where="anthropic_api_key", fix="pass the repository's secret")
    app = bool(inputs["app_id"] and inputs["app_private_key"])
    if bool(inputs["app_id"]) != bool(inputs["app_private_key"]):
        raise Misconfigured("an App needs both inputs", where="app_id, app_private_key", fix="set both, or neither")
    # Only the repository outlives a job, so a key created here would be lost (docs/settings.md).
    if not (inputs["state_key"] or app or api_key):
        raise Misconfigured("workload identity needs a state key", where="state_key", fix="pass a long random secret")
    github = replace(
        base.github,
        token=Secret("" if app else inputs["github_token"]),
        app_id=inputs["app_id"],
        private_key=Secret(inputs["app_private_key"].replace("\\n", "\n")),
        label_threads=True,
    )
    return replace(
        base,
        api_key=api_key,
        identity=None if api_key else identity,
        state_key=Secret(inputs["state_key"]),
        github=github,
        overrides=_overrides(inputs),
    )


def _overrides(inputs: Mapping[str, str]) -> Overrides:
    cost = _amount(inputs, "max_cost_usd")
    if cost == 0:
        raise Misconfigured("the amount must be above 0", where="max_cost_usd", fix="write an amount above 0")
    return Overrides(
        mention=inputs["mention"] or None,
        model=inputs["model"] or None,
        max_cost_usd=cost,
        path=inputs["config"] or PATH,
    )


def _identity(inputs: Mapping[str, str], env: Mapping[str, str]) -> Identity | None:
    """Return the workload identity if the inputs name one, or None. The job needs the permission id-token: write.

    https://docs.github.com/en/actions/reference/security/oidc
    """
    names = ("anthropic_federation_rule_id", "anthropic_organization_id", "anthropic_service_account_id")
    if not any(inputs[name] for name in names):
        return None
    if missing := [name for name in names if not inputs[name]]:
        raise Misconfigured("workload identity is incomplete", where=", ".join(missing), fix="set all three")
    url, token = (env.get(f"ACTIONS_ID_TOKEN_REQUEST_{part}", "") for part in ("URL", "TOKEN"))
    if not (url and token):
        raise Misconfigured(
            "the job may not request an identity token", where="permissions", fix="grant it id-token: write"
        )
    rule, organization, account = (inputs[name] for name in names)
    return Identity(rule, organization, account, url, Secret(token), workspace_id=inputs["anthropic_workspace_id"])


def _require(env: Mapping[str, str], name: str) -> str:
    if name not in env:
        raise Misconfigured("not set", where=name, fix="run this in a job of GitHub Actions")
    return env[name]


def _flag(text: str, where: str) -> bool:
    """Return a flag, true or false as in YAML 1.2. Empty is false."""
    if text.lower() not in {"", "true", "false"}:
        raise Misconfigured(f"neither true nor false: {text!r}", where=where, fix="write true or false")
    return text.lower() == "true"


def _amount(inputs: Mapping[str, str], name: str) -> float | None:
    if not inputs[name]:
        return None
    try:
        value = float(inputs[name])
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:  # this also refuses nan
        raise Misconfigured(f"not an amount: {inputs[name]!r}", where=name, fix="write a number such as 5")
    return value
