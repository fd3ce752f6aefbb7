"""Code owners of everything that a plan may change, from the repository's CODEOWNERS.

https://docs.github.com/en/repositories/managing-your-repositorys-settings-and-features/customizing-your-repository/about-code-owners

Rules
- The last rule that matches a file names its owners. A plan has globs instead of files, so every rule counts that could
  match a file reached by a glob, except rules above one that certainly matches all of those files.
- A glob without a wildcard is one file, or everything below a folder if it ends with a slash. Only rules that match
  that path count for it.
- What cannot be determined is not owned: a rule with signs that GitHub does not document may match or may be skipped, a
  rule matches in any spelling of a path, and one without owners has none.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import takewhile
from typing import Final

from bot.core.paths import advance, normalized_path

_LINE_END: Final = re.compile(r"\r?\n")
_GAP: Final = re.compile(r"(?<!\\)[ \t]+")
_COMMENT: Final = re.compile(r"(?:^|(?<=[ \t]))#.*")
_WILD: Final = re.compile(r"[*?{}!\\]")
_UNDOCUMENTED: Final = re.compile(r"[\[\]\\#\r]|^!|\*\*\*")
_OWNER: Final = re.compile(r"@[\w-]+(?:/[\w.-]+)?|[^@]+@[^@]+", re.ASCII)
_ANY: Final = "\ue000" * 64
"""A name that only a wildcard for any name matches."""


@dataclass(frozen=True, slots=True)
class _Reach:
    """The files that one glob of a plan reaches."""

    samples: tuple[str, ...]
    """Paths that stand for all of them: a rule that matches each one matches every file."""
    folder: tuple[str, ...] = ()
    """The folder that contains all of them; the top if that is unknown."""
    name: str = ""
    """The name of all of them, in whatever folder; "" if they have several."""

    @classmethod
    def of(cls, glob: str) -> "_Reach":
        """Return what a glob of a plan reaches."""
        steps = [step for step in glob.split("/") if step]
        is_folder, is_anywhere = glob.endswith("/"), "/" not in glob.rstrip("/")
        fixed = tuple(takewhile(lambda step: not _WILD.search(step), steps))
        if len(fixed) < len(steps) or is_folder:
            folder = () if is_anywhere else fixed
            return cls(tuple("/".join((*folder, *below)) for below in ((_ANY,), (_ANY, _ANY))), folder)
        path = "/".join(steps)
        return cls((path, f"{_ANY}/{path}", f"{_ANY}/{_ANY}/{path}"), name=path) if is_anywhere else cls((path,))


@dataclass(frozen=True, slots=True)
class _Rule:
    """One line of the file."""

    pattern: str
    owners: frozenset[str]

    def covers(self, reach: _Reach) -> bool:
        """Return whether the rule certainly matches every reached file."""
        return not _UNDOCUMENTED.search(self.pattern) and all(_matches(self.pattern, path) for path in reach.samples)

    def meets(self, reach: _Reach) -> bool:
        """Return whether the rule may match a reached file, in any spelling and any reading of its pattern."""
        if len(reach.samples) == 1 or (reach.name and "/" not in self.pattern.rstrip("/")):
            path = normalized_path(reach.samples[0])
            return any(_matches(reading, path) for reading in _readings(self.pattern))
        if reach.name or "/" not in self.pattern.rstrip("/"):
            return True
        fixed = takewhile(lambda step: not re.search(r"[*?\[\]!\\#]", step), filter(None, self.pattern.split("/")))
        pairs = zip(fixed, reach.folder, strict=False)
        return all(normalized_path(mine) == normalized_path(theirs) for mine, theirs in pairs)


def owners(text: str, scope: Sequence[str]) -> frozenset[str]:
    """Return the owners of everything in a plan's scope: logins and ``organization/team``, in lower case.

    A path of the scope without a wildcard and without a slash at its end must not be a folder.
    """
    rules = [_rule(line) for line in _LINE_END.split(text) if _COMMENT.sub("", line).strip(" \t")]
    globs = [glob for glob in scope if not glob.startswith("!")] or ["**"]
    return reduce(frozenset.intersection, (_owners(rules, _Reach.of(glob)) for glob in globs))


def is_plain(glob: str) -> bool:
    """Return whether a glob of a plan is a path that may be a file: it has no wildcard and no slash at its end."""
    return not _WILD.search(glob) and not glob.endswith("/")


def _owners(rules: Sequence[_Rule], reach: _Reach) -> frozenset[str]:
    """Return the owners named by every rule that may be the last to match a reached file."""
    deciding: list[frozenset[str]] = []
    for rule in reversed(rules):
        covers = rule.covers(reach)
        if covers or rule.meets(reach):
            deciding.append(rule.owners)
        if covers:
            return reduce(frozenset.intersection, deciding)
    return frozenset()


def _rule(line: str) -> _Rule:
    """Return the rule of a line. E-mail addresses name no known account, and a line with a malformed owner has none."""
    pattern, *names = _GAP.split(_COMMENT.sub("", line).strip(" \t"))
    are_valid = all(map(_OWNER.fullmatch, names))
    known = frozenset(name[1:].lower() for name in names if are_valid and name.startswith("@"))
    return _Rule(pattern.replace("\\ ", " "), known)


def _readings(pattern: str) -> Iterator[str]:
    """Yield a pattern in lower case as every reader may take it: its odd signs as text, as ranges, or as nothing."""
    folded = pattern.casefold()
    yield folded.replace("[", "[[]")
    if _UNDOCUMENTED.search(pattern):
        yield from (folded, folded.lstrip("!").replace("\\", ""), folded.partition("#")[0], folded.replace("\r", ""))


def _matches(pattern: str, path: str) -> bool:
    """Return whether a pattern matches a file, as in .gitignore, but for a last ``*``: it reaches no deeper."""
    steps = [step for step in pattern.split("/") if step]
    if not steps:
        return False
    parts, reachable = path.split("/"), {0}
    steps = [*([] if "/" in pattern.rstrip("/") else ["**"]), *steps, *(["**"] if pattern.endswith("/") else [])]
    for step in [*steps, "*"] if steps[-1] == "**" else steps:
        reachable = advance(reachable, step, parts)
    return len(parts) in reachable if steps[-1] in {"*", "**"} else bool(reachable)
