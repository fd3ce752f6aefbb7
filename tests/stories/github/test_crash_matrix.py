"""Kill -9 of the bot on GitHub: each face at each moment, with real processes, disks, and requests (E1, E3, PR2).

Three matrices hold what a death must not change, each at the level that shows it:
- tests/workflow/test_crash_matrix.py: verb x write x face, in memory. Every rule of the verbs, every day.
- here: the service and the jobs of the Action at each moment that the outside sees, and at every request that changes
  GitHub, which a recorded story finds. What a killed process leaves on disks, in sandboxes, and at GitHub.
- tests/stories/test_interrupted.py: `plangate run`, ended by each signal.

Where all ends well there is one plan, one branch, one pull request, each move once, the fix in the branch, and nothing
more to do. What a push to somebody's branch adds to that is in test_following_killed.py.
"""

import random
import time
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

import pytest

from bot.core.comment import is_at_work
from tests.stories.github.deaths import Boundary, Death, Life, Mortal, disturbed, recorded
from tests.stories.github.ground import HOME, PATIENCE, long, soak
from tests.stories.github.moments import MOMENTS, READ_BACK, READY, REVIEWERS, Moment, exactly_one, strike
from tests.stories.github.runner import Runs
from tests.stories.github.service import Served

pytestmark = [pytest.mark.req("E1", "E3", "PR2", "PR3"), pytest.mark.timeout(0)]
FACES = ("service", "action")
EVERY: Final = MOMENTS | {
    "while the plan is read back": Moment(READ_BACK, done=False),
    "while the pull request is read back": Moment(f"GET /repos/{HOME}/pulls/*", done=False),
    "before a review is asked for": Moment(REVIEWERS, done=False),
    "after a review is asked for": Moment(REVIEWERS),
}
ALONE: Final = frozenset({"while the model plans", "while the model works", "after the work is journaled"})
"""Moments at which the program of a job alone is killed, and what it started must notice; else all of it dies."""
OFTEN: Final = {
    ("served", "after the pull request is made"),
    ("runs", "while the model plans"),
    ("runs", "when the model is done"),
    ("runs", "after the pull request is made"),
    ("runs", "after it is told"),
}
CELLS: Final = tuple(product(("served", "runs"), EVERY))
PARTS = 8
"""In how many pieces a campaign over all boundaries is cut, so that they run side by side."""


def deaths(every: Sequence[Boundary]) -> Iterator[Death]:
    """Yield every moment to die at, in order."""
    return (Death(at, done) for at, done in product(every, (False, True)))


@pytest.fixture
def face(request: pytest.FixtureRequest) -> Served | Runs:
    """The bot as a service, or as jobs of the Action."""
    made: Served | Runs = request.getfixturevalue(request.param)
    return made


@pytest.mark.parametrize(
    ("face", "name"), [long(*cell) if cell in OFTEN else soak(*cell) for cell in CELLS], indirect=["face"]
)
def test_killed(face: Served | Runs, name: str) -> None:
    """Kill -9 at that moment, and whatever starts next: exactly one of everything."""
    struck = strike(face, face.model, EVERY[name])
    face.begin()
    face.opens("will")
    reacted = killed = False
    end = time.monotonic() + 2 * PATIENCE
    while not (killed and any(READY in text for text in face.said("tell"))):
        assert time.monotonic() < end, (killed, reacted, face.log())
        face.proceed()
        if not killed and struck():
            face.die(alone=name in ALONE)
            killed = True
        if not reacted and face.plans():
            face.reacts("maya", "+1")
            reacted = True
        time.sleep(0.001)
    face.rest()
    exactly_one(face)
    assert not any(is_at_work(text) for text in face.said("progress"))
    assert face.github.faults.remaining_strikes == 0


@pytest.mark.parametrize("mortal", (soak("action"), long("service")), indirect=True)
def test_three_deaths(mortal: Mortal) -> None:
    """Of all moments three by chance, one after the other, in one life."""
    chance = random.Random(0)
    every = list(deaths(recorded(mortal)))
    assert len(every) > 25
    Life(mortal, chance, [every[n] for n in sorted(chance.sample(range(len(every)), 3))]).lived()


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("mortal", FACES, indirect=True)
def test_every_boundary(mortal: Mortal, seed: int, part: int) -> None:
    """Each moment in a life of its own; chance adds deaths, mishaps, a second process, and how people approve."""
    every = recorded(mortal)
    moments = list(deaths(every))[part::PARTS]
    failed = []
    for death in moments:
        chance = random.Random(f"{seed} {death}")
        life = Life(mortal, chance, disturbed(death, every, chance))
        try:
            life.lived()
        except AssertionError as error:
            failed.append(f"seed {seed}, #{life.number}, {[str(each) for each in life.strikes]}: {error}")
            mortal.end()
            mortal.github.faults.clear()
    print(f"seed {seed}, part {part}: {len(moments)} deaths, {len(failed)} failed")  # noqa: T201
    assert failed == []
