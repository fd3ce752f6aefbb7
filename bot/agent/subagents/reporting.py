"""Writes what a parent gets of a sub-agent's work, as data, within what one tool result holds (S4, S11a)."""

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
"""About what a token has (M12 counts what was really used; this bounds a text)."""


def report(parts: Sequence[str], merge: MergeResult | None) -> str:
    """Join what an agent said with what became of its changes; every conflict is named, however much was said."""
    merged = "" if merge is None else f"\n\n{_merge_text(merge)}"
    return cut("\n\n".join(parts), (RESULT_LIMIT - len(merged)) // TOKEN_CHARACTERS - 100) + merged


def cut(text: str, tokens: int | None) -> str:
    """Cut a text at about so many tokens, with a note; None for no limit."""
    if tokens is None or len(text) <= tokens * TOKEN_CHARACTERS:
        return text
    return text[: tokens * TOKEN_CHARACTERS] + f"\n[cut: the limit of {tokens:,} tokens of report was reached]"


def _merge_text(merge: MergeResult) -> str:
    """Tell what was merged, and every conflict: with both sides, as far as there is room."""
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
    """List paths, as many as there is room for, and say how many more there are."""
    names = [as_data(path) for path in paths]
    shown = sum(size <= NAMES_ROOM for size in accumulate(len(name) + 2 for name in names))
    more = f" and {len(names) - shown:,} more" if shown < len(names) else ""
    return ", ".join(names[:shown]) + more
