"""A call of every tool, and what each mode says to it: the ground of the gate's tests."""

from dataclasses import dataclass

from bot.agent.permissions.tool_gate import CallKind, Decision, Mode, PermissionGate, ToolRules, parse_rule
from bot.agent.tools.registry import ALL, READING_GITHUB, by_name
from bot.agent.tools.session_tools import RESOURCE_REQUEST, REVIEW
from bot.agent.tools.web import WEB_FETCH, WEB_SEARCH
from bot.core.transcript import Json
from tests.agent.ground import TASK_TOOL

TOOLS = by_name((*ALL, *READING_GITHUB, WEB_FETCH, WEB_SEARCH, REVIEW, RESOURCE_REQUEST, TASK_TOOL))
ALLOW, ASK, DENY, SUSPEND = Decision.ALLOW, Decision.ASK, Decision.DENY, Decision.SUSPEND

CASES: dict[str, tuple[str, Json]] = {
    "Read": ("Read", {"file_path": "a.py"}),
    "LS": ("LS", {"path": "."}),
    "Glob": ("Glob", {"pattern": "**/*.py"}),
    "Grep": ("Grep", {"pattern": "x"}),
    "Bash, read-only": ("Bash", {"command": "git log -3"}),
    "Bash": ("Bash", {"command": "make"}),
    "BashOutput": ("BashOutput", {"bash_id": "bash_1"}),
    "KillShell": ("KillShell", {"shell_id": "bash_1"}),
    "WebSearch": ("WebSearch", {"query": "python"}),
    "Write": ("Write", {"file_path": "a.py", "content": ""}),
    "Edit": ("Edit", {"file_path": "a.py", "old_string": "a", "new_string": "b"}),
    "NotebookRead": ("NotebookRead", {"notebook_path": "a.ipynb"}),
    "NotebookEdit": ("NotebookEdit", {"notebook_path": "a.ipynb", "cell_id": "a", "new_source": "b"}),
    "MultiEdit": ("MultiEdit", {"file_path": "a.py", "edits": [{"old_string": "a", "new_string": "b"}]}),
    "TodoRead": ("TodoRead", {}),
    "TodoWrite": ("TodoWrite", {"todos": []}),
    "SubmitReview": ("SubmitReview", {"summary": "Good.", "findings": []}),
    "WebFetch": ("WebFetch", {"url": "https://docs.python.org/3/", "prompt": "x"}),
    "GitHubRead": ("GitHubRead", {"what": "issue", "number": 7}),
    "exit_plan_mode": ("exit_plan_mode", {"plan": "# Plan"}),
    "AskUserQuestion": (
        "AskUserQuestion",
        {
            "questions": [
                {
                    "question": "Which?",
                    "header": "Way",
                    "options": [{"label": "a", "description": ""}, {"label": "b", "description": ""}],
                }
            ]
        },
    ),
    "resource_request": ("resource_request", {"resource": "tool_calls", "reason": "x"}),
    "Task, explore": ("Task", {"description": "look", "prompt": "Look around.", "subagent_type": "explore"}),
    "Task, plan": ("Task", {"description": "plan", "prompt": "Think it over.", "subagent_type": "plan"}),
    "Task, code": ("Task", {"description": "code", "prompt": "Change it now.", "subagent_type": "code"}),
    "Task, unknown": ("Task", {"description": "?", "prompt": "Who are you?", "subagent_type": "root"}),
}

# What each mode says: plan, default, acceptEdits, bypassPermissions.
DECISIONS = """
Read             allow    allow  allow  allow
LS               allow    allow  allow  allow
Glob             allow    allow  allow  allow
Grep             allow    allow  allow  allow
Bash, read-only  allow    allow  allow  allow
Bash             deny     ask    allow  allow
BashOutput       allow    allow  allow  allow
KillShell        allow    allow  allow  allow
WebSearch        allow    ask    ask    ask
Write            deny     ask    allow  allow
Edit             deny     ask    allow  allow
MultiEdit        deny     ask    allow  allow
NotebookRead     allow    allow  allow  allow
NotebookEdit     deny     ask    allow  allow
TodoRead         allow    allow  allow  allow
SubmitReview     allow    allow  allow  allow
TodoWrite        allow    allow  allow  allow
WebFetch         allow    ask    ask    ask
GitHubRead       allow    allow  allow  allow
exit_plan_mode   suspend  deny   deny   deny
AskUserQuestion  suspend  suspend suspend suspend
resource_request allow    allow  allow  allow
Task, explore    allow    allow  allow  allow
Task, plan       allow    allow  allow  allow
Task, code       deny     allow  allow  allow
Task, unknown    allow    allow  allow  allow
"""
MODES = (Mode.PLAN, Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.BYPASS)
ROWS = [line.rsplit(maxsplit=4) for line in DECISIONS.strip().splitlines()]
EXPECTED = {(row[0], mode): Decision(word) for row in ROWS for mode, word in zip(MODES, row[1:], strict=True)}


@dataclass(frozen=True)
class Asked:
    """One call as the gate sees it."""

    name: str
    kind: CallKind
    input: Json


def asked(case: str) -> Asked:
    """Return a case as the gate sees it: its kind comes from the tool itself."""
    name, given_ = CASES[case]
    tool = TOOLS[name]
    return Asked(name, tool.kind(tool.input_model.model_validate(given_)), given_)


def decide(case: str, mode: Mode, gate: PermissionGate) -> Decision:
    """Return what a gate decides about a case."""
    call = asked(case)
    return gate.decide(mode, call.kind, call.name, call.input).decision


def gate(*, allow: str = "", ask: str = "", deny: str = "", sandboxed: bool = True) -> PermissionGate:
    """Make a gate with these rules, divided by bars."""
    rules = (tuple(map(parse_rule, text.split("|"))) if text else () for text in (allow, ask, deny))
    return PermissionGate(ToolRules(*rules), sandboxed=sandboxed)
