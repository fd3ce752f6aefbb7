"""What a session reached of the network is counted within bounds, and nothing counts twice or gets lost."""

import pytest

from bot.agent.reached import MOST, Reaching, facts
from bot.core.network import Reached


def row(number: int) -> Reached:
    return Reached(f"h{number}.example.org", 443, allowed=False, reason="not on the list")


@pytest.mark.req("PR6")
def test_kinds_and_repeats() -> None:
    """A first decision of a kind is news, a repeat is counted; beyond the bound, new kinds are only counted."""
    reaching = Reaching()
    for number in (0, 0, 1):
        reaching.take(row(number))
    assert reaching.new.is_set()
    assert [told["times"] for told in facts(reaching.rows, reaching.beyond)] == [2, 1]
    for number in range(MOST + 3):
        reaching.take(row(number))
    assert len(reaching.rows) == MOST
    assert facts(reaching.rows, reaching.beyond)[-1] == {"beyond": 3}


@pytest.mark.req("PR6")
def test_on_record() -> None:
    """What came while an entry was written is left for the next one; a kind that was told is no news again."""
    reaching = Reaching()
    reaching.take(row(0))
    rows, beyond = reaching.rows.copy(), reaching.beyond
    reaching.new.clear()
    reaching.take(row(0))
    reaching.recorded(rows, beyond)
    assert [told["times"] for told in facts(reaching.rows, reaching.beyond)] == [1]
    assert not reaching.new.is_set()
