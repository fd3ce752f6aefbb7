"""Paths: their class, the tier of changing them, whether a plan reaches them, and who owns them (G4)."""

import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase, translate
from functools import lru_cache, reduce
from itertools import takewhile
from typing import Final, TypeAlias

# --- Path classes, their tiers, and the scope of a plan (G4) ---------------------------------------------------------
# Rules
# - Paths are compared after NFKC, case folding, and path normalization: `.GitHub\Workflows/` is `.github/workflows`.
# - Globs work as in .gitignore: without an inner slash they match at any depth, a folder covers its contents, `**`
#   spans folders, and a leading `!` excludes. `{a,b}` matches either one. Square brackets are literal
#   (`app/[id]/page.tsx`).
# - Only a glob of tier high reaches a file of tier high: a plan must name the file, a wildcard never reaches it.
# - Whatever a path of tier high leads to by a symbolic link has the link's class (`linked_classes`).
# - A project's additional globs (paths.classes) extend the globs of their class. They never take a file out of a class
#   that comes earlier in the table.


class PathClass(StrEnum):
    DOCS = "docs"
    TESTS = "tests"
    CODE = "code"
    DEPENDENCIES = "dependencies"
    AGENT = "agent"
    OWNERSHIP = "ownership"
    AUTOMATION = "automation"


class Tier(StrEnum):
    """The risk of changing a file, lowest first."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


Further: TypeAlias = tuple[tuple[str, str], ...]
"""A project's additional globs: (class, glob), each glob in the form used in plans."""

# One row per class. The first row that matches decides, and a path that matches no row is code. A row holds globs over
# normalized paths. Here square brackets are character sets: `/.*[*?[]*` is a glob that may match a dot folder.
_TABLE: tuple[tuple[PathClass, tuple[str, ...]], ...] = (
    (PathClass.OWNERSHIP, tuple("codeowners /.github/settings.yml /.github/rulesets /.github/branch*".split())),
    (
        PathClass.AUTOMATION,
        tuple(
            "/.github/workflows /.github/actions action.yml action.yaml makefile gnumakefile *.mk justfile "
            "taskfile.yml taskfile.yaml jenkinsfile .gitlab-ci.yml .travis.yml azure-pipelines.yml "
            "bitbucket-pipelines.yml appveyor.yml .pre-commit-config.yaml .gitattributes .gitmodules .lfsconfig".split()
        ),
    ),
    (
        PathClass.AGENT,
        tuple(
            # Instructions to other agents count as well, at any depth, because an agent reads them wherever it works:
            # their files, their folders, parts of plugins, and what tells them which files and servers to use.
            "claude.md claude.local.md agents.md agents.override.md .agents.md agent.md agent.override.md codex.md "
            "gemini.md qwen.md warp.md crush.md jules.md replit.md copilot-instructions.md skill.md .goosehints "
            ".cursorrules .windsurfrules .clinerules .roorules .rules *.mdc *.instructions.md *.prompt.md "
            "*.chatmode.md *.agent.md .claude .agents .cursor .windsurf .roo .kiro .kilocode .junie .gemini .qwen "
            ".codex .continue .opencode .crush .augment .amazonq .trae .factory .openhands .goose .devin .idx .ruler "
            ".plangate .*-plugin **/agents/*.md /agents/**/*.md /commands/*.md /commands/*.toml "
            "/plugins/*/commands **/hooks/hooks.json gemini-extension.json "
            "qwen-extension.json .mcp.json mcp.json .lsp.json opencode.json opencode.jsonc crush.json .crush.json "
            ".aider.conf.yml .coderabbit.yaml .coderabbit.yml .pr_agent.toml greptile.json .cursorignore "
            ".cursorindexingignore .codeiumignore .clineignore .rooignore .geminiignore .aiexclude .aiignore "
            "/.github /.*/** /.*[*?[]*".split()
        ),
    ),
    (
        PathClass.DEPENDENCIES,
        tuple(
            "pyproject.toml setup.py setup.cfg requirements*.txt requirements*.in constraints*.txt pipfile "
            "poetry.toml *.lock *.lockfile pylock*.toml environment.yml environment.yaml conda-lock.yml package.json "
            "package-lock.json npm-shrinkwrap.json pnpm-lock.yaml pnpm-workspace.yaml bun.lockb .npmrc .yarnrc "
            ".yarnrc.yml deno.json deno.jsonc cargo.toml go.mod go.sum go.work go.work.sum gemfile *.gemspec "
            "composer.json pom.xml build.gradle build.gradle.kts settings.gradle settings.gradle.kts *.csproj "
            "packages.lock.json packages.config directory.packages.props nuget.config mix.exs pubspec.yaml "
            "package.swift package.resolved flake.nix vcpkg.json conanfile.txt conanfile.py".split()
        ),
    ),
    (PathClass.CODE, ()),
    (
        PathClass.TESTS,
        tuple(
            "tests test __tests__ spec testdata test_*.py conftest.py *_test.* *_spec.* *.test.* *.spec.* "
            "*test.java *tests.java *tests.cs".split()
        ),
    ),
    (PathClass.DOCS, tuple("docs *.md *.rst *.adoc".split())),
)


