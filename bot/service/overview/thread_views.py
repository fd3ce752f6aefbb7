"""One thread as people see it: a row of the list, everything in detail, and the scheduled task that it tracks."""

from collections.abc import Sequence
from typing import assert_never

from bot.core.checks import Check
from bot.core.gate import Stage
from bot.core.names import ThreadAddress
from bot.core.thread.state import ThreadState
from bot.core.tracking_text import tracking_title
from bot.service.overview.agent_tree import agent_tree
from bot.service.overview.plan_versions import approval_views, plan_versions
from bot.service.overview.thread_history import JournalStep
from bot.service.overview.timeline import describe_event, people_of
from bot.service.overview.views import (
    CheckView,
    OccurrenceView,
    TaskView,
    ThreadDetail,
    ThreadSummary,
    TimelineEntry,
    WaitsFor,
)


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


def task_view(address: ThreadAddress, steps: Sequence[JournalStep], server_url: str) -> TaskView | None:
    """Return the scheduled task that a thread tracks, without its next due time; None if it tracks none."""
    state = steps[-1].after
    history = state.task
    if history is None:
        return None
    return TaskView(
        repository=address.full_name,
        task=history.task,
        issue=address.number,
        url=thread_url(address, server_url),
        stage=state.stage,
        waiting_for=waits_for(state),
        next_due=None,
        occurrences=tuple(
            OccurrenceView(occurrence.due, occurrence.by, occurrence.outcome, occurrence.cost_usd)
            for occurrence in reversed(history.occurrences)
        ),
        rejected=tuple(rejection.finding.title for rejection in history.rejected),
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
