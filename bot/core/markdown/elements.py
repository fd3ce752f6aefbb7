"""The elements of the bot's own texts: lines, code, tables, folded texts, and shortened lists."""

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Final

from bot.core.codepoints import with_printable_signs, with_visible_codepoints

# --- Lines of text: shortened texts, diffs, and patches --------------------------------------------------------------

_NOTE: Final = "\n\n[… {:,} characters are left out here …]\n\n"


def shorten_line(text: str, longest: int) -> str:
    """Return a text as one line of at most `longest` characters; one that was cut ends with …"""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def cut_middle(text: str, longest: int) -> str:
    """Return a text of at most `longest` characters plus a note: a longer one loses its middle, with a count."""
    if len(text) <= longest:
        return text
    head = (longest + 1) // 2
    return text[:head] + _NOTE.format(len(text) - longest) + text[len(text) - (longest - head) :]


_OFTEN: Final = 9
_MOST_STEPS: Final = 2_000_000


def line_matcher(a: Sequence[str], b: Sequence[str]) -> SequenceMatcher[str]:
    """Return a matcher for the lines of two texts that takes bounded time for any text.

    For each match, difflib looks at every line of `a` and at all places where `b` has it. So a line that `b` has often,
    such as a blank one, matches only next to other matches. Texts that may take more than _MOST_STEPS count as
    different from their first unequal line on.
    """
    places = Counter(b)
    pairs = sum(places[line] for line in a if places[line] <= _OFTEN)
    is_too_long = (len(a) + pairs) * min(len(a), len(b)) > _MOST_STEPS
    return SequenceMatcher(lambda line: is_too_long or places[line] > _OFTEN, a, b, autojunk=False)


_HUNK: Final = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)")


def right_lines(patch: str) -> dict[int, int]:
    """Return the lines of the new file that a patch shows: number, from 1, and position in the patch, from 0.

    https://www.gnu.org/software/diffutils/manual/html_node/Detailed-Unified.html
    """
    positions, number = dict[int, int](), 0
    for at, line in enumerate(patch.split("\n")):
        if header := _HUNK.match(line):
            number = int(header[1])
        elif line[:1] in {"+", " "}:
            positions[number] = at
            number += 1
    return positions


# --- Markdown elements: code, tables, folded texts, lists ------------------------------------------------------------

_CELL_ROOM: Final = 200
"""Maximum characters of a table cell."""


def code(value: str) -> str:
    """Return a value as a code span that nothing in it can close. Unprintable characters become ‹U+XXXX›."""
    visible = with_printable_signs(value)
    fence = "`" * (max(map(len, re.findall("`+", visible)), default=0) + 1)
    return f"{fence} {visible} {fence}" if "`" in visible else f"{fence}{visible}{fence}"


def codes(values: Sequence[str]) -> str:
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
