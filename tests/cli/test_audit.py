"""`plangate audit`: dates, and cells that no spreadsheet carries out."""

import io
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bot.cli.audit import parse_moment, print_rows
from bot.core.audit import AuditRow
from bot.core.errors import Misconfigured

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


def test_dates() -> None:
    """A day begins in UTC; anything else is refused with an example."""
    assert parse_moment("2026-11-01") == datetime(2026, 11, 1, tzinfo=UTC)
    assert parse_moment("2026-11-01T08:00:00+02:00").hour == 8
    with pytest.raises(Misconfigured, match="not a date"):
        parse_moment("yesterday")
