"""The engine: look at a thread until it rests.

A delivery, a tick, a schedule or a restart all mean the same, "look at this thread": read the journal, take in what is
new, step, perform the effect, record its answer, until the thread rests. The journal is the truth; an append names the
position that it expects, and that position is the fencing token of every effect (E4). A crash at any point loses at
most the effect that was under way; it is asked for again, under the same (thread, ask).
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

from bot.core.gate import ANSWERS, ON_ENTER, Effect, Event, step
from bot.core.transcript import Json
from bot.workflow import approving, executing, intake, planning, proposing, publishing
from bot.workflow.desk import Desk, Done
from bot.workflow.record import Record, record

Verb = Callable[[Desk, Record], Awaitable[Done | None]]

VERBS: Final[Mapping[Effect, Verb]] = MappingProxyType(
    {
        Effect.PLANNING: planning.perform,
        Effect.PROPOSING: proposing.perform,
        Effect.APPROVING: approving.perform,
        Effect.EXECUTING: executing.perform,
        Effect.PUBLISHING: publishing.perform,
    }
)


async def look(desk: Desk) -> Record:
    """Carry a thread on until it rests, and give its record; safe to call at any time, any number of times.

    Raises Conflict when another process works on the same thread, and what a verb raises.
    """
    current = record(await desk.journal.read(desk.place.thread))
    current = await intake.take_in(desk, current, append)
    while (effect := ON_ENTER.get(current.stage)) is not None:
        done = await VERBS[effect](desk, current)
        if done is None:
            break
        current = await append(desk, current, done)
    await desk.world.transcripts.save()
    return current


async def append(desk: Desk, current: Record, done: Done) -> Record:
    """Journal one move, checked against the gate first; gives the record after it."""
    ask = current.thread.ask if done.move in ANSWERS else None
    step(current.thread, Event(done.move, ask, done.digest))
    body: Json = dict(done.facts)
    if ask is not None:
        body["ask"] = ask
    if done.digest is not None:
        body["digest"] = done.digest
    await desk.journal.append(desk.place.thread, current.position, [(str(done.move), body)])
    return record(await desk.journal.read(desk.place.thread))
