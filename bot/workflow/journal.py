"""Writing to the journal: each move is checked against the gate before it is appended, at the position it expects.

Each write is a push. A note that can be looked up elsewhere, such as that a comment was posted, may be deferred: it is
written with the next entry, before work that takes long, and at the end of a check. If the process dies before that,
the next one looks the fact up, so nothing is done twice (E1). Nothing is written to a journal that became shorter:
somebody set it back, and it must not catch up (A4b).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from bot.agent.permissions.tool_gate import Mode
from bot.core import moves
from bot.core.codec import encode
from bot.core.errors import Conflict
from bot.core.gate import ANSWERS, AT_WORK, PLAN_MAY_BE_SHOWN, TRANSITIONS, Event, Move, Stage, step
from bot.core.moves import Entry, ModeChange
from bot.core.notes import Heard, Note, OccurrenceDue, OccurrenceEnded, Taken, Told
from bot.core.thread.state import ThreadState, apply_pending
from bot.workflow.thread_context import ThreadContext, working_mode

_OF_PLANNING: Final = frozenset({Move.PLANNED, Move.ANSWERED})


async def read_state(context: ThreadContext) -> ThreadState:
    """Read the journal, and return the thread's state."""
    return fold(context, await context.journal.read(context.location.thread))


def fold(context: ThreadContext, entries: Sequence[Entry]) -> ThreadState:
    """Return the state that the thread's stored entries lead to. Each is folded once in a process."""
    return context.states.fold(context.location.repository, context.location.thread, entries)


async def append_move(context: ThreadContext, state: ThreadState, event: moves.MoveEvent) -> ThreadState:
    """Journal one move and return the state after it.

    An answer to an effect still counts if other entries came meanwhile, such as a noted turn, as long as its ask is
    open. A plan or an answer is dropped if people added to the request meanwhile: the returned state then lacks it.
    Raises Conflict if another process moved the thread, IllegalEvent if the gate has no such move.
    """
    ask = state.gate.ask if event.kind in ANSWERS else None
    run = (
        "" if isinstance(event, moves.Noted) else context.settings.run
    )  # a reader of comments notes turns, and does not work on the thread
    event = replace(event, ask=ask, run=run)
    while True:
        after, _ = step(state.gate, Event(event.kind, ask, event.digest))
        try:
            return await _write(context, state, _with_mode_change(context, state, after.stage, event))
        except Conflict:
            later = await _read_on(context, state)
            if ask is None or later.gate != state.gate or later.written <= state.written:
                raise
            if event.kind in _OF_PLANNING and len(later.request.entries) > len(state.request.entries):
                return later  # the planner may not know what was added: it plans again
            state = later


async def restart(context: ThreadContext, state: ThreadState, request: moves.Requested) -> ThreadState:
    """Journal a request at any stage of the thread, and return the state after it.

    If the stage allows no request, the same write stops it first. Raises Conflict if another process moved the
    thread.
    """
    stops = [] if request.kind in TRANSITIONS[state.stage] else [moves.Stopped()]
    stopped, _ = step(state.gate, Event(Move.STOPPED)) if stops else (state.gate, None)
    after, _ = step(stopped, Event(request.kind))
    request = replace(request, run=context.settings.run)
    return await _write(context, state, *stops, _with_mode_change(context, state, after.stage, request))


async def take_over(context: ThreadContext, state: ThreadState) -> ThreadState:
    """Journal that this job works on the thread, unless it did so last. Raises Conflict if the thread moved.

    From then on, the fence keeps this check from posting if another process takes the thread over.
    """
    run = context.settings.run
    if run not in {"", state.work.run}:
        state = await _write(context, state, Taken(run=run))
    context.fence.written = state
    return state


async def append_note_at_state(context: ThreadContext, state: ThreadState, event: Note) -> ThreadState:
    """Append a note only at the position of `state`. Raises Conflict if another process appended anything since."""
    return await _write(context, state, event)


async def append_notes(context: ThreadContext, state: ThreadState, *notes: Note) -> ThreadState:
    """Append notes at the journal's current end, all at once, except for those that it holds already."""
    return await flush_notes(context, defer_notes(context, state, *notes))


def defer_notes(context: ThreadContext, state: ThreadState, *notes: Note) -> ThreadState:
    """Return the state with new notes pending, without those that the journal holds: the next write appends them.

    Call `flush_notes` before a text is posted that a note owes: no comment may be ahead of the journal (A4b).
    """
    now = context.resources.clock.now()
    for note in notes:
        state = state if _is_journaled(state, note) else apply_pending(state, note, now)
    return state


async def flush_notes(context: ThreadContext, state: ThreadState) -> ThreadState:
    """Append the deferred notes at the journal's current end, except for those that it holds already."""
    while state.pending:
        try:
            return await _write(context, state)
        except Conflict:
            later = await _read_on(context, state)
            if later.written <= state.written:
                raise
            state = later
    return state


async def _read_on(context: ThreadContext, state: ThreadState) -> ThreadState:
    """Read the thread again. Its pending notes stay pending, except for those that the journal holds by now."""
    return defer_notes(context, await read_state(context), *state.pending)


def _with_mode_change(
    context: ThreadContext, state: ThreadState, stage: Stage, event: moves.MoveEvent
) -> moves.MoveEvent:
    """Return the move. If the mode changes with it, add the new mode and who caused the change (P2, P8)."""
    if stage is Stage.PLANNING or stage in PLAN_MAY_BE_SHOWN:
        mode = Mode.PLAN
    elif stage in AT_WORK:
        mode = working_mode(context, state)
    else:
        return event  # nothing runs at rest, so the mode stays
    if mode == state.approval.mode:
        return event
    goes_on = Mode.PLAN not in {mode, state.approval.mode}  # work goes on in another mode than it began in
    by = state.approval.mode_by if goes_on else _people(event)
    return replace(event, mode_change=ModeChange(state.approval.mode, str(mode), by))


def _people(event: moves.MoveEvent) -> tuple[str, ...]:
    """Return the logins of the people who caused a move; none if the work itself did."""
    match event:
        case moves.Approved() | moves.PlanEnd() | moves.Stopped() | moves.Replied() | moves.Instructed() if event.by:
            return event.by
        case moves.Replied() | moves.Instructed() if event.login:
            return (event.login,)
        case moves.Requested() | moves.Noted() | moves.Stopped() | moves.Retried() | moves.Resumed() if (
            event.said is not None
        ):
            return (event.said.actor.login,)
        case _:
            return ()


def _is_journaled(state: ThreadState, new: Note) -> bool:
    """Return whether the journal already holds this turn, posted text, occurrence, or end of an occurrence."""
    match new:
        case Heard():
            return new.said.key in state.heard.seen
        case Told():
            return all(unposted.n != new.answers for unposted in state.heard.unposted_texts)
        case OccurrenceDue():
            return state.task is not None and state.task.outcome_of(new.key) is not None
        case OccurrenceEnded():
            return state.task is not None and bool(state.task.outcome_of(new.key))
        case _:
            return False


async def _write(context: ThreadContext, state: ThreadState, *new: moves.MoveEvent | Note) -> ThreadState:
    """Append the deferred entries and then these, and return the state after them."""
    entries = [(str(entry.kind), encode(entry)) for entry in (*state.pending, *new)]
    await context.journal.append(context.location.thread, state.written, entries)
    context.thread_check.written.update(range(state.written + 1, state.written + 1 + len(entries)))
    written = fold(context, await context.journal.cached_entries(context.location.thread))
    if context.fence.written is not None:
        context.fence.written = written
    return written
