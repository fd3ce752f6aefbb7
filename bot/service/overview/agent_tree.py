"""The sessions of a thread and their sub-agents, with what they used, as far as the journal records it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

from bot.core.comment import AgentRow
from bot.core.gate import Stage
from bot.core.moves import Executed
from bot.core.thread.state import ThreadState
from bot.service.overview.thread_history import JournalStep
from bot.service.overview.views import AgentNode

_ENDS = {Stage.STOPPED: "stopped", Stage.FAILED: "failed", Stage.LIMIT: "limit", Stage.ASKED: "waiting"}


def session_at_work(state: ThreadState) -> str:
    """Return the session that works while a thread is in that state; "" for none."""
    if state.request.newest is None:
        return ""
    match state.stage:
        case Stage.PLANNING:
            return state.request.planning_session
        case Stage.EXECUTING:
            return state.request.work_session
        case _:
            return ""


def agent_tree(steps: Sequence[JournalStep]) -> tuple[AgentNode, ...]:
    """Return the sessions of a thread, oldest first, each with its sub-agents.

    A session's time is the time in which the journal has it at work, without the wait for a free slot. Sub-agents are
    those of finished work: the journal does not list a planner's.
    """
    if not steps:
        return ()
    states, models, rows = _session_states(steps), session_models(steps), _rows(steps)
    seconds, last = _working_time(steps), steps[-1].after
    names = dict.fromkeys([*states, *last.costs.by_session, *last.costs.tokens_by_session])
    return tuple(
        AgentNode(
            name=name,
            type=name.partition("-")[0],
            state=states.get(name, "completed"),
            model=models.get(name, ""),
            tokens=sum(last.costs.tokens_by_session.get(name, (0, 0))),
            cost_usd=last.costs.by_session.get(name),
            seconds=seconds[name].total_seconds() if name in seconds else None,
            tool_calls=None,
            children=tuple(_subagent_node(row) for row in rows.get(name, ())),
        )
        for name in names
        if name
    )


def session_models(steps: Sequence[JournalStep]) -> Mapping[str, str]:
    """Return the main model of each session whose journal entries name it."""
    return {
        name: step.event.model
        for step in steps
        if step.event.model and (name := step.event.session or session_at_work(step.before))
    }


def _session_states(steps: Sequence[JournalStep]) -> dict[str, str]:
    """Return the state of each session that was at work, oldest first."""
    states: dict[str, str] = {}
    for step in steps:
        before, after = session_at_work(step.before), session_at_work(step.after)
        if before and before != after:
            states[before] = _ENDS.get(step.after.stage, "completed")
        if after:
            states[after] = "queued" if step.after.waits_for_session else "running"
    return states


def _working_time(steps: Sequence[JournalStep]) -> Mapping[str, timedelta]:
    """Return how long each session was at work."""
    total: dict[str, timedelta] = defaultdict(timedelta)
    for earlier, step in pairwise(steps):
        name = session_at_work(step.before)
        if name and not step.before.waits_for_session:
            total[name] += step.entry.at - earlier.entry.at
    return total


def _rows(steps: Sequence[JournalStep]) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Return the rows of the sub-agents of each session's newest finished work."""
    return {
        name: step.event.agents or ()
        for step in steps
        if isinstance(step.event, Executed) and (name := session_at_work(step.before))
    }


def _subagent_node(row: Mapping[str, Any]) -> AgentNode:
    agent = AgentRow(**row)
    return AgentNode(
        name=agent.description,
        type=agent.type,
        state=agent.state,
        model="",
        tokens=agent.tokens,
        cost_usd=agent.cost_usd,
        seconds=agent.seconds,
        tool_calls=agent.tool_calls,
    )
