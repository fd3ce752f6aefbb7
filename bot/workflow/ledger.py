"""Writing to the journal: each move is checked against the gate before it is appended, at the position it expects."""

from dataclasses import replace

from bot.core.errors import Conflict
from bot.core.gate import ANSWERS, Event, step
from bot.core.transcript import Json
from bot.workflow.desk import Desk, Done
from bot.workflow.record import Record, record


async def current(desk: Desk) -> Record:
    """Read the thread as its journal tells it now."""
    return record(await desk.journal.read(desk.place.thread))


async def append(desk: Desk, now: Record, done: Done) -> Record:
    """Journal one move and give the record after it.

    An answer to an effect still counts when other entries came meanwhile (a turn that was noted), as long as its ask is
    open. Raises Conflict when somebody else moved the thread, IllegalEvent when the gate has no such move.
    """
    ask = now.thread.ask if done.move in ANSWERS else None
    body = dict(done.facts)
    if ask is not None:
        body["ask"] = ask
    if done.digest is not None:
        body["digest"] = done.digest
    event = Event(done.move, ask, done.digest)
    while True:
        step(now.thread, event)
        try:
            return await _write(desk, now, str(done.move), body)
        except Conflict:
            later = await current(desk)
            if (
                ask is None
                or replace(later.thread, kept=now.thread.kept) != now.thread
                or later.position == now.position
            ):
                raise
            now = later


async def note(desk: Desk, now: Record, kind: str, body: Json) -> Record:
    """Journal something that is no move."""
    return await _write(desk, now, kind, body)


async def _write(desk: Desk, now: Record, kind: str, body: Json) -> Record:
    await desk.journal.append(desk.place.thread, now.position, [(kind, body)])
    return await current(desk)
