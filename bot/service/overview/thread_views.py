"""One thread as people see it: its row of the list, its plans with the decisions on them, and the rest."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from bot.core.checks import Check
from bot.core.comment import plan_text
from bot.core.decision_evidence import CountedOpinion
from bot.core.gate import Stage
from bot.core.moves import Approved, Drifted, Expired, Outgrew, Planned, Proposed, Rejected, Requested, Withdrawn
from bot.core.names import ThreadAddress
from bot.core.plan import PlanDocument
from bot.core.reply_text import tracking_title
from bot.core.thread.state import ThreadState
from bot.service.overview.agent_tree import JournalStep, agent_tree
from bot.service.overview.timeline import describe_event, people_of
from bot.service.overview.views import (
    ApprovalView,
    CheckView,
    PlanVersion,
    ThreadDetail,
    ThreadSummary,
    TimelineEntry,
    WaitsFor,
)


def plan_versions(steps: Sequence[JournalStep]) -> tuple[PlanVersion, ...]:
    """Return all versions of the plan, oldest first. Leaves out those in a format that this version cannot read."""
    versions: list[PlanVersion] = []
    for step in steps:
        match step.event:
            case Planned() | Outgrew():
                versions = _decide(versions, "", "replaced")
                estimate = step.event.estimate if isinstance(step.event, Planned) else ""
                plan = replace(step.event.plan, estimate=estimate)
                versions.append(plan_version(plan, step.after.gate.digest or "", step.entry.at))
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


def plan_version(plan: PlanDocument, digest: str, at: datetime) -> PlanVersion:
    """Return a plan that was just made: it is not shown, and nobody has decided on it."""
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


# --- A row of the list, and everything in detail


def summarize(address: ThreadAddress, steps: Sequence[JournalStep], server_url: str) -> ThreadSummary:
    """Return the row of a thread with at least one entry."""
    last = steps[-1]
    state, request = last.after, last.after.request.newest
    return ThreadSummary(
        repository=address.full_name,
        number=address.number,
        title=_title(state),
        stage=state.stage,
        waiting_for=waits_for(state),
        plan_digest=state.gate.digest,
        pull_request=state.work.pull_request_url or None,
        cost_usd=state.costs.total_usd,
        updated=last.entry.at,
        url=thread_url(address, server_url),
        requester=request.said.actor.login if request is not None else "",
        round=state.gate.round,
        position=state.position,
    )


def describe(address: ThreadAddress, steps: Sequence[JournalStep], server_url: str) -> ThreadDetail:
    """Return everything that is shown of a thread with at least one entry."""
    state, plans = steps[-1].after, plan_versions(steps)
    input_tokens, output_tokens = state.costs.tokens
    return ThreadDetail(
        summary=summarize(address, steps, server_url),
        plan=plans[-1] if plans else None,
        plans=plans,
        agents=agent_tree(steps),
        checks=tuple(map(_check, state.work.newest.checks)) if state.work.newest is not None else (),
        approvals=approval_views(steps),
        timeline=tuple(map(timeline_entry, steps)),
        tokens_input=input_tokens,
        tokens_output=output_tokens,
        budget_usd=state.costs.budget_usd or None,
        mode=state.approval.mode,
        detail=state.request.detail,
    )


def timeline_entry(step: JournalStep) -> TimelineEntry:
    """Return one entry in plain words."""
    event, digest = step.event, step.event.digest or ""
    text, people = describe_event(event), people_of(event)
    return TimelineEntry(
        step.entry.n, step.entry.at, step.entry.kind, step.after.stage, text, people, digest, event.cost_usd
    )


def waits_for(state: ThreadState) -> WaitsFor:
    """Return who has to act before a thread moves on."""
    match state.stage:
        case Stage.PLANNING | Stage.EXECUTING | Stage.PROPOSING | Stage.PUBLISHING:
            return WaitsFor.SLOT if state.waits_for_session else WaitsFor.PLANGATE
        case Stage.AWAITING_APPROVAL:
            return WaitsFor.APPROVER
        case Stage.ASKED:
            return WaitsFor.ANSWER
        case Stage.IN_REVIEW:
            return WaitsFor.REVIEWER
        case Stage.STALE | Stage.EXPIRED | Stage.STOPPED | Stage.FAILED | Stage.LIMIT:
            return WaitsFor.REQUESTER
        case Stage.LISTENING | Stage.ANSWERED | Stage.DONE | Stage.REJECTED:
            return WaitsFor.NOBODY
        case _:
            assert_never(state.stage)


def thread_url(address: ThreadAddress, server_url: str) -> str:
    """Return the URL of a thread. GitHub forwards that of an issue to the pull request of the same number."""
    return f"{server_url.rstrip('/')}/{address.full_name}/issues/{address.number}"


def _title(state: ThreadState) -> str:
    if state.task is not None:
        return tracking_title(state.task.task)
    return (state.request.newest.title if state.request.newest is not None else None) or ""


def _check(row: Check) -> CheckView:
    before = row.get("before")
    return CheckView(
        command=row["command"],
        exit_code=row["exit_code"],
        seconds=row.get("seconds"),
        before=before["exit_code"] if before is not None else None,
        output=row.get("output", ""),
    )
