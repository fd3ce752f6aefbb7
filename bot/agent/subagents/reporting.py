"""Writes the parent's view of a sub-agent's work, as data, within the size of one tool result (S4, S11a)."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from bot.agent.dispatch import RESULT_LIMIT
from bot.agent.history.escaping import as_data
from bot.core.work import MergeResult

NAMES_ROOM: Final = 10_000
DIFFS_ROOM: Final = 40_000
DIFFS_SHOWN: Final = 40
TOKEN_CHARACTERS: Final = 4
"""Approximate characters of a token. (M12 counts what was really used; this only bounds a text.)"""


def report(parts: Sequence[str], merge: MergeResult | None) -> str:
    """Join an agent's text with the result of its merge. Every conflict is named, however long the text is."""
    merged = "" if merge is None else f"\n\n{_merge_text(merge)}"
    return cut("\n\n".join(parts), (RESULT_LIMIT - len(merged)) // TOKEN_CHARACTERS - 100) + merged


def cut(text: str, tokens: int | None) -> str:
    """Cut a text at about `tokens` tokens, with a note. None means no limit."""
    if tokens is None or len(text) <= tokens * TOKEN_CHARACTERS:
        return text
    return text[: tokens * TOKEN_CHARACTERS] + f"\n[cut: the limit of {tokens:,} tokens of report was reached]"


def _merge_text(merge: MergeResult) -> str:
    """Describe what was merged, and every conflict, with both sides as far as there is room."""
    paths = tuple(merge.conflicts)
    lines = [f"Merged into your checkout: {_path_list(merge.merged) or 'nothing'}."]
    for path in paths[:DIFFS_SHOWN]:
        diffs = cut(as_data(merge.conflicts[path]), DIFFS_ROOM // min(len(paths), DIFFS_SHOWN) // TOKEN_CHARACTERS)
        told = "your side was kept. The sub-agent's change, then yours, as diffs"
        lines.append(f"CONFLICT in {as_data(path)}: {told}:\n{diffs}")
    if further := paths[DIFFS_SHOWN:]:
        lines.append(f"CONFLICT in {len(further)} more files, where your side was kept too: {_path_list(further)}.")
    return "\n".join(lines)


def _path_list(paths: Sequence[str]) -> str:
    """List as many paths as fit, and the number of those left out."""
    names = [as_data(path) for path in paths]
    shown = sum(size <= NAMES_ROOM for size in accumulate(len(name) + 2 for name in names))
    more = f" and {len(names) - shown:,} more" if shown < len(names) else ""
    return ", ".join(names[:shown]) + more
