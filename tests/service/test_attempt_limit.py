"""What strangers may have the service try in vain (W1b)."""

import pytest

from bot.core.errors import PlangateError, Refused, Transient
from bot.service.viewers import AttemptLimit
from tests.service.ground import HandClock

pytestmark = pytest.mark.req("W1b")


def refuse(limit: AttemptLimit, account: str) -> None:
    with pytest.raises(Refused), limit.count(account):
        raise Refused("no")


def test_an_account_is_limited_and_all_together_are() -> None:
    limit = AttemptLimit(HandClock(), per_account=2, in_all=3, seconds=60)
    refuse(limit, "a")
    assert limit.has_room("a")
    refuse(limit, "a")
    assert (limit.has_room("a"), limit.has_room("b")) == (False, True)
    refuse(limit, "b")
    assert not limit.has_room("c")


def test_attempts_are_forgotten_in_time_and_those_that_succeed_at_once() -> None:
    clock = HandClock()
    limit = AttemptLimit(clock, per_account=1, in_all=9, seconds=60)
    with limit.count("a"):
        assert not limit.has_room("a")
    with pytest.raises(Transient), limit.count("a"):
        raise Transient("GitHub fails")
    assert limit.has_room("a")
    limit.record("a")
    clock.turn(59)
    assert not limit.has_room("a")
    clock.turn(1)
    assert limit.has_room("a")


def test_attempts_without_an_answer_count_where_a_caller_says_so() -> None:
    limit = AttemptLimit(HandClock(), per_account=1, in_all=9, seconds=60)
    with pytest.raises(Transient), limit.count("a", PlangateError):
        raise Transient("GitHub fails")
    assert not limit.has_room("a")


def test_an_attempt_may_take_longer_than_it_is_remembered() -> None:
    clock = HandClock()
    limit = AttemptLimit(clock, per_account=1, in_all=1, seconds=60)
    with limit.count("a"):
        clock.turn(60)
        assert limit.has_room("b")
    assert limit.has_room("a")
