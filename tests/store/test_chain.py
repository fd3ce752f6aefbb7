"""The chain of a journal: every way of changing it but cutting its end is seen."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.errors import Refused
from bot.core.names import RepositoryId, ThreadNumber
from bot.ports import Entry
from bot.store.sealing import RESERVED, Chain
from tests.rows import every_row

AT = datetime(2026, 11, 20, 8, 30, 0, 123456, tzinfo=UTC)
CHAIN = Chain(RepositoryId(7), ThreadNumber(5), b"k" * 32)
LINES = CHAIN.extend((), AT, [("a", {"x": 1}), ("b", {"x": 2}), ("c", {"x": 3})])


def test_format() -> None:
    """A line is one JSON object: n, at, kind, the body, prev, mac; the first prev is 64 zeros (a known answer)."""
    first, second = CHAIN.extend((), AT, [("a", {"x": "é"}), ("b", {})])
    assert first.decode() == (
        '{"n":1,"at":"2026-11-20T08:30:00.123456+00:00","kind":"a","x":"é","prev":"' + "0" * 64 + '",'
        '"mac":"2fa83ac0df0c5e1bd1b1e5e78e187838ac9d4489229e52112015091588c1e36a"}'
    )
    assert second.decode().startswith(
        '{"n":2,"at":"2026-11-20T08:30:00.123456+00:00","kind":"b","prev":"09036bf79dd1dcf605559ae533019a728c4abc7ae4a3342d740c20a2bab098f2"'
    )


def test_in_pieces() -> None:
    """Extending in two steps gives the same lines as extending in one."""
    head = CHAIN.extend((), AT, [("a", {"x": 1})])
    assert head + CHAIN.extend(head, AT, [("b", {"x": 2}), ("c", {"x": 3})]) == LINES


def test_time_is_utc() -> None:
    """A time of another zone is stored, and read back, as the same moment in UTC."""
    lines = CHAIN.extend((), AT.astimezone(timezone(timedelta(hours=5))), [("a", {})])
    assert CHAIN.verify(lines) == (Entry(1, AT, "a", {}),)
    assert b"+00:00" in lines[0]


@pytest.mark.req("A4")
@every_row(
    ("lines", "line"),
    (
        ((LINES[0], LINES[2]), 2),
        (LINES[1:], 1),
        ((LINES[1], LINES[0], LINES[2]), 1),
        ((LINES[0], LINES[0], LINES[1]), 2),
        ((LINES[0], LINES[1].replace(b'"x":2', b'"x":9'), LINES[2]), 2),
        ((LINES[0], LINES[1].replace(b'"n":2', b'"n":3'), LINES[2]), 2),
        ((*LINES[:2], LINES[2][:-1]), 3),
        ((*LINES, b""), 4),
        ((*LINES, b"{}"), 4),
        ((*LINES, b'{"n":4,"at":"2026-11-20T08:30:00+00:00","kind":"a","prev":"","mac":""}'), 4),
        ((LINES[0][:-1] + b" }", *LINES[1:]), 1),
        ((b" " + LINES[0], *LINES[1:]), 1),
    ),
)  # fmt: skip
def test_tampered(lines: tuple[bytes, ...], line: int) -> None:
    """Any change is Refused, naming the first line that is not as it was written."""
    with pytest.raises(Refused, match=f"line {line}\\b"):
        CHAIN.verify(lines)


@pytest.mark.req("A4")
@pytest.mark.parametrize(
    "other",
    (
        Chain(RepositoryId(8), ThreadNumber(5), b"k" * 32),
        Chain(RepositoryId(7), ThreadNumber(6), b"k" * 32),
        Chain(RepositoryId(7), ThreadNumber(5), b"K" * 32),
    ),
    ids=("repository", "thread", "key"),
)
def test_carried_elsewhere(other: Chain) -> None:
    """Lines of another repository, thread or key do not verify."""
    with pytest.raises(Refused, match="line 1"):
        other.verify(LINES)


@pytest.mark.req("A4")
def test_two_stories() -> None:
    """A line that truly was the second of another history of the thread does not follow this one's first."""
    other = CHAIN.extend((), AT, [("a", {"x": 0}), ("b", {"x": 2})])
    with pytest.raises(Refused, match="line 2"):
        CHAIN.verify((LINES[0], other[1]))


def test_cut_at_the_end() -> None:
    """A chain that lost its end verifies: a rollback is not for the chain to see (module docstring)."""
    assert [entry.kind for entry in CHAIN.verify(LINES[:2])] == ["a", "b"]


def test_key_is_not_shown() -> None:
    """Printing a chain does not print its key."""
    assert "kkk" not in repr(CHAIN)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
BODY = st.dictionaries(st.text().filter(lambda key: key not in RESERVED), JSON, max_size=4)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.text(), BODY), max_size=4))
def test_any_entries(entries: list[tuple[str, dict[str, object]]]) -> None:
    """Whatever JSON was put in comes out, and no line holds a newline."""
    lines = CHAIN.extend((), AT, entries)
    assert [(entry.kind, entry.body) for entry in CHAIN.verify(lines)] == entries
    assert not any(b"\n" in line for line in lines)


@given(st.data())
def test_any_flipped_byte(data: st.DataObject) -> None:
    """A chain with any one byte changed is Refused."""
    which = data.draw(st.integers(0, 2))
    at = data.draw(st.integers(0, len(LINES[which]) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda byte: byte != LINES[which][at]))
    changed = LINES[which][:at] + bytes([value]) + LINES[which][at + 1 :]
    with pytest.raises(Refused, match=f"line {which + 1}\\b"):
        CHAIN.verify((*LINES[:which], changed, *LINES[which + 1 :]))
