"""The tool gate: may this call run, in this mode, under these rules? (P1, P4 layer 2, P7)"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final

from bot.core.names import DOMAIN, FETCH, split_rule
from bot.core.network import covers
from bot.core.paths import is_path_covered, normalized_path
from bot.core.transcript import Json

# --- The permission modes and their cycle (P1) ------------------------------------------------------------------------


class Mode(StrEnum):
    """What a session may do without asking."""

    PLAN = "plan"
    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    BYPASS = "bypassPermissions"


def next_mode(mode: Mode, *, bypass_available: bool) -> Mode:
    """Return the next mode of the cycle default, acceptEdits, plan, bypassPermissions (if available)."""
    cycle = [Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.PLAN, *([Mode.BYPASS] if bypass_available else [])]
    return cycle[(cycle.index(mode) + 1) % len(cycle)] if mode in cycle else Mode.DEFAULT


# --- The paths of a call, and rules about paths (P7) ------------------------------------------------------------------
# Rules
# - A rule for Read covers every tool that reads, and a rule for Edit every tool that writes.
# - Patterns follow the same syntax as a plan's scope (bot/core/paths.py): as in .gitignore, for any spelling of the
#   path.
# - A search of a folder is matched by the folder and by what it searches for there, not by every file below. A command
#   is matched by the words that it spells out; a name that it computes is not seen. The sandbox is the boundary.

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
    return tool == rule or tool in FAMILIES.get(rule, ())


def about_paths(tool: str) -> bool:
    return tool in _OF_PATHS


def relative_input(tool_input: Json, folder: str) -> Json:
    """Return a call's input with its paths relative to the checkout, as rules are written."""
    paths = {key: value for key in _KEYS if isinstance(value := tool_input.get(key), str)}
    return tool_input | {key: _relative(value, folder) for key, value in paths.items()}


def covers_paths(pattern: str, tool: str, tool_input: Json) -> bool:
    """Return whether a pattern covers all paths of a call, all inside the checkout, as an allow rule requires."""
    paths = list(_call_paths(tool, tool_input))
    inside = (normalized_path(path).partition("/")[0] != ".." and not path.startswith("/") for path in paths)
    return all(inside) and all(is_path_covered(path, pattern) for path in paths)


def within_paths(globs: Sequence[str], tool: str, tool_input: Json) -> bool:
    """Return whether one of the globs covers a call. It covers a folder if it covers the files directly in it."""
    if tool not in _OF_PATHS:
        return True
    folder = str(tool_input.get("path") or "")
    inside = tool_input | {"path": posixpath.join(folder, _SOME_FILE)}
    return any(
        covers_paths(glob, tool, tool_input) or (tool in _FOLDERS and bool(folder) and covers_paths(glob, tool, inside))
        for glob in globs
    )


def reaches(pattern: str, tool: str, tool_input: Json) -> bool:
    """Return whether a pattern reaches any path that a call names, as deny and ask rules require."""
    paths = list(_call_paths(tool, tool_input))
    if tool in _FOLDERS:
        paths += [f"{path}/{_SOME_FILE}" for path in paths[:1]]
    return any(_is_reached(path, pattern) for path in paths)


def named_by(pattern: str, command: str) -> bool:
    """Return whether a shell line spells out a path that a pattern reaches, as a word or after a sign such as =."""
    from bot.agent.permissions.shell_policy import program_names

    words = {piece for word in program_names(command) for piece in (word, *re.split(r"[=:,@]", word)) if piece}
    return any(_is_reached(word, pattern) or _may_be(word, pattern) for word in words)


def _may_be(word: str, pattern: str) -> bool:
    glob = re.sub(r"\[[^]/]+\]", "?", word)
    return bool(set("*?{") & set(glob)) and is_path_covered(pattern, glob)


def target_path(tool_input: Json) -> str:
    """Return the file or folder that a call works on, as it is spelled in the call, or "" if it names none."""
    return next((str(tool_input[key]) for key in _KEYS if tool_input.get(key)), "")


def _call_paths(tool: str, tool_input: Json) -> Iterator[str]:
    """Yield the paths that a call names: its file or folder, and what it searches for in the folder."""
    target = target_path(tool_input) or "."
    looked_for = [str(tool_input[key]) for key in _IN_FOLDER if tool_input.get(key)]
    if tool == "Grep":
        looked_for = [str(tool_input["glob"])] if tool_input.get("glob") else []
    if tool != "Glob" or not looked_for:
        yield target
    yield from (posixpath.join(target, path) for path in looked_for)


