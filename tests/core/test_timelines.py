"""Random timelines: after each event the bot stands where the specification says, and never further."""

import random
import sys
from collections import Counter
from dataclasses import replace

import pytest

from bot.core import gate
from bot.core.gate import Event, Move, Thread
from bot.core.names import Digest
from tests.core.gate_laws import OF_EVERY_TRY, OF_WHAT_IS_TAKEN, OTHER, attempt
from tests.core.timeline import Oracle, Timeline, timeline
from tests.core.timeline_shown import Bot

FURTHER = frozenset({"executing", "in_review"})
"""Where a thread is only with an approval."""
ENOUGH = frozenset("awaiting_approval executing in_review rejected stale expired stopped done".split())
"""Where timelines must have come to, so that they say anything."""


def played(events: Timeline) -> Counter[str]:
    """Play a timeline, and count where it came to.

    Raises AssertionError at the first event after which the bot stands elsewhere than the specification says: "false
    approval" where it went on, "false refusal" where it did not; or after which the gate takes what it must not.
    """
    bot, oracle, found = Bot(events), Oracle(events), Counter[str]()
    dice = random.Random(events.seed)
    for event in events.events:
        before = str(bot.thread.stage)
        bot.take(event)
        oracle.take(event)
        stage = str(bot.thread.stage)
        found[stage] += stage != before
        if (stage, bot.thread.plan) != (oracle.stage, oracle.version):
            what = "false approval" if stage in FURTHER else "false refusal" if oracle.stage in FURTHER else "mistake"
            raise AssertionError(f"{what}: {stage}, not {oracle.stage}, after «{event}» of\n{events}")
        broken = breaches(bot.thread, dice)
        assert not broken, f"{broken} after «{event}» of\n{events}"
    return found


def breaches(thread: Thread, dice: random.Random) -> str:
    """Hand the gate any move, and name the laws that are broken: each stage is left by exactly the moves of the
    hand-written table. What it takes is not kept."""
    ask = dice.choice((thread.ask, thread.ask, thread.ask - 1, thread.ask + 1, None))
    digest = dice.choice((thread.digest, thread.digest, Digest(OTHER), None))
    tried = attempt(gate, thread, Event(dice.choice(list(Move)), ask, digest))
    laws = {**OF_EVERY_TRY, **(OF_WHAT_IS_TAKEN if tried.after is not None else {})}
    broken = [name for name, law in laws.items() if not law(tried)]
    return f"{broken} by {tried}" if broken else ""


def failure(events: Timeline) -> str:
    """Return what is wrong with a timeline; "" for nothing."""
    try:
        played(events)
    except AssertionError as error:
        return str(error)
    return ""


def shrunk(events: Timeline) -> str:
    """Leave out what a failure does not need, one event at a time, and give what is said of the rest."""
    for at in range(len(events.events) - 1, 0, -1):
        shorter = replace(events, events=events.events[:at] + events.events[at + 1 :])
        events = shorter if failure(shorter) else events
    return failure(events)


@pytest.mark.req("PR1", "A1", "A2", "A4a", "A5")
@pytest.mark.parametrize("count", (500, pytest.param(100_000, marks=pytest.mark.soak)))
def test_timelines(count: int) -> None:
    """No false approval, no false refusal, no other mistake; every kind of end comes up, and approvals often."""
    first = random.SystemRandom().randrange(10**9)
    sys.stdout.write(f"{count} timelines, seeds from {first}\n")
    found = Counter[str]()
    for seed in range(first, first + count):
        try:
            found += played(timeline(seed))
        except AssertionError:
            raise AssertionError(shrunk(timeline(seed))) from None
    sys.stdout.write(f"came to {dict(sorted(found.items()))}\n")
    assert found.keys() >= ENOUGH
    assert found["executing"] > count // 10
    assert found["in_review"] > count // 50
