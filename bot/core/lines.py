"""Lines of text: shortened texts, and the new lines of a patch in the unified format."""

import re
from typing import Final

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