def _is_reached(path: str, pattern: str) -> bool:
    """Return whether a pattern reaches a path. For a path outside the checkout, any trailing part of it counts too."""
    if is_path_covered(path, pattern):
        return True
    parts = normalized_path(path).strip("/").split("/")[-_DEEPEST:]
    outside = path.startswith(("/", "~")) or parts[0] == ".."
    return outside and any(is_path_covered("/".join(parts[at:]), pattern) for at in range(1, len(parts)))


def _relative(path: str, folder: str) -> str:
    full = posixpath.normpath(posixpath.join(folder, path))
    return posixpath.relpath(full, folder) if full == folder or full.startswith(f"{folder}/") else full


# --- The decision on a call (P1, P4 layer 2, P7) ----------------------------------------------------------------------
# Order: deny rules, ask rules, the mode's decision, allow rules. If nothing matches, the call is denied. In plan mode
# the mode's decision is final: deny and ask rules can narrow it, and no rule can widen it. `DECISIONS` holds the
# decisions of all modes, and the table in the docs is generated from it.


class CallKind(StrEnum):
    """What a call does, as far as permission is concerned."""

    READ = "read"
    """Reads the checkout."""
    LIST = "list"
    """Reads or writes the session's own notes."""
    READ_COMMAND = "read_command"
    """A shell command that the static check knows to be read-only."""
    COMMAND = "command"
    """Any other shell command."""
    BACKGROUND = "background"
    """Reads from, or ends, a command that the session itself started in the background."""
    EDIT = "edit"
    EXPLORE = "explore"
    """Starts a sub-agent that cannot write."""
    DELEGATE = "delegate"
    """Starts a sub-agent that can write."""
    PROPOSE = "propose"
    """Submits a plan."""
    ASK_PEOPLE = "ask_people"
    """Asks people a question."""
    FETCH = "fetch"
    """Reads a web page. Only hosts that an allow rule opens can be reached at all (N1)."""
    READ_GITHUB = "read_github"
    """Reads the thread's repository on GitHub. A session has that tool only where there is such a repository."""
    SEARCH = "search"
    """Searches the web. A session has that tool only if an allow rule names it."""


class Decision(StrEnum):
    """The decision on a call. SUSPEND means that the session waits for people's answer (L8)."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"
    SUSPEND = "suspend"


@dataclass(frozen=True, slots=True)
class Ruling:
    """A decision, and the text for the model if the decision is not ALLOW."""

    decision: Decision
    why: str = ""


_NO_WRITE = Ruling(Decision.DENY, "plan mode is on: nothing may be changed. Hand in a plan with exit_plan_mode first.")
_NO_COMMAND = Ruling(
    Decision.DENY,
    "plan mode is on and this command is not known to be read-only. Use Read, Grep, Glob or LS, or a plain read-only "
    "command such as git log, ls or cat without redirection.",
)
_NO_DELEGATE = Ruling(Decision.DENY, "plan mode is on: only sub-agents that cannot write may run (explore, plan).")
_NO_PLAN = Ruling(Decision.DENY, "you are not in plan mode: the plan is approved already. Do the work.")
_YES = Ruling(Decision.ALLOW)
_ASK = Ruling(Decision.ASK, "this mode needs a person's permission for it")
_NO_SANDBOX = Ruling(Decision.ASK, "no sandbox holds the command here, so it needs a person's permission")
_LOOKS = dict.fromkeys(
    (CallKind.READ, CallKind.LIST, CallKind.READ_COMMAND, CallKind.BACKGROUND, CallKind.EXPLORE, CallKind.READ_GITHUB),
    _YES,
)
_ANY = {**_LOOKS, CallKind.ASK_PEOPLE: Ruling(Decision.SUSPEND)}
_WORK = {**_ANY, CallKind.PROPOSE: _NO_PLAN, CallKind.DELEGATE: _YES, CallKind.FETCH: _ASK, CallKind.SEARCH: _ASK}

DECISIONS: Final[Mapping[Mode, Mapping[CallKind, Ruling]]] = MappingProxyType(
    {
        Mode.PLAN: {
            **_ANY,
            CallKind.COMMAND: _NO_COMMAND,
            CallKind.EDIT: _NO_WRITE,
            CallKind.DELEGATE: _NO_DELEGATE,
            CallKind.PROPOSE: Ruling(Decision.SUSPEND),
            CallKind.FETCH: _YES,
            CallKind.SEARCH: _YES,
        },
        Mode.DEFAULT: {**_WORK, CallKind.COMMAND: _ASK, CallKind.EDIT: _ASK},
        Mode.ACCEPT_EDITS: {**_WORK, CallKind.COMMAND: _YES, CallKind.EDIT: _YES},
        Mode.BYPASS: {**_WORK, CallKind.COMMAND: _YES, CallKind.EDIT: _YES},
    }
)
"""Decisions by mode and kind of call.

