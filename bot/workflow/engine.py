"""The engine: look at a thread until it rests.

A delivery, a tick, a schedule or a restart all mean the same, "look at this thread": read the journal, take in what is
new, step, perform the effect, record its answer, until the thread rests. The journal is the truth; an append names the
position that it expects, and that position is the fencing token of every effect (E4). A crash at any point loses at
most the effect that was under way; it is asked for again, under the same (thread, ask).
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

from bot.core.gate import ON_ENTER, Effect
from bot.workflow import approving, executing, intake, planning, proposing, publishing, telling
from bot.workflow.desk import Desk, Done
from bot.workflow.ledger import append, current
from bot.workflow.record import Record

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

    Raises Conflict when another process moved the thread, and what a verb raises.
    """
    now = await listen(desk)
    while True:
        now = await _carried_on(desk, now)
        if not now.kept or not intake.takes_requests(now):
            break
        now = await intake.take_kept(desk, now)
    await desk.world.transcripts.save()
    return now


async def listen(desk: Desk) -> Record:
    """Only take in what people said, and answer what can be answered at once: for commands while others work."""
    now = await intake.take_in(desk, await current(desk))
    return await telling.settle(desk, now)


async def _carried_on(desk: Desk, now: Record) -> Record:
    """Perform effects until none is open, or one waits for people."""
    while (effect := ON_ENTER.get(now.stage)) is not None:
        done = await VERBS[effect](desk, now)
        if done is None:
            after = await current(desk)
            if after.thread == now.thread:
                break
            now = after
            continue
        now = await append(desk, now, done)
    return await telling.settle(desk, now)
