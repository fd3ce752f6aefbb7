"""The table of planned and changed files in a pull request's body (PR6). Pure, beside core/pull_text.py."""

from collections.abc import Mapping, Sequence
from typing import Final

from bot.core.codepoints import with_visible_codepoints
from bot.core.lines import shorten_line
from bot.core.lookalikes import mark_lookalikes
from bot.core.markdown.elements import cell, details, table
from bot.core.paths import is_path_covered, normalized_path
from bot.core.plan import PlanDocument

_ROWS_SHOWN: Final = 20
_PATHS_SHOWN: Final = 3
_PATH_ROOM: Final = 60
"""Limits of the table, in rows, in paths of a row, and in characters of a path: 400 files fit into 6,000 characters."""


def scope_table(plan: PlanDocument, changed: Sequence[str]) -> str:
    """Render what the plan names beside the files that changed, folded.

    A file is listed beside the entry that names it exactly, else beside the first one that covers it. If there are too
    many rows to show, files that no entry names and entries without a change come first.
    """
    by_entry = changed_by_entry(plan.contract.scope, changed)
    first = list(by_entry)
    if len(first) > _ROWS_SHOWN:
        first.sort(key=lambda entry: bool(entry and by_entry[entry]))
    nameless = "not named" if plan.contract.scope else "any, except those of tier high"
    rows = [f"{_name(entry) if entry else nameless} | {_paths(by_entry[entry])}" for entry in first[:_ROWS_SHOWN]]
    more = f"\n\nPlanned files not shown: {len(by_entry) - _ROWS_SHOWN}." if len(by_entry) > _ROWS_SHOWN else ""
    return details("Planned and changed files", table("planned | changed", rows) + more)


def changed_by_entry(scope: Sequence[str], changed: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return the changed paths of each entry of a scope, in order; under "" those of no entry, if there are any."""
    entries = [glob for glob in scope if not glob.startswith("!")]
    exact = {normalized_path(glob): glob for glob in reversed(entries)}
    by_entry: dict[str, list[str]] = {glob: [] for glob in entries}
    for path in changed:
        covering = (glob for glob in entries if is_path_covered(path, glob))
        entry = exact.get(normalized_path(path)) or next(covering, "")
        by_entry.setdefault(entry, []).append(path)
    return by_entry


def _paths(paths: Sequence[str]) -> str:
    """Render the first paths, and the number of all if there are more."""
    if not paths:
        return "no change"
    names = ", ".join(map(_name, paths[:_PATHS_SHOWN]))
    return names if len(paths) <= _PATHS_SHOWN else f"{len(paths)} files: {names}, …"


def _name(path: str) -> str:
    visible = with_visible_codepoints(mark_lookalikes(path))
    return f"`{cell(shorten_line(visible, _PATH_ROOM))}`"