acceptEdits allows commands because the sandbox confines them; without a sandbox they need an allow rule or a person.
While executing approved work, a session may read the web only if an allow rule says so: nobody approved what strangers
write there.
"""

_COMPOUND: Final = re.compile(r"[;&|\n`<>]|\$[(\[{]")
"""Signs that start another command, or that bash evaluates: ${x@P} and $[x] run substitutions found in a value."""
_SEPARATORS: Final = re.compile(r"[;&|\n`(){}<>]")
_PRECEDING: Final = re.compile(
    r"^(?:(?:[A-Za-z_]\w*=\S*|(?:\S*/)?(?:!|if|then|else|elif|while|until|do|time|exec|command|builtin|eval|env|nohup|nice|"
    r"sudo|xargs|timeout|setsid|stdbuf|sh|bash|dash|zsh)(?:\s+(?:-\S*|\d\S*))*)\s+)+"
)
_FOLDER: Final = re.compile(r"^\S*/")
_GIT_OPTIONS: Final = re.compile(r"^git(?:\s+(?:-[Cc]\s+\S+|-\S+))+\s+")
"""git's own options, before its subcommand."""
_HOST: Final = re.compile(r"https://([a-z0-9.-]+)(?=[:/]|$)", re.ASCII)
SEARCH: Final = "WebSearch"
_SUBJECT: Final = {"Bash": "command", "Task": "subagent_type", "GitHubRead": "what", SEARCH: "query", FETCH: "url"}


@dataclass(frozen=True, slots=True)
class Rule:
    """One pattern such as ``Bash(git diff:*)`` or ``Read(docs/**)``; without one it covers every call of the tool."""

    tool: str
    pattern: str = "*"

    @property
    def domain(self) -> str:
        """Hosts that a rule for WebFetch covers: a name, ``*.domain``, or ``*`` for all."""
        return self.pattern.removeprefix(DOMAIN)

    def matches(self, tool: str, tool_input: Json) -> bool:
        """Return whether the rule covers a call as a whole, as an allow rule requires.

        A Bash pattern with a star never covers a line that may hold more than one command.
        """
        if self.pattern == "*" or not applies_to(self.tool, tool):
            return applies_to(self.tool, tool)
        if about_paths(tool):
            return covers_paths(self.pattern, tool, tool_input)
        about = subject(tool, tool_input)
        return about == self.pattern if tool == "Bash" and _compound(about) else self._matches_subject(about)

    def touches(self, tool: str, tool_input: Json) -> bool:
        """Return whether the rule covers any part of a call, as deny and ask rules require.

        A command stays denied after ``cd x &&``, an assignment, or the name of a program that starts others. A denied
        path is also denied to a command that spells it out.
        """
        if tool == "Bash" and about_paths(self.tool) and self.pattern != "*":
            return self._named_by(subject(tool, tool_input))
        if self.pattern == "*" or not applies_to(self.tool, tool):
            return applies_to(self.tool, tool)
        if about_paths(tool):
            return reaches(self.pattern, tool, tool_input)
        about = subject(tool, tool_input)
        parts = _parts(about) if tool == "Bash" else ()
        return any(map(self._matches_subject, (about, *parts)))

    def _named_by(self, command: str) -> bool:
        """Return whether a command names a path of this rule. A read-only command matches no rule about writing."""
        from bot.agent.permissions.shell_policy import is_read_only

        writes = applies_to("Edit", self.tool)
        return named_by(self.pattern, command) and not (writes and is_read_only(command))

    def _matches_subject(self, subject: str) -> bool:
        """Return whether the pattern matches one command or path; ``prefix:*`` also with arguments after it."""
        if self.tool == FETCH:
            match = _HOST.match(subject)
            return self.domain == "*" or (match is not None and covers(self.domain, match[1]))
        prefix, colon, suffix = self.pattern.rpartition(":")
        if colon and suffix == "*":
            return subject == prefix or subject.startswith(prefix + " ")
        return fnmatchcase(subject, self.pattern)


