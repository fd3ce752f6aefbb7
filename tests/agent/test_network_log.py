"""What a session reached of the network is counted within bounds, and nothing counts twice or gets lost."""

import pytest

from bot.agent.resources import MOST, NetworkLog, network_rows
from bot.core.network import NetworkDecision


def row(number: int) -> NetworkDecision:
    return NetworkDecision(f"h{number}.example.org", 443, allowed=False, reason="not on the list")


@pytest.mark.req("PR6")
def test_kinds_and_repeats() -> None:
    """A first decision of a kind is news, a repeat is counted; beyond the bound, new kinds are only counted."""
    reaching = NetworkLog()
    for number in (0, 0, 1):
        reaching.record(row(number))
    assert reaching.new.is_set()
    assert [told["times"] for told in network_rows(reaching.rows, reaching.beyond)] == [2, 1]
    for number in range(MOST + 3):
        reaching.record(row(number))
    assert len(reaching.rows) == MOST
    assert network_rows(reaching.rows, reaching.beyond)[-1] == {"beyond": 3}


@pytest.mark.req("PR6")
def test_on_record() -> None:
    """What came while an entry was written is left for the next one; a kind that was told is no news again."""
    reaching = NetworkLog()
    reaching.record(row(0))
    rows, beyond = reaching.rows.copy(), reaching.beyond
    reaching.new.clear()
    reaching.record(row(0))
    reaching.drop_recorded(rows, beyond)
    assert [told["times"] for told in network_rows(reaching.rows, reaching.beyond)] == [1]
    assert not reaching.new.is_set()
