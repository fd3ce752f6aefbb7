"""A walk through every reachable thread of a gate, and the laws that each try on the way must keep.

A gate is a module, so that planted mutations of bot/core/gate.py can be walked as well as the real one.

How the walk stays finite: `step` looks at counters only for equality with the event's ask, and at digests only for
equality with each other. So after each try, whose laws are checked on the true values, counters above one are folded to
one (`_COUNTERS`) and digests are renamed: the plan in force is PLAN, an approval of it is PLAN too, and an approval of
anything else would stay visible as STRAY.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Final, TypeAlias

from bot.core.errors import IllegalEvent

Gate: TypeAlias = ModuleType
PLAN, OTHER, STRAY = "aa", "bb", "cc"

_COUNTERS: Final = ("ask", "plan", "round")

# The table once more, written by hand: a stage, and where each move leads from it.
_ROWS: Final = """
listening         requested>planning stopped>listening
planning          noted>planning planned>proposing answered>answered asked>asked ENDS
proposing         ROUND proposed>awaiting_approval ENDS
awaiting_approval ROUND approved>executing rejected>rejected drifted>stale expired>expired ENDS
executing         noted>executing executed>publishing BACK asked>asked ENDS
publishing        noted>publishing outgrew>proposing published>in_review delivered>done BACK ENDS
in_review         ROUND stopped>in_review
answered          ROUND stopped>stopped
asked             ROUND noted>asked replied>planning instructed>executing expired>expired STOPS
done              requested>planning stopped>done
rejected          ROUND stopped>stopped
stale             ROUND retried>planning stopped>stopped
expired           ROUND retried>planning stopped>stopped
stopped           ROUND AGAIN stopped>stopped
failed            ROUND AGAIN stopped>stopped
limit             ROUND AGAIN stopped>stopped
"""
_SHORT: Final = {
    "ENDS": "stopped>stopped failed>failed limited>limit",
    "STOPS": "stopped>stopped failed>failed",
    "AGAIN": "retried>planning resumed>executing",
    "BACK": "withdrawn>awaiting_approval drifted>stale",
    "ROUND": "requested>planning closed>done",
}
_SPLIT: Final = [" ".join(_SHORT.get(word, word) for word in row.split()).split() for row in _ROWS.strip().splitlines()]

STAGES: Final = [stage for stage, *_ in _SPLIT]
WAYS: Final = {
    (stage, move): target for stage, *leads in _SPLIT for move, _, target in (lead.partition(">") for lead in leads)
}


@dataclass(frozen=True, slots=True)
class Try:
    """One event handed to one reachable thread, and what came of it; `after` is None when it was refused."""

    before: Any
    event: Any
    after: Any = None
    effect: str | None = None


def walk(gate: Gate, start: Iterable[Any] = (), without: str = "") -> Iterator[Try]:
    """Hand every event, but for one move, to every thread that can be reached from the start, and give each try."""
    waiting = deque(start or [gate.Thread()])
    seen = set(waiting)
    while waiting:
        thread = waiting.popleft()
        for event in _events(gate, thread, without):
            tried = attempt(gate, thread, event)
            yield tried
            if tried.after is not None and (found := _folded(tried.after)) not in seen:
                seen.add(found)
                waiting.append(found)


def attempt(gate: Gate, thread: Any, event: Any) -> Try:
    try:
        after, effect = gate.step(thread, event)
    except IllegalEvent:
        return Try(thread, event)
    return Try(thread, event, after, effect)


def _events(gate: Gate, thread: Any, without: str) -> Iterator[Any]:
    """Yield every move with the open ask, a late one, an early one and none, and with each kind of digest."""
    for move in set(gate.Move) - {without}:
        for ask in (thread.ask, thread.ask - 1, thread.ask + 1, None):
            for digest in {None, thread.digest, OTHER}:
                yield gate.Event(move, ask, digest)


def _folded(thread: Any) -> Any:
    counters = {name: min(getattr(thread, name), 1) for name in _COUNTERS}
    approval = PLAN if thread.approved == thread.digest else STRAY
    digests = {"digest": thread.digest and PLAN, "approved": thread.approved and approval}
    return replace(thread, **counters, **digests)
