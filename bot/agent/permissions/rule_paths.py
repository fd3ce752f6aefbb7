"""Which paths a call names, and whether a rule's pattern matches them (P7).

Rules
- A rule for Read covers every tool that reads, and a rule for Edit every tool that writes.
- Patterns follow the same syntax as a plan's scope (core.paths): as in .gitignore, for any spelling of the path.
- A search of a folder is matched by the folder and by what it searches for there, not by every file below. A command is
  matched by the words that it spells out; a name that it computes is not seen. The sandbox is the boundary.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from bot.core.paths import is_path_covered, normalized_path
from bot.core.transcript import Json

FAMILIES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "Read": frozenset({"Read", "LS", "Glob", "Grep", "NotebookRead"}),
        "Edit": frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"}),
    }
)
"""Tools that a rule covers in addition to the tool that it names."""

_OF_PATHS: Final = frozenset().union(*FAMILIES.values())
_KEYS: Final = ("file_path", "notebook_path", "path")
_IN_FOLDER: Final = ("pattern", "glob")
_FOLDERS: Final = frozenset({"LS", "Glob", "Grep"})
_SOME_FILE: Final = "\N{MIDDLE DOT}"
_DEEPEST: Final = 32


def applies_to(rule: str, tool: str) -> bool:
    """Return whether a rule that names tool `rule` applies to `tool`."""
    return tool == rule or tool in FAMILIES.get(rule, ())


def about_paths(tool: str) -> bool:
    """Return whether a tool's patterns are globs over paths."""
    return tool in _OF_PATHS


def relative_input(tool_input: Json, folder: str) -> Json:
    """Return a call's input with its paths relative to the checkout, as rules are written."""
    paths = {key: value for key in _KEYS if isinstance(value := tool_input.get(key), str)}
    return tool_input | {key: _relative(value, folder) for key, value in paths.items()}


def covers(pattern: str, tool: str, tool_input: Json) -> bool:
    """Return whether a pattern covers all paths that a call names, as an allow rule requires.

    Paths outside the checkout are never covered.
    """
    paths = list(_call_paths(tool, tool_input))
    inside = (normalized_path(path).partition("/")[0] != ".." and not path.startswith("/") for path in paths)
    return all(inside) and all(is_path_covered(path, pattern) for path in paths)


def within_paths(globs: Sequence[str], tool: str, tool_input: Json) -> bool:
    """Return whether a call stays within some globs.

    A folder does if a glob covers files directly in it.
    """
    if tool not in _OF_PATHS:
        return True
    folder = str(tool_input.get("path") or "")
    inside = tool_input | {"path": posixpath.join(folder, _SOME_FILE)}
    return any(
        covers(glob, tool, tool_input) or (tool in _FOLDERS and bool(folder) and covers(glob, tool, inside))
        for glob in globs
    )


def reaches(pattern: str, tool: str, tool_input: Json) -> bool:
    """Return whether a pattern reaches any path that a call names, as deny and ask rules require."""
    paths = list(_call_paths(tool, tool_input))
    if tool in _FOLDERS:
        paths += [f"{path}/{_SOME_FILE}" for path in paths[:1]]
    return any(_is_reached(path, pattern) for path in paths)


def named_by(pattern: str, command: str) -> bool:
    """Return whether a shell line spells out a path that a pattern reaches.

    The path may be a whole word or follow a sign such as = or :.
    """
    from bot.agent.permissions.shell_policy import program_names

    words = {piece for word in program_names(command) for piece in (word, *re.split(r"[=:,@]", word)) if piece}
    return any(_is_reached(word, pattern) or _may_be(word, pattern) for word in words)


def _may_be(word: str, pattern: str) -> bool:
    """Return whether the shell may expand a word to a name that matches the pattern."""
    glob = re.sub(r"\[[^]/]+\]", "?", word)
    return bool(set("*?{") & set(glob)) and is_path_covered(pattern, glob)


def target_path(tool_input: Json) -> str:
    """Return the file or folder that a call works on, as it is spelled in the call, or "" if it names none."""
    return next((str(tool_input[key]) for key in _KEYS if tool_input.get(key)), "")


def _call_paths(tool: str, tool_input: Json) -> Iterator[str]:
    """List the paths that a call names: its file or folder, and what it searches for in there."""
    target = target_path(tool_input) or "."
    looked_for = [str(tool_input[key]) for key in _IN_FOLDER if tool_input.get(key)]
    if tool == "Grep":
        looked_for = [str(tool_input["glob"])] if tool_input.get("glob") else []
    if tool != "Glob" or not looked_for:
        yield target
    yield from (posixpath.join(target, path) for path in looked_for)


def _is_reached(path: str, pattern: str) -> bool:
    """Return whether a pattern reaches a path.

    For a path outside the checkout, any trailing part of it counts too.
    """
    if is_path_covered(path, pattern):
        return True
    parts = normalized_path(path).strip("/").split("/")[-_DEEPEST:]
    outside = path.startswith(("/", "~")) or parts[0] == ".."
    return outside and any(is_path_covered("/".join(parts[at:]), pattern) for at in range(1, len(parts)))


def _relative(path: str, folder: str) -> str:
    full = posixpath.normpath(posixpath.join(folder, path))
    return posixpath.relpath(full, folder) if full == folder or full.startswith(f"{folder}/") else full
