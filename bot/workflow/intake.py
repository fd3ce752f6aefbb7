"""Intake: takes in what people said since the journal's last turn, and carries on what was interrupted."""

from collections.abc import Awaitable, Callable

from bot.core.gate import TRANSITIONS, Move, Stage
from bot.workflow.desk import Desk, Done
from bot.workflow.record import Record, requested

Append = Callable[[Desk, Record, Done], Awaitable[Record]]

INTERRUPTED = frozenset({Stage.STOPPED, Stage.FAILED, Stage.LIMIT, Stage.STALE, Stage.EXPIRED})


async def take_in(desk: Desk, current: Record, append: Append) -> Record:
    """Journal every new turn; where there is none and the thread was interrupted, go on from there.

    A turn that comes while the bot works is noted and kept (product.md, Turns); none is dropped.
    """
    last = current.last(Move.REQUESTED).body["turn"] if current.has(Move.REQUESTED) else ""
    turns = await desk.dialogue.turns(last)
    for turn in turns:
        move = Move.REQUESTED if Move.REQUESTED in TRANSITIONS[current.stage] else Move.NOTED
        current = await append(desk, current, Done(move, requested(turn)))
    if not turns and current.stage in INTERRUPTED:
        current = await append(desk, current, Done(_again(current)))
    return current


def _again(current: Record) -> Move:
    """Go on with approved work, or plan again where there is none."""
    approved = current.thread.approved is not None and current.thread.approved == current.thread.digest
    return Move.RESUMED if approved and Move.RESUMED in TRANSITIONS[current.stage] else Move.RETRIED
