"""The hidden last line of the bot's comments."""

import hashlib

import pytest

from bot.core import marker
from bot.core.marker import Key
from bot.core.names import ThreadNumber
from tests.rows import every_row

pytestmark = pytest.mark.req("A4")

KEY = Key("0a1b2c3d", lambda text: hashlib.sha256(b"ours" + text.encode()).hexdigest()[:32])
OTHER = Key("0a1b2c3d", lambda text: hashlib.sha256(b"other" + text.encode()).hexdigest()[:32])
LINE = marker.make("plan", ThreadNumber(7), 3, digest="ab" * 32, key=KEY)


def test_what_was_made_is_read_and_holds() -> None:
    found = marker.parse(f"text\n\n{LINE}\n")
    assert found is not None
    assert (found.kind, found.thread, found.ask, found.digest, found.key_id) == ("plan", 7, 3, "ab" * 32, KEY.id)
    assert found.holds(KEY.mac)
    assert not found.holds(OTHER.mac)


def test_a_digest_fits_into_a_marker() -> None:
    """The digest of any text is of the form that a marker takes, and of that text alone."""
    digest = marker.digest_of("ö")
    assert digest == hashlib.sha256("ö".encode()).hexdigest() != marker.digest_of("o")
    found = marker.parse(marker.make("operation", ThreadNumber(7), 0, digest=digest, key=KEY))
    assert found is not None
    assert found.digest == digest


@pytest.mark.parametrize(("part", "other"), ((" 7 ", " 8 "), (" 3 ", " 4 "), ("plan ", "tell "), ("abab", "abac")))
def test_a_changed_marker_does_not_hold(part: str, other: str) -> None:
    found = marker.parse(LINE.replace(part, other, 1))
    assert found is not None
    assert not found.holds(KEY.mac)


@pytest.mark.parametrize(
    "text",
    (
        "",
        "no marker",
        f"{LINE}\nnot the last line",
        LINE.replace("plangate:1", "plangate:2"),
        LINE.replace(" -->", "x -->"),
        LINE.replace("plan ", "PLAN "),
        f"x {LINE}",
    ),
)
def test_other_lines_are_no_marker(text: str) -> None:
    assert marker.parse(text) is None


@pytest.mark.req("A4b")
@every_row(
    ("kind", "number", "ahead"),
    (
        *(("tell", 9, False), ("tell", 10, True), ("tell", 0, False)),
        *((kind, number, number == 4) for kind in ("plan", "progress", "question", "unsettled") for number in (3, 4)),
        *(("waits", 99, False), ("ahead", 99, False), ("reply", 99, False)),
    ),
)
def test_a_comment_that_a_journal_cannot_know(kind: str, number: int, ahead: bool) -> None:
    """What is told has the number of its entry, what belongs to an ask that of the ask: a journal of nine entries and
    three asks was before the tenth and the fourth."""
    found = marker.parse(marker.make(kind, ThreadNumber(7), number, key=KEY))
    assert found is not None
    assert found.is_ahead(9, 3) is ahead


def test_text_is_compared_without_its_marker() -> None:
    assert marker.without(f"a\r\nb\r\n\r\n{LINE}\r\n") == marker.without("a\nb") == "a\nb"
