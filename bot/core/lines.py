"""Lines of text: shortened texts, differences of two texts, and the new lines of a patch in the unified format."""

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
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


_OFTEN: Final = 9
_MOST_STEPS: Final = 2_000_000


def line_matcher(a: Sequence[str], b: Sequence[str]) -> SequenceMatcher[str]:
    """Return what compares the lines of two texts, within a time that no text can make long.

    For each match, difflib looks at every line of `a` and at all places where `b` has it. So a line that `b` has often,
    such as a blank one, matches only beside others that do. Texts that may take more than _MOST_STEPS differ as a whole
    after the lines that they begin with alike.
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
