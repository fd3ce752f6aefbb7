"""Code owners of everything that a plan may change, from the repository's CODEOWNERS.

https://docs.github.com/en/repositories/managing-your-repositorys-settings-and-features/customizing-your-repository/about-code-owners

Rules
- The last rule that matches a file names its owners. A plan has globs instead of files, so every rule counts that could
  match a file reached by a glob, except rules above one that certainly matches all of those files.
- What cannot be determined is not owned. A rule with a wildcard could match anything, and a rule without owners has
  none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from bot.core.paths import normalized_path

_WILD = frozenset("*?[]{}!\\")


@dataclass(frozen=True, slots=True)
class _Place:
    """The folder that contains everything a pattern or glob reaches; the top if that is unknown."""

    parts: tuple[str, ...]
    whole: bool
    """Whether the pattern reaches everything in the folder."""

    def covers(self, other: "_Place") -> bool:
        """Return whether this place reaches everything that the other reaches."""
        return self.whole and other.parts[: len(self.parts)] == self.parts

    def meets(self, other: "_Place") -> bool:
        """Return whether both places may reach the same file, in any spelling."""
        return all(
            normalized_path(mine) == normalized_path(theirs)
            for mine, theirs in zip(self.parts, other.parts, strict=False)
        )


def owners(text: str, scope: Sequence[str]) -> frozenset[str]:
    """Return the owners of everything in a plan's scope: logins and ``organization/team``, in lower case."""
    rules = [_rule(line) for line in text.splitlines() if line.partition("#")[0].strip()]
    globs = [glob for glob in scope if not glob.startswith("!")] or ["**"]
    return reduce(frozenset.intersection, (_owners(rules, _place(glob)) for glob in globs))


def _owners(rules: Sequence[tuple[_Place, frozenset[str]]], reached: _Place) -> frozenset[str]:
    """Return the owners named by every rule that may be the last to match a reached file."""
    deciding: list[frozenset[str]] = []
    for place, names in reversed(rules):
        if place.meets(reached):
            deciding.append(names)
        if place.covers(reached):
            return reduce(frozenset.intersection, deciding)
    return frozenset()


def _rule(line: str) -> tuple[_Place, frozenset[str]]:
    """Return one rule: its place and its owners. E-mail addresses are left out because they name no known account."""
    pattern, *names = line.partition("#")[0].split()
    return _place(pattern), frozenset(name[1:].lower() for name in names if name.startswith("@"))


def _place(pattern: str) -> _Place:
    """Return the place of everything that a pattern reaches. A pattern without an inner slash matches anywhere."""
    if pattern in {"*", "**"}:
        return _Place((), whole=True)
    if "/" not in pattern.rstrip("/"):
        return _Place((), whole=False)
    parts = [part for part in pattern.split("/") if part]
    depth = next((at for at, part in enumerate(parts) if _WILD & set(part)), len(parts))
    return _Place(tuple(parts[:depth]), whole=parts[depth:] in ([], ["**"]))
