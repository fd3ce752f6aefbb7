"""What the bot says where work ends: the commit message, and the pull request's body; pure, beside core/comment.py."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bot.core.approval import Reason, Verdict
from bot.core.comment import NAMED, REASONS, cell, code, contract, fenced, folded, table
from bot.core.inert import POSTED_CHARACTERS, cut
from bot.core.lines import short
from bot.core.plan import PlanDocument, disarmed
from bot.core.pull import PullRequest

_SUBJECT_ROOM: Final = 72
_ENOUGH: Final = frozenset({Reason.CODE_OWNER, Reason.NOBODY_ELSE})
_SUMMARY_ROOM: Final = 15_000
_CHECKS_SHOWN: Final = 30
_OUTPUTS_SHOWN: Final = 3
_OUTPUT_ROOM: Final = 2_000
_ENDING_ROOM: Final = 200
_UNDONE_ROOM: Final = 300
"""The bounds of a pull request's body, in characters and in how many: the plan gets what they leave of it."""


def commit_message(title: str, plan: PlanDocument, summary: str) -> str:
    """Give the commit message: what was asked, what was done, and the digest of the plan that was approved."""
    return f"{short(title, _SUBJECT_ROOM)}\n\n{summary.strip()}\n\nPlangate-Plan: {plan.digest}\n"


def co_author(number: int, login: str) -> str:
    """Name a GitHub account as a commit's co-author, by the address that hides the real one.

    https://docs.github.com/en/account-and-profile/reference/email-addresses-reference
    """
    return f"{login} <{number}+{login}@users.noreply.github.com>"


def pull_body(
    plan: PlanDocument,
    *,
    summary: str,
    checks: Sequence[Mapping[str, Any]],
    verdict: Verdict,
    cost_usd: float | None,
) -> str:
    """Render a pull request's body: failing checks first, what was done, evidence, who approved, cost, the plan.

    It always fits (X2): summary, checks and outputs have their bounds, and the plan gets what they leave.
    """
    failing = [check for check in checks if check["exit_code"] != 0]
    parts = [f"> ⚠ {len(failing)} of {len(checks)} checks failed; see below."] if failing else []
    parts.append(cut(disarmed(summary), _SUMMARY_ROOM))
    if checks:
        parts.append(_checked(checks))
    parts += [_output(check) for check in failing[:_OUTPUTS_SHOWN]]
    money = "unknown" if cost_usd is None else f"${cost_usd:.2f}"
    parts.append(f"Approved by {_approvers(verdict)} as plan {plan.plan} ({plan.short_digest}). Cost: {money}.")
    room = POSTED_CHARACTERS - len("\n\n".join(parts)) - _ENDING_ROOM
    parts.append(folded("The approved plan", cut(f"{disarmed(plan.markdown)}\n\n{contract(plan)}", room)))
    parts.append(f"Closes #{plan.thread}")
    return "\n\n".join(parts) + "\n"


def published(pull: PullRequest) -> str:
    """Say that the pull request is there, whether it is a draft, and which labels and reviewers it did not get."""
    at = "is there, as a draft" if pull.draft else "is ready for review"
    rows = [f"- {code(short(each, _UNDONE_ROOM))}" for each in pull.undone[:NAMED]]
    if len(pull.undone) > NAMED:
        rows.append(f"- and {len(pull.undone) - NAMED} more")
    undone = "\n".join(["", "", "It could not be given all that the configuration names:", "", *rows]) if rows else ""
    return f"Pull request #{pull.number} {at}.{undone}"


def _approvers(verdict: Verdict) -> str:
    """Name those who approved, and say why that many were enough for tier high where it is fewer than usual."""
    who = ", ".join(f"`{actor.login}`" for actor in verdict.by)
    why = [REASONS[finding.reason] for finding in verdict.findings if finding.reason in _ENOUGH]
    return f"{who} ({why[0]})" if why else who


def _checked(checks: Sequence[Mapping[str, Any]]) -> str:
    """Render the checks as a table, failing ones first where they are too many to be shown."""
    first = sorted(checks, key=lambda check: check["exit_code"] == 0) if len(checks) > _CHECKS_SHOWN else checks
    rows = [
        f"`{cell(check['command'])}` | {check['exit_code']} | {check['seconds']}" for check in first[:_CHECKS_SHOWN]
    ]
    more = f"\n\nAnd {len(checks) - _CHECKS_SHOWN} more checks." if len(checks) > _CHECKS_SHOWN else ""
    return table("check | exit code | seconds", rows) + more


def _output(check: Mapping[str, Any]) -> str:
    """Fold what a failing check showed."""
    return folded(f"<code>{cell(check['command'])}</code>", fenced(str(check["output"])[-_OUTPUT_ROOM:]))