def _row(globs: tuple[str, ...]) -> tuple[Callable[[str], object], tuple[str, ...]]:
    """Return one matcher for a row's globs that match at any depth, and the row's anchored globs."""
    places = tuple(glob for glob in globs if "/" in glob)
    names = "|".join(translate(glob) for glob in globs if "/" not in glob) or "(?!)"
    return lru_cache(maxsize=4096)(re.compile(names).match), places


_ROWS = tuple((kind, *_row(globs)) for kind, globs in _TABLE)
"""The compiled table, fast enough to classify a commit of a hundred thousand files in seconds."""

_TIERS = {PathClass.DOCS: Tier.LOW, PathClass.TESTS: Tier.LOW, PathClass.CODE: Tier.NORMAL}
_MOST_LINKED = 50
"""Maximum number of link targets that a plan lists."""
_WEIGHT = tuple(Tier)


def classify(path: str, further: Further = ()) -> PathClass:
    """Return the class of a path relative to the repository root. A glob is classified by its literal text."""
    plain = normalized_path(path)
    parts = plain.split("/")
    for kind, names, places in _ROWS:
        if any(map(names, parts)) or any(_matches(plain, glob) for glob in places):
            return kind
        if any(name == kind and _reaches(plain, glob) for name, glob in further):
            return kind
    return PathClass.CODE


def tier_of(paths: Iterable[str], dependencies: Sequence[str] = (), further: Further = ()) -> Tier:
    """Return the highest tier of the paths or globs; normal for none, because an empty scope excludes tier high.

    A manifest or lock file is normal if the plan names the dependencies involved, and high if it names none.
    """
    tiers = [_tier(classify(path, further), dependencies) for path in paths]
    return max(tiers, key=_WEIGHT.index, default=Tier.NORMAL)


def linked_classes(links: Mapping[str, str], further: Further = ()) -> Further:
    """Return further globs that give whatever a link of tier high leads to the class of the link.

    `links` has what each symbolic link of a tree holds. A link below such a target counts as well. More targets than a
    plan can list stand for the whole repository.
    """
    raised: dict[tuple[str, str], None] = {}
    is_complete = False
    while not is_complete and len(raised) <= _MOST_LINKED:
        is_complete = True
        for link in links:
            kind = classify(link, (*further, *raised))
            for target in _link_targets(link, links) if _tier(kind, ("named",)) is Tier.HIGH else ():
                if _tier(classify(target, (*further, *raised)), ("named",)) is not Tier.HIGH:
                    raised[str(kind), f"/{as_glob(target)}"] = None
                    is_complete = False
    return tuple(raised) if is_complete else ((str(PathClass.AGENT), "/"),)


def _link_targets(link: str, links: Mapping[str, str]) -> Iterator[str]:
    """Yield each path inside the repository that a link leads to, one after the other; "." is the root."""
    path, seen = link, set[str]()
    while path not in seen:
        seen.add(path)
        parts = path.split("/")
        passed = next((n for n in range(1, len(parts) + 1) if "/".join(parts[:n]) in links), 0)
        if not passed:
            return
        held = links["/".join(parts[:passed])]
        path = posixpath.normpath(posixpath.join(*parts[: passed - 1], held, *parts[passed:]))
        if f"{path}/".startswith(("/", "../")):
            return
        yield path


def as_glob(path: str) -> str:
    """Return a glob for a path, with a wildcard in place of what a plan cannot show, or would expand."""
    return "".join(sign if sign.isprintable() and sign != "{" else "?" for sign in path)


def in_scope(path: str, globs: Sequence[str], dependencies: Sequence[str] = (), further: Further = ()) -> bool:
    """Return whether a plan's scope reaches a path. An empty scope reaches everything except tier high."""
    plain = normalized_path(path)
    if plain == ".." or plain.startswith("../"):
        return False
    high = tier_of([path], dependencies, further) is Tier.HIGH
    if not globs:
        return not high
    reached = False
    for glob in globs:
        bare = glob.removeprefix("!")
        if bare != glob:
            reached = reached and not _reaches(plain, bare)
        elif not high or tier_of([glob], dependencies, further) is Tier.HIGH:
            reached = reached or _reaches(plain, bare)
    return reached


def is_path_covered(path: str, glob: str) -> bool:
    return _reaches(normalized_path(path), glob)


