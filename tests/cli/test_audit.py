"""`plangate audit`: dates, and cells that no spreadsheet carries out."""

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bot.cli.receipts import parse_moment, print_rows, unreadable_text
from bot.core.errors import Misconfigured
from bot.core.reporting import AuditRow

ROW = AuditRow(datetime(2026, 11, 20, tzinfo=UTC), 7, 1, "failed", "", "", "", "=HYPERLINK(1)", 0.5)


@pytest.mark.req("RC8")
def test_formats() -> None:
    """CSV has a header and harmless cells; JSON Lines have the values as they are."""
    table, lines = io.StringIO(), io.StringIO()
    print_rows([ROW, replace(ROW, detail="a, b")], table, as_lines=False)
    print_rows([ROW], lines, as_lines=True)
    assert table.getvalue().splitlines() == [
        "at,thread,entry,event,people,plan,commit,detail,cost_usd",
        "2026-11-20T00:00:00+00:00,7,1,failed,,,,'=HYPERLINK(1),0.5",
        '2026-11-20T00:00:00+00:00,7,1,failed,,,,"a, b",0.5',
    ]
    assert json.loads(lines.getvalue())["detail"] == "=HYPERLINK(1)"


@pytest.mark.req("RC8")
@pytest.mark.parametrize(
    ("text", "shown"),
    (
        *((f"{sign}1+1", f"'{sign}1+1") for sign in "=+-@\uff1d\uff0b\uff0d\uff20\t\n"),
        ("\r=1", "'\n'=1"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("  =1+1", "'  =1+1"),
        ("a;=1+1", "a;'=1+1"),
        ("a; @SUM(1)\n-1", "a;' @SUM(1)\n'-1"),
        ("a\t=1", "a\t'=1"),
        ("'=1", "'=1"),
        ("a-b, c=d; e+f", "a-b, c=d; e+f"),
        ("", ""),
    ),
)
def test_cells_that_a_spreadsheet_would_run(text: str, shown: str) -> None:
    """At the start of a cell, and after a sign that ends a cell in some countries; other texts stay as they are."""
    table = io.StringIO()
    print_rows([replace(ROW, detail=text)], table, as_lines=False)
    (_, row) = csv.reader(io.StringIO(table.getvalue(), newline=""))
    assert row[7] == shown


@pytest.mark.parametrize(
    "text",
    (
        "2026-11-01",
        "20261101",
        "2026-W44-7",
        "2026-11-01T00:00",
        "2026-11-01 00:00:00",
        "2026-11-01T00:00:00.000Z",
        "20261101T000000Z",
        "2026-11-01T02:00+02:00",
        "2026-10-31T19:00:00-0500",
    ),
)
def test_dates(text: str) -> None:
    """Every form of ISO 8601 that names a day or a time; a day begins in UTC."""
    assert parse_moment(text) == datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize("text", ("0001-01-01T00:00+14:00", "9999-12-31T23:59:59-14:00"))
def test_the_first_and_the_last_date(text: str) -> None:
    """Such a moment can be compared as every other one."""
    assert (parse_moment(text) < ROW.at) == text.startswith("0001")
    assert parse_moment(text).timestamp()


@pytest.mark.parametrize(
    "text",
    ("yesterday", "", "2026", "2026-11", "2026-13-01", "2026-11-31", "01.11.2026", "11/01/2026", "7d", "1793491200"),
)
def test_no_dates(text: str) -> None:
    """Anything else is refused with an example."""
    with pytest.raises(Misconfigured, match=r"not a date: .* \(--since\): write a day, such as 2026-11-01"):
        parse_moment(text)


def test_threads_that_are_not_in_the_export() -> None:
    """The first twenty are named, and why."""
    why = "Another state key wrote their journals, or somebody altered them."
    assert unreadable_text([3]) == f"plangate: threads that are not in the export: #3. {why}"
    assert ": #1, #2, " in unreadable_text(range(1, 24))
    assert ", #20, and 3 more. " in unreadable_text(range(1, 24))
