"""A job of the Action is killed at any moment, its disk with it; the next event ends the work, once (E1, E3, PR2)."""

import time
from typing import Final

import pytest

from bot.core.gate import Move, Stage
from bot.core.thread_state import ThreadState
from tests.stories.github.ground import FIXED, HOME
from tests.stories.github.moments import MOMENTS, READ_BACK, READY, REVIEWERS, Moment, exactly_one, strike
from tests.stories.github.runner import SCHEDULE, Run, Runs

EVERY: Final = MOMENTS | {
    "while the plan is read back": Moment(READ_BACK, done=False),
    "while the pull request is read back": Moment(f"GET /repos/{HOME}/pulls/*", done=False),
    "before a review is asked for": Moment(REVIEWERS, done=False),
    "after a review is asked for": Moment(REVIEWERS),
}
ALONE: Final = frozenset({"while the model plans", "while the model works", "after the work is journaled"})
"""Moments at which the program alone is killed, and what it started must notice; else all of it dies at once."""
CI: Final = (
    "while the model plans",
    "when the model is done",
    "after the work is journaled",
    "after the pull request is made",
    "after it is told",
)
JOBS: Final = 8


def _sampled(name: str) -> object:
    return pytest.param(name, marks=pytest.mark.long if name in CI else pytest.mark.soak)


@pytest.mark.req("E1", "E3", "PR2", "PR3", "L9")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [_sampled(name) for name in EVERY])
def test_killed(runs: Runs, name: str) -> None:
    """Kill -9 of a job at that moment, and what happens next on the thread: exactly one of everything, and the fix."""
    struck = strike(runs, runs.model, EVERY[name])
    runs.opens("will")
    reacted = killed = False
    for _ in range(JOBS):
        run = runs.start(runs.next())
        while not run.over and (killed or not struck()):
            time.sleep(0.001)
        if not run.over:
            _dies(runs, run, name)
            killed = True
            runs.says("rita", "Any news?")  # no word to the bot, but an event
        if not reacted and runs.plans():
            runs.reacts("maya", "+1")
            reacted = True
        if killed and any(READY in text for text in runs.said("tell")):
            break
    runs.ran(SCHEDULE)
    assert killed
    _whole(runs, runs.record())


def _dies(runs: Runs, run: Run, name: str) -> None:
    run.kill(alone=name in ALONE)
    for pause in runs.model.pauses.values():
        pause.go_on()


def _whole(runs: Runs, record: ThreadState) -> None:
    """Hold exactly one of everything, with the fix in it; no job that ended by itself failed."""
    exactly_one(runs)
    (branch,) = runs.branches()
    assert "total >= FREE_FROM" in runs.file(branch, FIXED)
    assert record.stage is Stage.IN_REVIEW
    assert not record.debts
    moves = [entry.kind for entry in runs.entries()]
    assert [moves.count(move) for move in (Move.REQUESTED, Move.PROPOSED, Move.PUBLISHED)] == [1, 1, 1]
    assert [run.log for run in runs.every if run.process.returncode not in {0, -9}] == []
    for each in runs.every:
        each.nothing_left()
