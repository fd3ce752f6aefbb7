"""Every effect on GitHub, whatever becomes of its answer and of the look-ups after it: exactly one (E1, PR2)."""

from typing import Any

import pytest

from bot.core.errors import Conflict, Transient
from bot.testing.github.faults import Plan
from tests.github.conftest import Ground
from tests.github.effects import BLIND, EFFECTS, MISHAPS, SILENCE, Case, named, sites

SIZES = (0, 99, 100, 101, 1000)
OFTEN = {"done, then 502", "done, then cut", "not done, 502"}
EVERY_DAY = {
    ("comment", "done, then 502", True, 100),
    ("comment", "done, then silence", False, 0),
    ("comment", "not done, reset", True, 101),
    ("edit", "done, then cut", True, 99),
    ("fold", "done, then reset", False, 0),
    ("sign on a review", "done, then cut", False, 0),
    ("sign on a comment", "done, then 502", True, 0),
    ("pull request", "done, then cut", True, 0),
    ("pull request", "not done, 502", False, 0),
    ("review", "done, then 502", True, 0),
    ("labels", "done, then 500", False, 0),
    ("reviewers", "done, then reset", True, 0),
    ("journal", "done, then reset", True, 99),
    ("receipt", "done, then reset", False, 0),
    ("keys", "not done, 502", False, 0),
    ("check run", "done, then 502", True, 0),
}
"""Of each kind of request and each mishap something; the rest is for CI and the campaigns."""

TRIED_ELSEWHERE = {
    "bot/github/publishing_facts.py:_refusal_of_pulls:mutate",  # tests/github/test_publishing_facts.py: opens nothing
    "bot/github/comments.py:_post:delete",  # tests/github/test_comments.py: a repetition, gone once or twice
    "bot/github/app.py:exchange_code:post",  # tests/webhooks/test_set_up.py: GitHub takes each code once
    "bot/service/person_turns.py:create:post",  # tests/service/test_person_turns.py: a person's, by an idempotency key
    "bot/service/viewers.py:comment:post",  # tests/webhooks/dashboard/test_commands.py: a person's, once for each page
}
"""What changes GitHub and is not the bot's own work on a thread."""


def cases() -> list[Any]:
    """List the whole matrix: effect, mishap, whether look-ups fail afterwards, comments on the thread."""
    found = []
    for name, effect in EFFECTS.items():
        for mishap in MISHAPS if effect.prepare else ():
            for blind in (False, True):
                for size in SIZES:
                    case = (name, mishap, blind, size)
                    often = mishap in OFTEN and size in {0, 100} and effect.once and blind
                    often |= mishap in OFTEN and not (size or blind or effect.once)
                    mark = pytest.mark.long if often else pytest.mark.soak
                    title = f"{name}: {mishap}, {'then blind, ' if blind else ''}{size}"
                    found.append(pytest.param(*case, marks=() if case in EVERY_DAY else mark, id=title))
    return found


@pytest.mark.req("E1", "PR2")
@pytest.mark.parametrize(("name", "mishap", "blind", "size"), cases())
async def test_effect_is_there_once_and_was_not_lost(
    ground: Ground, name: str, mishap: str, blind: bool, size: int
) -> None:
    """It is there once and was not lost; and what twice is two of is never sent while nobody knows what is there."""
    effect = EFFECTS[name]
    assert effect.prepare is not None
    case = await effect.prepare(ground, size)
    ground.client.timeout, faults, began = SILENCE, ground.github.faults, len(ground.github.requests)

    def sent() -> int:
        return sum(named(logged) == name for logged in ground.github.requests[began:])

    plan = Plan(effect.request, MISHAPS[mishap], containing=effect.containing, then=BLIND if blind else ())
    faults.add(plan)
    tried = [await succeeds(case) for _ in range(2 if blind else 1)]
    assert sent() == 1 or not effect.once, "made again while nobody knows what is there"
    if blind:
        assert not (effect.once and any(tried))
        faults.clear()
    assert await succeeds(case) or await succeeds(case)
    assert (case.made(), faults.remaining_strikes) == (1, 0)
    await case.act()
    assert case.made() == 1, "a second look at the same thing"
    assert sent() <= 1 + mishap.startswith("not done") or not effect.once


async def succeeds(case: Case) -> bool:
    """Try as a check does; one that fails is tried again, and nobody else was there to be in conflict with."""
    try:
        await case.act()
    except Conflict:
        raise
    except Transient:
        return False
    return True


@pytest.mark.req("E1")
def test_every_way_to_change_github_is_in_the_table_of_effects() -> None:
    assert set(sites()) == {effect.site for effect in EFFECTS.values()} | TRIED_ELSEWHERE
