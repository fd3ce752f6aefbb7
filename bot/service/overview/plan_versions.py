"""The versions of a thread's plan, and the decisions on them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from bot.core.comment import plan_text
from bot.core.decision_evidence import CountedOpinion
from bot.core.gate import Stage
from bot.core.moves import (
    Approved,
    Drifted,
    Expired,
    Outgrew,
    Planned,
    Proposed,
    Rejected,
    Requested,
    Withdrawn,
)
from bot.core.plan import PlanDocument
from bot.service.overview.thread_history import JournalStep
from bot.service.overview.views import ApprovalView, PlanVersion


def plan_versions(steps: Sequence[JournalStep]) -> tuple[PlanVersion, ...]:
    """Return all versions of the plan, oldest first. Leaves out those in a format that this version cannot read."""
    versions: list[PlanVersion] = []
    for step in steps:
        match step.event:
            case Planned() | Outgrew():
                versions = _decide(versions, "", "replaced")
                estimate = step.event.estimate if isinstance(step.event, Planned) else ""
                plan = replace(step.event.plan, estimate=estimate)
                versions.append(_version(plan, step.after.gate.digest or "", step.entry.at))
            case Requested():
                versions = _decide(versions, "", "replaced")
            case Proposed():
                versions = _show(versions, step.before.gate.digest or "", step.event.shown_url or "")
            case Approved() | Rejected() | Drifted() | Expired() | Withdrawn() if step.before.stage is not Stage.ASKED:
                decision = _DECISIONS[type(step.event)]
                versions = _decide(versions, step.before.gate.digest or "none", decision)
            case _:
                pass
    return tuple(versions)


_DECISIONS = {Approved: "approved", Rejected: "rejected", Drifted: "stale", Expired: "expired", Withdrawn: ""}


def approval_views(steps: Sequence[JournalStep]) -> tuple[ApprovalView, ...]:
    """Return each person's decision that counted, oldest first."""
    views: list[ApprovalView] = []
    for step in steps:
        event, digest = step.event, step.before.gate.digest or ""
        if isinstance(event, Approved | Rejected):
            decision = "approved" if isinstance(event, Approved) else "rejected"
            at = event.approved_at if isinstance(event, Approved) else step.entry.at
            opinions = event.evidence.opinions if event.evidence is not None else ()
            views += [_with_evidence(digest, decision, opinion) for opinion in opinions] or [
                ApprovalView(digest, login, "", "", decision, at) for login in event.by or ()
            ]
    return tuple(views)


def _with_evidence(digest: str, decision: str, opinion: CountedOpinion) -> ApprovalView:
    role = opinion.role or ("listed" if opinion.listed else "")
    return ApprovalView(digest, opinion.actor.login, role, opinion.way, decision, opinion.at)


def _version(plan: PlanDocument, digest: str, at: datetime) -> PlanVersion:
    contract = plan.contract
    return PlanVersion(
        version=plan.plan,
        digest=digest,
        at=at,
        text=plan_text(plan),
        markdown=plan.markdown,
        tier=plan.tier,
        base=plan.base,
        scope=contract.scope,
        commands=contract.commands,
        hosts=contract.hosts,
        dependencies=contract.dependencies,
        budget_usd=plan.budget_usd,
        estimate=plan.estimate,
        expires=plan.expires,
        changed=plan.changed,
        url="",
        decision="",
    )


def _decide(versions: list[PlanVersion], digest: str, decision: str) -> list[PlanVersion]:
    """Return the versions after a decision on the newest one, if it has that digest ("": any) and is undecided.

    An approval may be followed by another decision: the approved plan became stale, or its approval was withdrawn.
    """
    if not versions or (digest and versions[-1].digest != digest) or (not digest and versions[-1].decision):
        return versions
    return [*versions[:-1], replace(versions[-1], decision=decision)]


def _show(versions: list[PlanVersion], digest: str, url: str) -> list[PlanVersion]:
    if not versions or versions[-1].digest != digest:
        return versions
    return [*versions[:-1], replace(versions[-1], url=url or versions[-1].url)]
