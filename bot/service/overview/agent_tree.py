"""A thread's journal folded for people: its sessions, their sub-agents, and what they cost."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, timedelta
from itertools import pairwise
from math import fsum
from typing import Any

from bot.core.comment import AgentRow
from bot.core.events import JournalEvent, decode_event
from bot.core.gate import Stage
from bot.core.moves import Entry, Executed
from bot.core.thread.state import ThreadState, apply
from bot.service.overview.views import AgentNode, CostLine, Costs


@dataclass(frozen=True, slots=True)
class JournalStep:
    """One entry, and the thread's state before and after it."""

    entry: Entry
    event: JournalEvent
    before: ThreadState
    after: ThreadState


def journal_steps(entries: Iterable[Entry]) -> Iterator[JournalStep]:
    """Yield the steps of a whole journal. Raises as `core.thread.state.apply` does."""
    state = ThreadState()
    for entry in entries:
        event = decode_event(entry.kind, entry.body)
        after = apply(state, event, entry.at)
        yield JournalStep(entry, event, state, after)
        state = after


# --- Sessions and sub-agents, with what they used ---------------------------------------------------------------------
# The numbers go as far as the journal records them.

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

    A session's time is the time in which it works by the journal, without the wait for a free slot. Sub-agents are
    those of finished work, because the journal does not list those of planning.
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


# --- What threads cost: by day, repository, person, and model


@dataclass(frozen=True, slots=True)
class Booking:
    """The costs that one journal entry adds."""

    day: date
    """The day (UTC) on which it was journaled."""
    repository: str
    person: str
    """Login of the person who made the newest request; "" if there was none."""
    model: str
    """The main model of the session; "" if the journal does not name it."""
    cost_usd: float
    tokens_input: int
    tokens_output: int


def bookings(repository: str, steps: Sequence[JournalStep]) -> tuple[Booking, ...]:
    """Return every booking in a journal, oldest first. Their sum is what the thread has cost."""
    models = session_models(steps)
    rows = []
    for step in steps:
        event, request = step.event, step.after.request.newest
        if event.cost_usd is None and not (event.tokens_input or event.tokens_output):
            continue
        person = request.said.actor.login if request is not None else ""
        model = models.get(event.session or session_at_work(step.before), "")
        day = step.entry.at.astimezone(UTC).date()
        amounts = event.cost_usd or 0.0, event.tokens_input, event.tokens_output
        rows.append(Booking(day, repository, person, model, *amounts))
    return tuple(rows)


def add_up(bookings: Iterable[Booking], since: date | None = None) -> Costs:
    """Return the costs of all bookings since a day."""
    recent = [booking for booking in bookings if since is None or booking.day >= since]
    return Costs(
        since=since,
        total=_line("", recent),
        days=tuple(sorted(_lines(recent, lambda booking: booking.day.isoformat()), key=lambda line: line.name)),
        repositories=_by_cost(recent, lambda booking: booking.repository),
        people=_by_cost(recent, lambda booking: booking.person),
        models=_by_cost(recent, lambda booking: booking.model),
    )


def _by_cost(bookings: Iterable[Booking], name: Callable[[Booking], str]) -> tuple[CostLine, ...]:
    return tuple(sorted(_lines(bookings, name), key=lambda line: (-line.cost_usd, line.name)))


def _lines(bookings: Iterable[Booking], name: Callable[[Booking], str]) -> Iterable[CostLine]:
    groups: dict[str, list[Booking]] = defaultdict(list)
    for booking in bookings:
        groups[name(booking)].append(booking)
    return [_line(key, group) for key, group in groups.items()]


def _line(name: str, bookings: Sequence[Booking]) -> CostLine:
    return CostLine(
        name,
        cost_usd=fsum(booking.cost_usd for booking in bookings),
        tokens_input=sum(booking.tokens_input for booking in bookings),
        tokens_output=sum(booking.tokens_output for booking in bookings),
    )