def is_workflow(path: str) -> bool:
    """Return whether a path or glob names GitHub Actions workflows, which GitHub lets few tokens push."""
    return f"{normalized_path(path)}/".startswith(".github/workflows/")


def normalized_path(path: str) -> str:
    """Return the spelling under which paths are compared. Names that some file systems treat as equal become equal."""
    folded = (path.lower() if path.isascii() else _casefold_path(path)).replace("\\", "/")
    segments = (part if part in {".", ".."} else part.rstrip(" .") for part in folded.split("/"))
    return posixpath.normpath("/".join(part for part in segments if part) or ".")


def _casefold_path(path: str) -> str:
    """Fold case and compatibility forms, and drop invisible format characters."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())
    return "".join(char for char in folded if unicodedata.category(char) != "Cf")


def _tier(kind: PathClass, dependencies: Sequence[str]) -> Tier:
    return _TIERS.get(kind, Tier.NORMAL if kind is PathClass.DEPENDENCIES and dependencies else Tier.HIGH)


def _reaches(plain: str, glob: str) -> bool:
    """Return whether one glob of a plan reaches a normalized path."""
    anchor = "/" if glob.startswith("/") else ""
    bare = normalized_path(glob)
    spelled = _braces(bare.replace("[", "[[]"))
    return bare in {plain, "."} or any(_matches(plain, anchor + pattern) for pattern in spelled)


def _braces(glob: str) -> tuple[str, ...]:
    """Return the expansions of the first ``{a,b}`` of a glob. Several pairs, or nested ones, stay as they are."""
    head, opened, rest = glob.partition("{")
    inner, closed, tail = rest.partition("}")
    if not (opened and closed) or "{" in rest:
        return (glob,)
    return tuple(f"{head}{choice}{tail}" for choice in inner.split(","))


@lru_cache(maxsize=4096)
def _matches(plain: str, glob: str) -> bool:
    """Return whether a glob matches a path or a folder above it, in time bounded by the product of their lengths."""
    pattern, parts = glob.strip("/").split("/"), plain.split("/")
    if len(pattern) == 1 and not glob.startswith("/"):
        return any(fnmatchcase(part, pattern[0]) for part in parts)
    reachable = {0}
    for step in pattern[:-1]:
        reachable = advance(reachable, step, parts)
    # The last step consumes a name, even if it is `**`: a folder is not inside itself. Everything below that name is
    # covered.
    last = "*" if pattern[-1] == "**" else pattern[-1]
    return bool(advance(reachable, last, parts))


def advance(reachable: set[int], step: str, parts: list[str]) -> set[int]:
    """Return how many parts of a path may be consumed after one more step of a pattern."""
    if step == "**":
        return set(range(min(reachable), len(parts) + 1)) if reachable else set()
    return {at + 1 for at in reachable if at < len(parts) and fnmatchcase(parts[at], step)}


# --- Code owners of what a plan may change (CODEOWNERS) --------------------------------------------------------------
# https://docs.github.com/en/repositories/managing-your-repositorys-settings-and-features/customizing-your-repository/about-code-owners
#
# Rules
# - The last rule that matches a file names its owners. A plan has globs instead of files, so every rule counts that
#   could match a file reached by a glob, except rules above one that certainly matches all of those files.
# - A glob without a wildcard is one file, or everything below a folder if it ends with a slash. Only rules that match
#   that path count for it.
# - What cannot be determined is not owned: a rule with signs that GitHub does not document may match or may be skipped,
#   a rule matches in any spelling of a path, and one without owners has none.

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
    """One line of CODEOWNERS."""

    pattern: str
    owners: frozenset[str]

    def covers(self, reach: _Reach) -> bool:
        """Return whether the rule certainly matches every reached file."""
        return not _UNDOCUMENTED.search(self.pattern) and all(
            _rule_matches(self.pattern, path) for path in reach.samples
        )

    def meets(self, reach: _Reach) -> bool:
        """Return whether the rule may match a reached file, in any spelling and any reading of its pattern."""
        if len(reach.samples) == 1 or (reach.name and "/" not in self.pattern.rstrip("/")):
            path = normalized_path(reach.samples[0])
            return any(_rule_matches(reading, path) for reading in _readings(self.pattern))
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


def _rule_matches(pattern: str, path: str) -> bool:
    """Return whether a pattern matches a file, as in .gitignore, but for a last ``*``: it reaches no deeper."""
    steps = [step for step in pattern.split("/") if step]
    if not steps:
        return False
    parts, reachable = path.split("/"), {0}
    steps = [*([] if "/" in pattern.rstrip("/") else ["**"]), *steps, *(["**"] if pattern.endswith("/") else [])]
    for step in [*steps, "*"] if steps[-1] == "**" else steps:
        reachable = advance(reachable, step, parts)
    return len(parts) in reachable if steps[-1] in {"*", "**"} else bool(reachable)
