"""`plangate run OWNER/REPO#N`, as people start it: one look at a thread, its object and its exit code."""

import pytest

from bot.testing.model.reply import call
from tests.stories.github.ground import HOME
from tests.stories.github.service import Served
from tests.stories.ground import FIXED, Ended, Person
from tests.stories.test_run import RESULT

pytestmark = pytest.mark.long


def look(served: Served, *options: str) -> Ended:
    served.home.mkdir(parents=True, exist_ok=True)
    person = Person(served.home, served.base_url, served.home, served.environment())
    return person.call("run", f"{HOME}#1", *options)


def test_from_nothing_to_the_pull_request(served: Served) -> None:
    """0 where nothing is to be done, 3 while a plan waits, 0 when the work is shown; --json tells all of it."""
    served.opens("will", "Shipping is wrong.")
    nothing = look(served, "--json")
    assert (nothing.code, nothing.result["stage"]) == (0, "listening"), nothing.err
    assert set(RESULT) <= set(nothing.result)
    assert [nothing.result[name] for name in ("plan", "answer", "branch", "cost_usd", "steps")] == [None] * 4 + [0]

    served.says("will", "@plangate ship orders of exactly 50 for free")
    waits = look(served)
    assert (waits.code, waits.out.splitlines()[-1]) == (3, f"{HOME}#1: awaiting_approval"), waits.err
    served.says("ada", f"@plangate approve {served.digest}")
    done = look(served, "--json")
    assert done.code == 0, done.err
    result = done.result
    assert {name: type(result[name]) for name in RESULT} == RESULT
    assert result["stage"] == "in_review"
    assert f"\n{served.model.plan}\n" in result["plan"]
    assert result["plan_digest"].startswith(served.digest)
    assert served.branches()[result["branch"]] == result["commit"]
    assert result["usage"]["output"] > 0
    assert FIXED in done.err

    again = look(served, "--json").result
    kept = ("stage", "plan", "plan_digest", "branch", "commit", "answer", "cost_usd")
    assert [again[name] for name in kept] == [result[name] for name in kept]


def test_a_limit_has_its_own_exit_code(served: Served) -> None:
    """Whoever scripts it sees that nothing came of it, and why in one line."""
    served.model.before = (call("Read", file_path=FIXED),)
    served.opens("will")
    ended = look(served, "--max-cost-usd", "0.000001")
    assert ended.code == 4, ended.out
    assert ended.err.startswith("plangate: ")
    assert ended.err.count("\n") == 1
