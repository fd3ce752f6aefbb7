"""What changed from one version of a plan to the next, for people who read the one before (product.md, Turns)."""

from difflib import unified_diff
from itertools import accumulate
from typing import Final

from bot.core.comment import contract
from bot.core.plan import PlanDocument, disarm_text

ROOM: Final = 5_000
"""Characters of all lines: with them the comment still holds the longest plan there is."""
LINE: Final = 200


def changes(before: PlanDocument, after: PlanDocument) -> str:
    """Give the lines that differ in text and contract, each with a neighbour, as a diff; cut to its room, never empty.

    Nothing in it is a box to tick.
    """
    found = list(unified_diff(_lines(before), _lines(after), n=1, lineterm=""))[3:]
    lines = ["…" if line.startswith("@@") else line[:LINE] for line in found]
    fit = sum(end <= ROOM for end in accumulate(len(line) + 1 for line in lines))
    more = [f"… and {len(lines) - fit} more lines"] if fit < len(lines) else []
    return disarm_text("\n".join([*lines[:fit], *more])) or "nothing"


def _lines(plan: PlanDocument) -> list[str]:
    return [*plan.markdown.split("\n"), "", *contract(plan).split("\n")]
