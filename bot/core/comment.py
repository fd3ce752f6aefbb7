"""Every sentence that the bot says, made by pure functions (house.md). Markdown; the terminal shows the same text."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC
from types import MappingProxyType
from typing import Final

from bot.core.approval import Reason, Verdict
from bot.core.gate import Stage
from bot.core.plan import PlanDocument, inert

REASONS: Final[Mapping[Reason, str]] = MappingProxyType(
    {
        Reason.NOT_A_USER: "only people can approve",
        Reason.IS_THE_BOT: "the bot cannot approve its own plan",
        Reason.ROLE_UNKNOWN: "the role on this repository could not be looked up",
        Reason.ROLE_TOO_LOW: "the role on this repository is too low to approve",
        Reason.FOUR_EYES: "the requester cannot approve here: a second person must",
        Reason.TOO_OLD: "the reaction is older than the plan as it is shown now: remove it and add it again",
        Reason.OTHER_PLAN: "the digest is that of another plan",
        Reason.NO_DIGEST: "this request has had several plans: name the digest",
        Reason.COMMENT_EDITED: "the comment was edited, so it does not count",
        Reason.REVISION_ASKED: "a revision was asked for: say what should change",
        Reason.TOO_FEW: "another approval is needed",
        Reason.PLAN_CHANGED: "the plan comment was edited and no longer shows the stored plan",
        Reason.PLAN_HIDDEN: "the plan comment was deleted or hidden",
        Reason.THREAD_CLOSED: "the thread is closed",
        Reason.SCOPE_DRIFTED: "files of the plan's scope have changed on the base branch since the plan was made",
        Reason.PLAN_EXPIRED: "the plan has expired",
        Reason.LOOKUP_FAILED: "not everything that decides could be looked up",
        Reason.NOBODY: "nobody has approved it yet",
    }
)


def heading(plan: PlanDocument) -> str:
    """Give the plan's heading: the mode, the number of the version, the short digest (P8)."""
    return f"⏸ plan mode: plan {plan.plan} ({plan.short_digest})"


def plan_text(plan: PlanDocument, how: str) -> str:
    """Render a plan document: the plan, its contract, its base, how to decide, when it expires."""
    parts = [f"## {heading(plan)}", inert(plan.markdown), "### What it may do", contract(plan), how]
    parts.append(f"Made for commit {plan.base[:12]}. Expires {plan.expires.astimezone(UTC):%Y-%m-%d %H:%M} UTC.")
    return "\n\n".join(parts) + "\n"


def contract(plan: PlanDocument) -> str:
    """Render the plan's contract as a list."""
    rows = (
        ("Files", _codes(plan.contract.scope) or "any, except those of tier high"),
        ("Commands to prove it", _codes(plan.contract.commands) or "none"),
        ("Network", _codes(plan.contract.hosts) or "none"),
        ("New dependencies", _codes(plan.contract.dependencies) or "none"),
        ("Budget", f"${plan.budget_usd:.2f}"),
        ("Risk tier", plan.tier),
    )
    return "\n".join(f"- {name}: {value}" for name, value in rows)


def reasons(verdict: Verdict) -> str:
    """Say why a verdict is what it is, one clause a reason."""
    said = []
    for finding in verdict.findings:
        who = f"@{finding.actor.login}: " if finding.actor is not None else ""
        said.append(who + REASONS[finding.reason])
    return "; ".join(said) or str(verdict.outcome)


def commit_message(title: str, plan: PlanDocument, summary: str) -> str:
    """Give the commit message: what was asked, what was done, and the digest of the plan that was approved."""
    subject = " ".join(title.split())
    if len(subject) > 72:
        subject = subject[:71].rstrip() + "…"
    return f"{subject}\n\n{summary.strip()}\n\nPlangate-Plan: {plan.digest}\n"


def amendment(plan: PlanDocument, paths: Sequence[str]) -> str:
    """Give the text of a plan that was outgrown: the plan as approved, and what the work changed beyond it."""
    listed = "\n".join(f"- {code(path)}" for path in paths)
    return (
        f"{plan.markdown}\n\n## Amendment\n\nThe work is done. It also changed what the plan did not name:\n\n{listed}"
    )


def outcome(stage: Stage, *, branch: str = "", detail: str = "") -> str:
    """Say in one sentence how a request ended, and what can be done next."""
    match stage:
        case Stage.DONE:
            return f"Done: branch {branch}."
        case Stage.ANSWERED:
            return "Answered; nothing was changed."
        case Stage.AWAITING_APPROVAL:
            return "The plan waits for approval; nothing was changed."
        case Stage.REJECTED:
            return "The plan was rejected; nothing was changed."
        case Stage.STALE | Stage.EXPIRED:
            return f"The plan no longer holds: {detail}. Ask again for a new one."
        case Stage.LIMIT:
            return f"Stopped: {detail}. Raise the limit and try again; the work so far is kept."
        case Stage.FAILED:
            return f"Failed: {detail}. The work so far is kept; try again to go on from there."
        case _:
            return f"{stage}. {detail}".strip()


def code(value: str) -> str:
    """Quote a value as a code span that nothing in it can leave; what does not print is shown as ‹U+XXXX›."""
    shown = "".join(sign if sign.isprintable() else f"‹U+{ord(sign):04X}›" for sign in value)
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    return f"{fence} {shown} {fence}" if "`" in shown else f"{fence}{shown}{fence}"


def _codes(values: Sequence[str]) -> str:
    return ", ".join(map(code, values))
