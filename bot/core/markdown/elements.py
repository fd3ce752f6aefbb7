"""The elements of Markdown in the bot's texts: code, tables, folded texts, and lists of which only a part is shown."""

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from bot.core.codepoints import with_printable_signs, with_visible_codepoints

_CELL_ROOM: Final = 200
"""Characters of a cell."""


def code(value: str) -> str:
    """Return a value as a code span that nothing in it can close. Unprintable characters become ‹U+XXXX›."""
    visible = with_printable_signs(value)
    fence = "`" * (max(map(len, re.findall("`+", visible)), default=0) + 1)
    return f"{fence} {visible} {fence}" if "`" in visible else f"{fence}{visible}{fence}"


def codes(values: Sequence[str]) -> str:
    """Return values as code spans, comma-separated."""
    return ", ".join(map(code, values))


def fenced_block(text: str, language: str = "") -> str:
    """Render a text verbatim in a code block that nothing in it can close."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def table(head: str, rows: Sequence[str]) -> str:
    """Render a table. In the head and in each row, ``|`` separates the cells."""
    rule = "|".join("---" for _ in head.split("|"))
    return "\n".join(f"| {line} |" for line in (head, rule, *rows))


def cell(text: str) -> str:
    """Return a text that fits in one table cell and in one line of HTML. Invisible code points become ‹U+XXXX›."""
    line = " ".join(with_visible_codepoints(text).split())
    return (
        (line if len(line) <= _CELL_ROOM else f"{line[:_CELL_ROOM]}…")
        .replace("|", "\\|")
        .replace("`", "'")
        .replace("<", "‹")
    )


def details(summary: str, body: str) -> str:
    """Render a text folded behind its summary."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def first_items(items: Sequence[str], most: int, mark: str = "") -> list[str]:
    """Return at most that many items, followed by the number of the others. `mark` is what list items begin with."""
    others = len(items) - most
    return [*items[:most], f"{mark}and {others} more"] if others > 0 else [*items]


def fitting_items(items: Sequence[str], room: int, mark: str = "") -> list[str]:
    """Return as many items as fit into that many characters, followed by the number of the others."""
    ends = accumulate(len(item) + 2 for item in items)
    return first_items(items, sum(end <= room for end in ends), mark)


def first_values(values: Sequence[str], room: int) -> str:
    """Return as many values as fit, as code spans, and the number of the others."""
    return ", ".join(fitting_items([code(value) for value in values], room))
