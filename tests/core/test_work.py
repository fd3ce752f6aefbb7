"""What work used, reviews, and the result of a tool."""

from hypothesis import given
from hypothesis import strategies as st

from bot.agent.limits import Ledger
from bot.core.codec import decode, encode
from bot.core.events import decode_event
from bot.core.gate import Move
from bot.core.moves import Answered
from bot.core.names import AgentId, CommitId
from bot.core.work import Access, Consumption, Review, ReviewFinding, Severity, ToolOutput, body_text
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


def test_the_journal_has_six_digits_after_the_point() -> None:
    assert Consumption(0.12345678).dollars == 0.123457


FOUND = ReviewFinding("src/`a.py", 3, Severity.HIGH, "It fails.")
REVIEW = Review("Not yet.", (FOUND, ReviewFinding("b.py", 1, Severity.LOW, "Why?")), CommitId("a" * 40))


def test_the_journal_keeps_it() -> None:
    """What is written is read back, in the entry of an answer too; an answer without one stays as it was."""
    assert decode(Review, encode(REVIEW)) == REVIEW
    entry = Answered(text_to_post="x", review=REVIEW)
    assert decode_event(Move.ANSWERED, encode(entry)) == entry
    assert "review" not in encode(Answered(text_to_post="x"))


def test_it_reads_as_one_text() -> None:
    """The summary, then each finding with its place and severity; a place cannot leave its code span."""
    assert REVIEW.text == "Not yet.\n\n`src/'a.py:3`\n**High:** It fails.\n\n`b.py:1`\n**Low:** Why?"
    assert body_text("Good.", ()) == "Good."


def test_a_plain_result() -> None:
    """A result that says nothing else is no error, has no pictures and no facts, and shares none with another one."""
    one, other = ToolOutput("x"), ToolOutput("x")
    assert (one.is_error, one.blocks, one.stamps, one.details) == (False, (), {}, {})
    assert one.details is not other.details
    assert [str(access) for access in Access] == ["read", "write"]
