"""The laws of the gate, the walk over its table that tries them, the fold by the gate alone, and its diagram."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Final, TypeAlias

from bot.core.errors import IllegalEvent
from bot.core.gate import ON_ENTER, TRANSITIONS, Event, Move, Stage, Thread, step

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


def replay(events: Iterable[Event]) -> Thread:
    """Return the thread after these events. Raises IllegalEvent."""
    thread = Thread()
    for event in events:
        thread, _ = step(thread, event)
    return thread


UNDRAWN = frozenset({Move.STOPPED, Move.FAILED, Move.LIMITED, Move.NOTED})
"""Moves that every working stage has. The README describes them in words to keep the diagram readable."""


def mermaid() -> str:
    """Return the gate's table as a Mermaid state diagram. Equal tables give equal text.

    It shows the moves out of `listening`, of the stages that have an effect, and of `in_review`. From every end, a new
    request leads back to planning.
    """
    lines = ["stateDiagram-v2", "    [*] --> listening"]
    for stage in (Stage.LISTENING, *ON_ENTER, Stage.IN_REVIEW):
        for move, target in TRANSITIONS[stage].items():
            if move not in UNDRAWN and target is not stage:
                lines.append(f"    {stage} --> {target} : {move}")
    return "\n".join(lines)


Law: TypeAlias = Callable[[Try], bool]

EFFECTS: Final = {
    "planning": "planning",
    "proposing": "proposing",
    "awaiting_approval": "approving",
    "executing": "executing",
    "publishing": "publishing",
    "asked": "asking",
}
UNASKED: Final = frozenset("requested noted closed stopped retried resumed".split())
"""What people and restarts do; every other move answers an effect."""
WORK: Final = frozenset("executing publishing in_review".split())
ON_APPROVAL: Final = frozenset("instructed executed published delivered resumed".split())
NEW_PLAN: Final = frozenset("planned outgrew".split())
SAME_PLAN: Final = frozenset("proposed approved instructed executed published delivered".split())
VOIDING: Final = frozenset("requested planned outgrew withdrawn rejected drifted expired retried replied".split())


def work_is_approved(tried: Try) -> bool:
    """A thread works, publishes or is in review only with an approval of the plan in force."""
    thread = tried.after
    return thread.stage not in WORK or bool(thread.approved and thread.approved == thread.digest)


def one_way_to_approve(tried: Try) -> bool:
    """An approval appears only by `approved`, while the thread awaits it, and of the plan in force."""
    if tried.after.approved in {None, tried.before.approved}:
        return True
    at_the_gate = (tried.before.stage, tried.event.move) == ("awaiting_approval", "approved")
    return at_the_gate and bool(tried.after.approved == tried.before.digest)


def approvals_end(tried: Try) -> bool:
    """A new turn, a new plan, an amendment, a withdrawal and every other end of a plan void its approval."""
    return tried.event.move not in VOIDING or tried.after.approved is None


def one_effect_an_entry(tried: Try) -> bool:
    """Entering a stage that has an effect asks for it once, under the next ask; nothing else asks for anything."""
    expected = EFFECTS.get(tried.after.stage) if tried.event.move != "noted" else None
    return tried.effect == expected and tried.after.ask == tried.before.ask + (expected is not None)


def answers_name_the_ask(tried: Try) -> bool:
    """What answers an effect is taken only under the ask that is open: not late, not early, not without."""
    return tried.event.move in UNASKED or tried.event.ask == tried.before.ask


def digests_are_named(tried: Try) -> bool:
    """A new plan brings its digest and the next version; all else is about the plan in force and leaves it there."""
    before, event, after = tried.before, tried.event, tried.after
    if event.move in NEW_PLAN:
        return event.digest is not None and (after.digest, after.plan) == (event.digest, before.plan + 1)
    kept = None if event.move == "requested" else before.digest
    named = event.move not in SAME_PLAN or event.digest == before.digest
    return named and (after.digest, after.plan) == (kept, before.plan)


def rounds_begin(tried: Try) -> bool:
    """A request after the merge begins a new round, and nothing else does."""
    begins = tried.event.move == "requested" and tried.before.stage == "done"
    return bool(tried.after.round == tried.before.round + begins)


def follows_the_table(tried: Try) -> bool:
    """An event that names what it must leads where the hand-written table says; every other one is refused."""
    target = WAYS.get((tried.before.stage, tried.event.move)) if _is_honest(tried) else None
    return bool(target == (tried.after and tried.after.stage))


def _is_honest(tried: Try) -> bool:
    thread, event = tried.before, tried.event
    fresh = event.move not in NEW_PLAN or event.digest is not None
    same = event.move not in SAME_PLAN or event.digest == thread.digest
    stands = event.move not in ON_APPROVAL or thread.approved is not None
    return answers_name_the_ask(tried) and fresh and same and stands


def stops_everywhere(tried: Try) -> bool:
    return tried.event.move != "stopped" or (tried.after is not None and tried.after.stage not in EFFECTS)


OF_EVERY_TRY: Final[Mapping[str, Law]] = {law.__name__: law for law in (follows_the_table, stops_everywhere)}
OF_WHAT_IS_TAKEN: Final[Mapping[str, Law]] = {
    law.__name__: law
    for law in (
        work_is_approved,
        one_way_to_approve,
        approvals_end,
        one_effect_an_entry,
        answers_name_the_ask,
        digests_are_named,
        rounds_begin,
    )
}


def breaches(gate: Gate) -> Iterator[str]:
    """Walk a gate and name the law that is broken, each time that one is; last, whether the walk came everywhere."""
    stages, taken = set(), set()
    for tried in walk(gate):
        stages.add(str(tried.before.stage))
        yield from (name for name, law in OF_EVERY_TRY.items() if not law(tried))
        if tried.after is not None:
            taken.add((str(tried.before.stage), str(tried.event.move)))
            yield from (name for name, law in OF_WHAT_IS_TAKEN.items() if not law(tried))
    if stages != set(STAGES) or taken != set(WAYS):
        yield "comes_everywhere"
