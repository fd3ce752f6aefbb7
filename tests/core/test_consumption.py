"""What work used: sums, differences, and what was carried over from the journal."""

from hypothesis import given
from hypothesis import strategies as st

from bot.agent.limits import Ledger
from bot.core.names import AgentId
from bot.core.work import Consumption
from bot.ports import Usage

_SIZES = st.integers(0, 10**9)
_amounts = st.builds(Consumption, st.integers(0, 100).map(float), _SIZES, _SIZES)
MAIN = AgentId("main")


@given(_amounts, _amounts)
def test_lower_and_higher(one: Consumption, other: Consumption) -> None:
    """Number by number; together they hold both, so that nothing is lost or counted twice."""
    assert one.lower(other) + one.higher(other) == one + other
    assert one + other - other == one
    assert (one.lower(one), one.higher(one)) == (one, one)


@given(st.lists(st.builds(Usage, *[st.integers(0, 10**6)] * 4), min_size=1), st.data())
def test_what_the_journal_has_is_not_own(usages: list[Usage], data: st.DataObject) -> None:
    """A transcript is booked again by the process that resumes it; only what no entry tells counts as its own."""
    ledger, journaled = Ledger(), Consumption()
    known = data.draw(st.integers(0, len(usages)))
    for n, usage in enumerate(usages):
        ledger.add(MAIN, "m", usage, 1.0)
        journaled += Consumption(1.0, usage.prompt, usage.output) if n < known else Consumption()
    ledger.carried += ledger.used(MAIN).lower(journaled)
    rest = sum(usages[known:], Usage())
    assert ledger.own == Consumption(len(usages) - known, rest.prompt, rest.output)


def test_dollars() -> None:
    """The journal has six digits after the point."""
    assert Consumption(0.12345678).dollars == 0.123457
