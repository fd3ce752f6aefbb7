"""A review as an answer, as it is journaled and as it reads."""

from bot.core.codec import decode, encode
from bot.core.events import decode_event
from bot.core.gate import Move
from bot.core.moves import Answered
from bot.core.names import CommitId
from bot.core.work import Review, ReviewFinding, Severity, body_text

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
