"""The difference between two versions of a plan, for people who read the earlier one (product.md, Turns)."""

from difflib import unified_diff
from itertools import accumulate
from typing import Final

from bot.core.comment import contract, finding_list, operation_lines
from bot.core.plan import PlanDocument, disarm_text

ROOM: Final = 5_000
"""Characters for all lines. The comment still holds the longest possible plan beside them."""
LINE: Final = 200


def changes(before: PlanDocument, after: PlanDocument) -> str:
    """Return a diff of the text and contract, with one line of context; cut to fit, never empty.

    The result contains no box that can be ticked.
    """
    diff = list(unified_diff(_lines(before), _lines(after), n=1, lineterm=""))[3:]
    lines = ["…" if line.startswith("@@") else line[:LINE] for line in diff]
    fit = sum(end <= ROOM for end in accumulate(len(line) + 1 for line in lines))
    more = [f"… and {len(lines) - fit} more lines"] if fit < len(lines) else []
    return disarm_text("\n".join([*lines[:fit], *more])) or "nothing"


def _lines(plan: PlanDocument) -> list[str]:
    notes = ["", "Notes:", *plan.notes.split("\n")] if plan.notes else []
    findings = ["", *finding_list(plan.findings).split("\n")] if plan.findings else []
    operations = ["", *operation_lines(plan.operations)] if plan.operations else []
    return [*plan.markdown.split("\n"), *notes, *findings, *operations, "", *contract(plan).split("\n")]
