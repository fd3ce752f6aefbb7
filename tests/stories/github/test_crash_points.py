"""Kill -9 at every boundary of a story: just before and just after each request that changes something (E3).

Boundaries are found by recording a story. In a life that ends well there is one plan, one branch, one pull request,
each move once, the fix in the branch, and nothing more to do.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import product

import pytest

from tests.github.effects import BRANCH
from tests.stories.github.deaths import Boundary, Death, Life, Mortal, disturbed, recorded

pytestmark = [pytest.mark.req("E1", "E3", "PR2", "PR3"), pytest.mark.timeout(0)]
FACES = ("service", "action")
PARTS = 8
"""In how many pieces a campaign over all boundaries is cut, so that they run side by side."""


def deaths(every: Sequence[Boundary]) -> Iterator[Death]:
    """Yield every moment to die at, in order."""
    return (Death(at, done) for at, done in product(every, (False, True)))


@pytest.mark.long
@pytest.mark.parametrize("mortal", FACES[:1], indirect=True)
def test_two_deaths(mortal: Mortal) -> None:
    """One that showed the plan and did not note it, and one before the branch."""
    shown, branch = Boundary("comment", "<!-- plangate:1 plan ", 0), Boundary("branch", BRANCH, 0)
    Life(mortal, random.Random(0), [Death(shown, done=True), Death(branch, done=False)]).lived()


@pytest.mark.long
@pytest.mark.parametrize("mortal", FACES, indirect=True)
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
