"""The decision table as a document: every tool, in every mode, for the main agent and for sub-agents (P1, P4).

docs/permissions.md is the output of `markdown`; tests/test_house.py keeps the two equal.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from bot.agent.permissions.tool_gate import DECISIONS, CallKind, Decision, Mode
from bot.agent.subagents.types import TYPES
from bot.agent.tools.registry import ALL, READING_GITHUB
from bot.agent.tools.session_tools import RESOURCE_REQUEST, REVIEW
from bot.agent.tools.tool import Tool
from bot.agent.tools.web import WEB_FETCH, WEB_SEARCH

REGENERATE: Final = "python -c 'from tests.agent.decision_table import markdown; print(markdown(), end=str())'"

_BY_INPUT: Final[Mapping[str, Mapping[CallKind, str]]] = MappingProxyType(
    {"Bash": {CallKind.READ_COMMAND: "a line that only reads", CallKind.COMMAND: "any other line"}}
)
"""Tools whose kind depends on the call, with a description of each kind."""
_TASK: Final = {CallKind.EXPLORE: "explore, plan", CallKind.DELEGATE: "code"}
_NOT_THERE: Final = "-"
_HEAD: Final = """# What a call may do

Generated from `bot/agent/permissions/tool_gate.py`; a test keeps it true. Other layers hold regardless of this table: a
planner's sandbox mounts its checkout read-only, and a sandbox reaches no network except the hosts that the
configuration and the approved plan both name (README, Why it is safe).

A call is decided by the first of these that applies: deny rules, ask rules, the mode (this table), allow rules. If none
applies, the call is denied. In plan mode, rules can narrow what the table allows, but never widen it.
- `ask` waits for a person's permission. If nobody can answer, the call is denied.
- `suspend` submits the plan and waits for its approval.
- Without a sandbox, `acceptEdits` asks for commands too.
- A command that equals one of `plan.commands` (by default those of `execution.verify`) also runs while planning, on a
  copy of the checkout that is then deleted.

GitHubRead is available only if the thread belongs to a repository on GitHub. It reads only that repository.
WebFetch is available only if an allow rule opens a host to it. It reaches no other host, even if a person permits it.

"""
_RULES: Final = """
## Rules

`tools.allow`, `tools.ask` and `tools.deny` in `.github/plangate.yml` hold rules: `Tool`, or `Tool(pattern)`.

| rule | covers |
|---|---|
| `Bash(git diff:*)` | the command `git diff` with any arguments: to allow, the whole line; to deny, any part |
| `Read(docs/**)` | every tool that reads: Read, LS, Glob, Grep, NotebookRead |
| `Edit(src/**)` | every tool that writes: Edit, Write, MultiEdit, NotebookEdit |
| `Write(*.lock)` | only that tool |
| `Task(code)` | that type of sub-agent |
| `WebFetch(domain:docs.python.org)` | https pages of that host; `*.python.org`: of every host below |
| `GitHubRead(checks)` | one kind of read: issue, comments, pull_request, diff, checks, commit, or linked |
| `WebSearch` | web searches; without an allow rule, the tool does not exist |

Patterns are globs as in `.gitignore`, from the top of the repository. They match every spelling of a path: `./a`,
`x/../a`, absolute, other case. A rule that denies or asks about a path also covers a shell line that contains the path.
It does not cover a name that a command computes, or each file in a folder that is searched, so keep files that must not
be read out of the repository.
"""


def markdown() -> str:
    """Return the whole document. Equal tables yield equal bytes."""
    modes = [str(mode) for mode in Mode]
    working = [f"code: {mode}" for mode in modes[1:]]
    head = ["call", *modes, "explore, plan", *working]
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *map(_cells, rows()))]
    return _HEAD + "\n".join(lines) + "\n" + _RULES


def rows() -> Iterable[tuple[str, str, CallKind]]:
    """List (tool, description of the call, its kind) for every tool that an agent can have."""
    for tool in (*ALL, *READING_GITHUB, WEB_FETCH, WEB_SEARCH, REVIEW, RESOURCE_REQUEST):
        for kind, what in _kinds(tool).items():
            yield tool.name, what, kind
    for kind, what in _TASK.items():
        yield "Task", what, kind


def decision(tool: str, kind: CallKind, mode: Mode, agent: str = "") -> str:
    """Return the decision on a call by the main agent, or by a type of sub-agent.

    A type that cannot write is always in plan mode.
    """
    every_type = tool == RESOURCE_REQUEST.name
    if not agent:
        return _NOT_THERE if every_type else str(DECISIONS[mode][kind].decision)
    type_ = TYPES[agent]
    if not every_type and tool not in {each.name for each in type_.tools}:
        return _NOT_THERE
    word = DECISIONS[mode if type_.writes else Mode.PLAN][kind].decision
    return "to its parent" if word is Decision.SUSPEND else str(word)


def _kinds(tool: Tool) -> Mapping[CallKind, str]:
    return _BY_INPUT.get(tool.name) or {tool.kind(None): ""}


def _cells(row: tuple[str, str, CallKind]) -> list[str]:
    name, what, kind = row
    looking = {decision(name, kind, Mode.PLAN, agent): agent for agent in ("explore", "plan")}
    spied = (
        next(iter(looking)) if len(looking) == 1 else ", ".join(f"{agent}: {word}" for word, agent in looking.items())
    )
    main = [decision(name, kind, mode) for mode in Mode]
    code = [decision(name, kind, mode, "code") for mode in Mode if mode is not Mode.PLAN]
    return [f"{name} ({what})" if what else name, *main, spied, *code]
