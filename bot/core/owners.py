"""Code owners: who owns everything that a plan may change, as the repository's CODEOWNERS says.

https://docs.github.com/en/repositories/managing-your-repositorys-settings-and-features/customizing-your-repository/about-code-owners

Rules
- The last rule that matches a file names its owners. A plan has globs, not files: so each rule counts that could match
  a file that a glob reaches, but those above one that surely matches all of them.
- What cannot be told is not owned: a rule with a wildcard could match anything, and one without owners has none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from bot.core.paths import normalized_path

_WILD = frozenset("*?[]{}!\\")


@dataclass(frozen=True, slots=True)
class _Place:
    """The folder below which all is that a pattern or glob reaches; the top where that is not known."""

    parts: tuple[str, ...]
    whole: bool
    """Whether all that is there is reached."""

    def covers(self, other: "_Place") -> bool:
        """Tell whether all that another reaches is reached here as well."""
        return self.whole and other.parts[: len(self.parts)] == self.parts

    def meets(self, other: "_Place") -> bool:
        """Tell whether something may be reached by both, in whatever spelling."""
        return all(
            normalized_path(mine) == normalized_path(theirs)
            for mine, theirs in zip(self.parts, other.parts, strict=False)
        )


def owners(text: str, scope: Sequence[str]) -> frozenset[str]:
    """Give who owns all that a plan's scope may reach: logins, and teams as ``organisation/team``, in lower case."""
    rules = [_rule(line) for line in text.splitlines() if line.partition("#")[0].strip()]
    globs = [glob for glob in scope if not glob.startswith("!")] or ["**"]
    return reduce(frozenset.intersection, (_owners(rules, _place(glob)) for glob in globs))


def _owners(rules: Sequence[tuple[_Place, frozenset[str]]], reached: _Place) -> frozenset[str]:
    """Give who is named by each rule that may be the last to match something that is reached."""
    deciding: list[frozenset[str]] = []
    for place, named in reversed(rules):
        if place.meets(reached):
            deciding.append(named)
        if place.covers(reached):
            return reduce(frozenset.intersection, deciding)
    return frozenset()


def _rule(line: str) -> tuple[_Place, frozenset[str]]:
    """Read one rule: what it is about, and whom it names; an e-mail address names nobody that can be told."""
    pattern, *named = line.partition("#")[0].split()
    return _place(pattern), frozenset(name[1:].lower() for name in named if name.startswith("@"))


def _place(pattern: str) -> _Place:
    """Tell where all is that a pattern reaches: what has no slash inside is found anywhere."""
    if pattern in {"*", "**"}:
        return _Place((), whole=True)
    if "/" not in pattern.rstrip("/"):
        return _Place((), whole=False)
    parts = [part for part in pattern.split("/") if part]
    known = next((at for at, part in enumerate(parts) if _WILD & set(part)), len(parts))
    return _Place(tuple(parts[:known]), whole=parts[known:] in ([], ["**"]))
