"""`plangate audit`: prints the rows of an export, as CSV or as one JSON object per line. SHELL."""

import csv
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import UTC, date, datetime
from typing import Final, TextIO

from bot.core.audit import AuditRow
from bot.core.errors import Misconfigured

_FORMULA: Final = re.compile("^(?=[\t\n])|(^|[;\t\n])(?=\\s*[=+@\uff1d\uff0b\uff0d\uff20-])")
"""Where a spreadsheet would begin to read a formula. Some take a semicolon or a tab for the end of a cell.

https://owasp.org/www-community/attacks/CSV_Injection
"""
_THREADS_NAMED: Final = 20


def parse_moment(text: str) -> datetime:
    """Return the moment of a date or time; UTC if it names no zone. Raises Misconfigured."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        fix = f"write a day, such as {date(2026, 11, 1)}, or a time, such as 2026-11-01T08:30:00+00:00"
        raise Misconfigured(f"not a date: {text!r}", where="--since", fix=fix) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def print_rows(rows: Sequence[AuditRow], out: TextIO, *, as_lines: bool) -> None:
    """Print rows as CSV with a header, or as JSON Lines."""
    if as_lines:
        for row in rows:
            print(json.dumps(asdict(row) | {"at": row.at.isoformat()}), file=out)
        return
    table = csv.writer(out, lineterminator="\n")
    table.writerow(column.name for column in fields(AuditRow))
    for row in rows:
        table.writerow(map(_cell, (asdict(row) | {"at": row.at.isoformat()}).values()))


def unreadable_text(threads: Sequence[int]) -> str:
    """Return which threads an export lacks, and why."""
    numbers = ", ".join(f"#{thread}" for thread in threads[:_THREADS_NAMED])
    more = f", and {len(threads) - _THREADS_NAMED} more" if len(threads) > _THREADS_NAMED else ""
    why = "Another state key wrote their journals, or somebody altered them."
    return f"plangate: threads that are not in the export: {numbers}{more}. {why}"


def _cell(value: object) -> object:
    """Return a cell that a spreadsheet shows as text and never runs as a formula.

    A carriage return becomes a newline: the csv module quotes only what could end its own lines.
    """
    if not isinstance(value, str):
        return value
    return _FORMULA.sub(r"\1'", re.sub("\r\n?", "\n", value))
