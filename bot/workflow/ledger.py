"""Writing to the journal: each move is checked against the gate before it is appended, at the position it expects.

Each write is a push. What only notes what is known from elsewhere, such as that a comment was posted, may be deferred:
it goes with the next entry, and is settled before work that takes long and at the end of a look. A process that dies
before loses it as if it had died before it noted it: what it tells of is looked up again, and not done twice (E1).
"""

from dataclasses import replace
from typing import Final

from bot.agent.permissions.modes import Mode
from bot.core.errors import Conflict
from bot.core.gate import ANSWERS, AT_WORK, PLAN_MAY_BE_SHOWN, TRANSITIONS, Event, Move, Stage, step
from bot.core.transcript import Json
from bot.ports import Entry
from bot.workflow.record import TAKEN, Record, fold_entries
from bot.workflow.thread_context import EffectResult, ThreadContext, working_mode

_OF_PLANNING: Final = frozenset({Move.PLANNED, Move.ANSWERED})


async def current(context: ThreadContext) -> Record:
    """Read the thread as its journal tells it now."""
    return fold_entries(await context.journal.read(context.location.thread))


async def append(context: ThreadContext, record: Record, done: EffectResult) -> Record:
    """Journal one move and return the record after it.

    An answer to an effect still counts when other entries came meanwhile (a turn that was noted), as long as its ask is
    open; a plan or an answer to which something was added is not journaled. Raises Conflict when somebody else moved
    the thread, IllegalEvent when the gate has no such move.
    """
    ask = record.thread.ask if done.move in ANSWERS else None
    body = dict(done.facts)
    if ask is not None:
        body["ask"] = ask
    if done.digest is not None:
        body["digest"] = done.digest
    if context.settings.run and done.move is not Move.NOTED:  # whoever notes a turn is not at the work
        body["run"] = context.settings.run
    event = Event(done.move, ask, done.digest)
    while True:
        after, _ = step(record.thread, event)
        try:
            return await _write(
                context, record, (str(done.move), body | _mode_change(context, record, after.stage, body))
            )
        except Conflict:
            later = await _read_on(context, record)
            if (
                ask is None
                or replace(later.thread, kept=record.thread.kept) != record.thread
                or later.written == record.written
            ):
                raise
            if done.move in _OF_PLANNING and any(entry.kind == Move.NOTED for entry in later.entries[record.written :]):
                return later  # something was added that the planner may not know: it is asked again
            record = later


async def restart(context: ThreadContext, record: Record, done: EffectResult) -> Record:
    """Journal a request in whatever stage the thread is, and return the record after it.

    What is under way is stopped by the same write. Raises Conflict when somebody else moved the thread.
    """
    before = [] if done.move in TRANSITIONS[record.stage] else [Move.STOPPED]
    stopped, _ = step(record.thread, Event(Move.STOPPED)) if before else (record.thread, None)
    after, _ = step(stopped, Event(done.move))
    body = dict(done.facts) | ({"run": context.settings.run} if context.settings.run else {})
    request = (str(done.move), body | _mode_change(context, record, after.stage, body))
    return await _write(context, record, *((str(move), {}) for move in before), request)


async def take_over(context: ThreadContext, record: Record) -> Record:
    """Journal that this job works on the thread, unless the journal says so. Raises Conflict if the thread moved.

    From then on whatever this look posts is fenced off from what others do meanwhile.
    """
    run = context.settings.run
    if run not in {"", record.run}:
        record = await _write(context, record, (TAKEN, {"run": run}))
    context.held[:] = [record]
    return record


async def fence(context: ThreadContext) -> None:
    """Raise Conflict where somebody moved the thread, or took it over, since this look took it over (E4)."""
    if context.held and await has_moved(context, context.held[-1]):
        raise Conflict("another job is at the thread", where=f"#{context.location.thread}", mend="look again")


async def has_moved(context: ThreadContext, record: Record) -> bool:
    """Return whether another process moved the thread or took it over since this job read the record (E4)."""
    later = await current(context)
    return (later.stage, later.thread.ask, later.run) != (record.stage, record.thread.ask, record.run)


async def note(context: ThreadContext, record: Record, kind: str, *bodies: Json) -> Record:
    """Append notes at the journal's current end, all at once, except for those that it holds already."""
    return await settle(context, defer(context, record, kind, *bodies))


def defer(context: ThreadContext, record: Record, kind: str, *bodies: Json) -> Record:
    """Return the record with what is no move, but for what it says already: it is journaled with the next entry.

    An entry that owes a text is settled before that text is posted: no comment may know more than the journal (A4b).
    """
    new = [body for body in bodies if not _is_journaled(record, body)]
    now = context.resources.clock.now()
    entries = (*record.entries, *(Entry(n, now, kind, body) for n, body in enumerate(new, start=record.position + 1)))
    return replace(fold_entries(entries), deferred=record.deferred + len(new))


async def settle(context: ThreadContext, record: Record) -> Record:
    """Append the deferred notes at the journal's current end, except for those that it holds already."""
    while record.deferred:
        try:
            return await _write(context, record)
        except Conflict:
            later = await _read_on(context, record)
            if later.written == record.written:
                raise
            record = later
    return record


async def _read_on(context: ThreadContext, record: Record) -> Record:
    """Read the thread again; what was deferred stays so, but for what the journal says by now."""
    later = await current(context)
    for entry in record.entries[record.written :]:
        later = defer(context, later, entry.kind, entry.body)
    return later


def _mode_change(context: ThreadContext, record: Record, stage: Stage, body: Json) -> Json:
    """Return the mode that a move leads to, if it is another one, and who caused the change (P2, P8)."""
    if stage is Stage.PLANNING or stage in PLAN_MAY_BE_SHOWN:
        mode = Mode.PLAN
    elif stage in AT_WORK:
        mode = working_mode(context, record)
    else:
        return {}  # at rest nothing runs; the mode stays what it was
    if mode == record.mode:
        return {}
    by = body.get("by") or ([body["login"]] if "login" in body else [])
    if Mode.PLAN not in {mode, record.mode}:
        by = record.mode_by  # work that goes on in another mode than it began in
    return {"mode_change": {"from": record.mode, "to": str(mode), "by": by}}


def _is_journaled(record: Record, body: Json) -> bool:
    """Return whether the journal already holds this turn, or already says that this debt was told."""
    answers = body.get("answers")
    return body.get("turn") in record.seen or any(answers == entry.body.get("answers", 0) for entry in record.entries)


async def _write(context: ThreadContext, record: Record, *new: tuple[str, Json]) -> Record:
    """Append entries, after those that were deferred."""
    deferred = ((entry.kind, entry.body) for entry in record.entries[record.written :])
    await context.journal.append(context.location.thread, record.written, [*deferred, *new])
    written = fold_entries(await context.journal.cached_entries(context.location.thread))
    if context.held:
        context.held[:] = [written]
    return written
