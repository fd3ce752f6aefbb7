"""The lines of a patch in the unified format.

https://www.gnu.org/software/diffutils/manual/html_node/Detailed-Unified.html
"""

import re
from typing import Final

_HUNK: Final = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)")


def right_lines(patch: str) -> dict[int, int]:
    """Return the lines of the new file that a patch shows: number, from 1, and position in the patch, from 0."""
    found, number = dict[int, int](), 0
    for at, line in enumerate(patch.split("\n")):
        if header := _HUNK.match(line):
            number = int(header[1])
        elif line[:1] in {"+", " "}:
            found[number] = at
            number += 1
    return found
