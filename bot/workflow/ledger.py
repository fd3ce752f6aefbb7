"""Writing to the journal: each move is checked against the gate before it is appended, at the position it expects."""

from dataclasses import replace
from typing import Final

from bot.agent.modes import Mode
from bot.core.errors import Conflict
from bot.core.gate import ANSWERS, AT_WORK, PLAN_MAY_BE_SHOWN, Event, Move, Stage, step
from bot.core.transcript import Json
from bot.workflow.desk import Desk, Done, working_mode
from bot.workflow.record import TAKEN, Record, record

_OF_PLANNING: Final = frozenset({Move.PLANNED, Move.ANSWERED})


async def current(desk: Desk) -> Record:
    """Read the thread as its journal tells it now."""
    return record(await desk.journal.read(desk.place.thread))


async def append(desk: Desk, now: Record, done: Done) -> Record:
    """Journal one move and give the record after it.

    An answer to an effect still counts when other entries came meanwhile (a turn that was noted), as long as its ask is
    open; a plan or an answer to which something was added is not journaled. Raises Conflict when somebody else moved
    the thread, IllegalEvent when the gate has no such move.
    """
    ask = now.thread.ask if done.move in ANSWERS else None
    body = dict(done.facts)
    if ask is not None:
        body["ask"] = ask
    if done.digest is not None:
        body["digest"] = done.digest
    if desk.orders.run and done.move is not Move.NOTED:  # whoever notes a turn is not at the work
        body["run"] = desk.orders.run
    event = Event(done.move, ask, done.digest)
    while True:
        after, _ = step(now.thread, event)
        try:
            return await _write(desk, now, str(done.move), body | _mode_change(desk, now, after.stage, body))
        except Conflict:
            later = await current(desk)
            if (
                ask is None
                or replace(later.thread, kept=now.thread.kept) != now.thread
                or later.position == now.position
            ):
                raise
            if done.move in _OF_PLANNING and any(entry.kind == Move.NOTED for entry in later.entries[now.position :]):
                return later  # something was added that the planner may not know: it is asked again
            now = later


async def take_over(desk: Desk, now: Record) -> Record:
    """Journal that this job is at the thread, unless the journal says so; raises Conflict when the thread moved."""
    run = desk.orders.run
    return now if run in {"", now.run} else await _write(desk, now, TAKEN, {"run": run})


async def note(desk: Desk, now: Record, kind: str, body: Json) -> Record:
    """Journal something that is no move, wherever the journal is by now, unless it says that already."""
    while not _said(now, body):
        try:
            return await _write(desk, now, kind, body)
        except Conflict:
            later = await current(desk)
            if later.position == now.position:
                raise
            now = later
    return now


def _mode_change(desk: Desk, now: Record, stage: Stage, body: Json) -> Json:
    """Say which mode a move leads to, where that is another one, and who caused it (P2, P8)."""
    if stage is Stage.PLANNING or stage in PLAN_MAY_BE_SHOWN:
        mode = Mode.PLAN
    elif stage in AT_WORK:
        mode = working_mode(desk, now)
    else:
        return {}  # at rest nothing runs; the mode stays what it was
    if mode == now.mode:
        return {}
    by = body.get("by") or ([body["login"]] if "login" in body else [])
    if Mode.PLAN not in {mode, now.mode}:
        by = now.mode_by  # work that goes on in another mode than it began in
    return {"mode_change": {"from": now.mode, "to": str(mode), "by": by}}


def _said(now: Record, body: Json) -> bool:
    """Tell whether the journal has this turn, or that this debt was told."""
    answers = body.get("answers")
    return body.get("turn") in now.seen or any(answers == entry.body.get("answers", 0) for entry in now.entries)


async def _write(desk: Desk, now: Record, kind: str, body: Json) -> Record:
    await desk.journal.append(desk.place.thread, now.position, [(kind, body)])
    return record(await desk.journal.known(desk.place.thread))