@dataclass(frozen=True, slots=True)
class ToolRules:
    """Configured rules (tools.allow, tools.ask, tools.deny)."""

    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()


def parse_rule(text: str) -> Rule:
    return Rule(*split_rule(text))


@dataclass(frozen=True, slots=True)
class PermissionGate:
    """Decides the calls of one session."""

    rules: ToolRules = ToolRules()
    sandboxed: bool = True
    """Whether a sandbox confines commands. If not, acceptEdits does not allow commands by itself."""
    granted: frozenset[tuple[str, str]] = frozenset()
    """What people allowed for this plan, as exact (tool, command or path) pairs."""
    rehearsed: frozenset[str] = frozenset()
    """Commands that run on a throw-away copy during planning, each exactly as configured (P4a)."""

    def decide(self, mode: Mode, kind: CallKind, tool: str, tool_input: Json) -> Ruling:
        """Return the ruling on one call.

        Equal inputs yield equal rulings, and every kind has a ruling in every mode.
        """

        if rule := next((rule for rule in self.rules.deny if rule.touches(tool, tool_input)), None):
            return Ruling(Decision.DENY, f"the project's configuration denies {rule.tool}({rule.pattern}).")
        ruling = _YES if self._rehearses(mode, kind, tool_input) else self._mode_ruling(mode, kind)
        asks = None
        if ruling.decision in {Decision.ALLOW, Decision.ASK}:
            asks = next((rule for rule in self.rules.ask if rule.touches(tool, tool_input)), None)
        if asks is not None:
            ruling = Ruling(Decision.ASK, f"{asks.tool}({asks.pattern}) needs a person's permission in this project")
        if ruling.decision is Decision.ASK and (tool, subject(tool, tool_input)) in self.granted:
            return _YES
        if asks is not None or mode is Mode.PLAN:
            return ruling
        if ruling.decision is Decision.ASK and any(rule.matches(tool, tool_input) for rule in self.rules.allow):
            return _YES
        return ruling

    def _rehearses(self, mode: Mode, kind: CallKind, tool_input: Json) -> bool:
        """Return whether a call is a command allowed for planning. Without a sandbox none is."""
        planning = self.sandboxed and mode is Mode.PLAN and kind is CallKind.COMMAND
        return planning and tool_input.get("command") in self.rehearsed

    def _mode_ruling(self, mode: Mode, kind: CallKind) -> Ruling:
        ruling = DECISIONS[mode][kind]
        is_contained = self.sandboxed or mode is not Mode.ACCEPT_EDITS or kind is not CallKind.COMMAND
        return ruling if is_contained else _NO_SANDBOX


def subject(tool: str, tool_input: Json) -> str:
    """Return the subject of a call: what people are asked about, and what a permission for the plan covers."""
    if key := _SUBJECT.get(tool):
        return str(tool_input.get(key, "")).strip()
    return target_path(tool_input)


def _compound(command: str) -> bool:
    """Return whether a command line may hold more than one command, or redirect or evaluate something."""
    return _COMPOUND.search(command) is not None


def _parts(command: str) -> Iterator[str]:
    """Split a command line at every sign that may start another command, and yield each part in two forms.

    The first form is the part as written, without what may precede a command. The second also lacks quotes, extra
    blanks, the program's folder, and git's options.
    """
    from bot.agent.permissions.shell_policy import strip_quotes

    for part in _SEPARATORS.split(command.replace("\\\n", "")):
        yield _PRECEDING.sub("", part.strip())
        bare = _PRECEDING.sub("", " ".join(strip_quotes(part).split()))
        yield _GIT_OPTIONS.sub("git ", _FOLDER.sub("", bare))
