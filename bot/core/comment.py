"""Texts about plans and how they ended, rendered by pure functions as Markdown, also in the terminal.

reply_text answers commands, question_text renders questions, and pull_text renders pull requests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import accumulate
from types import MappingProxyType
from typing import Final

from bot.core.approval import Reason, Verdict
from bot.core.codepoints import mark_beyond_ascii, mark_lookalikes
from bot.core.errors import Refused
from bot.core.gate import Stage
from bot.core.maintenance import Operation, OperationKind, TaskFinding
from bot.core.markdown.elements import (
    cell,
    code,
    codes,
    details,
    fenced_block,
    first_items,
    first_values,
    fitting_items,
    line_matcher,
    table,
)
from bot.core.plan import Hidden, PlanDocument, disarm_text
from bot.core.turn import Actor

OVERTAKEN: Final = "the pull request was merged or closed, or its branch moved, after the plan was made"
REASONS: Final[Mapping[Reason, str]] = MappingProxyType(
    {
        Reason.NOT_A_USER: "only people can approve",
        Reason.IS_THE_BOT: "the bot can't approve its own plan",
        Reason.ROLE_UNKNOWN: "I couldn't look up their role in this repository",
        Reason.ROLE_TOO_LOW: "their role in this repository is too low to approve",
        Reason.TEAM_UNKNOWN: "I can't see who is in the teams that may approve: I need the permission members (read)",
        Reason.FOUR_EYES: "the requester can't approve here: a second person must",
        Reason.TOO_OLD: "the reaction is older than the plan shown now: remove it and add it again",
        Reason.SAID_BEFORE: "the comment is older than the plan shown now: comment again",
        Reason.SAME_SECOND: "the comment was made in the same second as the plan shown now: comment again",
        Reason.OTHER_PLAN: "the digest belongs to another plan",
        Reason.NO_DIGEST: "this request has had several plans: add the digest",
        Reason.COMMENT_EDITED: "the comment was edited, so it doesn't count: comment again",
        Reason.SENT_BY_MAIL: "the comment was sent by mail, so it doesn't count: react on GitHub or comment there",
        Reason.REVISION_ASKED: "a revision was requested: comment what should change",
        Reason.TOO_FEW: "another approval is needed",
        Reason.CODE_OWNER: "a code owner of everything that may change, so one approval is enough",
        Reason.NOBODY_ELSE: "nobody else may approve here, so no further approval is needed",
        Reason.PLAN_CHANGED: "the plan comment was edited and no longer shows the stored plan: comment `retry`",
        Reason.PLAN_HIDDEN: "the plan comment was deleted or hidden: comment `retry` for a new plan",
        Reason.THREAD_CLOSED: "the thread is closed: reopen it",
        Reason.THREAD_LOCKED: "the thread is locked: to approve, comment `approve` with the digest",
        Reason.OVERTAKEN: OVERTAKEN,
        Reason.SCOPE_DRIFTED: "files that the plan covers changed on the base branch after the plan was made",
        Reason.PLAN_EXPIRED: "the plan has expired",
        Reason.LOOKUP_FAILED: "I couldn't look up everything that the decision depends on",
        Reason.NOBODY: "nobody has approved it yet",
        Reason.STANDING: "the configuration approves plans of this task that stay within its paths",
    }
)

NAMED: Final = 20
"""Maximum number of reasons listed. A crowd under a plan must not make a notice that GitHub refuses for its length."""
_FILES_ROOM: Final = 3_000
_AMENDMENT_ROOM: Final = 5_000
"""Characters for the files of an amendment, and for those that its plan did not name."""
CHANGES_ROOM: Final = 5_000
"""Characters for what changed in a plan. The longest possible plan still fits into the comment with them."""
_CHANGES_LINE: Final = 200
_MODES: Final = {
    "plan": "plan mode on",
    "default": "asks before edits and commands",
    "acceptEdits": "may edit files",
    "bypassPermissions": "may do everything without asking",
}
_EXECUTION_ENDS: Final = {
    "answered": "Executed",
    "suspended": "Waiting for an answer",
    "limit": "Stopped at a limit",
    "cancelled": "Stopped",
}
"""Texts for the ends of a session that need more than their name."""
EXECUTION_OVER: Final = "**Execution ended.** The result is in a later comment."
"""The last text of a progress comment whose process died before it could show how its session ended."""
_PLANNING_ENDS: Final = {"answered": "Answered"}
BOXES: Final = {"completed": "☑", "in_progress": "▶", "pending": "☐"}
"""The symbol of each status of a todo item."""


def heading(plan: PlanDocument) -> str:
    """Return the plan's heading: the mode, the version number, and the short digest (P8)."""
    return f"⏸ plan mode: plan {plan.plan} ({plan.short_digest})"


def plan_text(plan: PlanDocument, how: str = "") -> str:
    """Render a plan document, the same text wherever people decide on it or read it (A8).

    The same document gives the same text in every version: threads in flight compare it. The parts: plan, notes,
    findings, operations, contract, estimated cost, changes since the previous version, what was hidden in the request,
    how to decide ("" where that stands elsewhere), base, and expiry.
    """
    parts = [f"## {heading(plan)}", *_terms(plan)]
    if plan.changed:
        parts += [f"### What changed since plan {plan.plan - 1}", fenced_block(disarm_text(plan.changed), "diff")]
    parts += [*_hidden_notices(plan.hidden), *([how] if how else [])]
    parts.append(f"Made for commit {plan.base[:12]}. Expires {plan.expires.astimezone(UTC):%Y-%m-%d %H:%M} UTC.")
    return "\n\n".join(parts) + "\n"


def _terms(plan: PlanDocument) -> list[str]:
    """Render what the plan is: its text, notes, findings, operations, and contract, with the estimated cost."""
    parts = [disarm_text(plan.markdown)]
    if plan.notes:
        parts.append(details("Notes for the session that carries it out", disarm_text(plan.notes)))
    if plan.findings:
        parts += ["### Findings", finding_list(plan.findings)]
    if plan.operations:
        parts += ["### Operations on issues", operation_table(plan.operations), *_comments(plan.operations)]
    cost = f"\n- Estimated cost: {plan.estimate}" if plan.estimate else ""
    return [*parts, "### What it may do", contract(plan) + cost]


UNPRICED: Final = (
    "unknown, because a model in use has no known price; its spending is limited by steps and minutes, "
    "not by a dollar budget"
)


def estimate(costs: Sequence[float], planning_usd: float) -> str:
    """Return a rough estimate of what a plan's work will cost and its basis; "" without any basis.

    `costs` are those of other executions here within a day. Without any, the cost of planning is the basis.
    """
    if costs:
        basis = "the only execution" if len(costs) == 1 else f"the median of {len(costs)} executions"
        return f"about ${sorted(costs)[len(costs) // 2]:.2f} ({basis} here in the last day)"
    guess = f"perhaps ${planning_usd:.2f} (the cost of planning it; nothing was executed here in the last day)"
    return guess if planning_usd else ""


def contract(plan: PlanDocument) -> str:
    """Render the plan's contract as a list.

    The list is complete, except for the files of an amendment, which its tree identifies.
    """
    classes = plan.contract.classes
    scope = [mark_lookalikes(glob) for glob in plan.contract.scope]
    files = first_values(scope, _FILES_ROOM) if plan.tree else codes(scope)
    rows = (
        ("Files", files or ("any, except those of tier high" if plan.changes_files else "none")),
        ("Commands to prove it", codes([mark_lookalikes(command) for command in plan.contract.commands]) or "none"),
        ("Network", codes(plan.contract.hosts) or "none"),
        (
            "New dependencies",
            codes([mark_beyond_ascii(dependency) for dependency in plan.contract.dependencies]) or "none",
        ),
        ("Budget", f"${plan.budget_usd:.2f}"),
        ("Risk tier", plan.tier),
        *([("Branch", f"{code(plan.branch)}{_OF_ITS_OWN.format(plan.base[:12])}")] if plan.branch else []),
        *([("Path classes", codes([f"{kind}: {glob}" for kind, glob in classes]))] if classes else []),
        *([("Exactly this work", f"git tree {code(plan.tree)}")] if plan.tree else []),
    )
    return "\n".join(f"- {name}: {value}" for name, value in rows)


_OF_ITS_OWN: Final = (
    ", a new one in this repository, made from commit {}. Commits of this pull request that are not in that commit, "
    "such as those of a fork, are not part of it"
)


def finding_list(findings: Sequence[TaskFinding]) -> str:
    rows = [(f"- {code(finding.title)} ({code(finding.id)})", codes(finding.paths)) for finding in findings]
    return "\n".join(f"{row}: {paths}" if paths else row for row, paths in rows)


def changes(before: PlanDocument, after: PlanDocument) -> str:
    """Return a diff of two versions of a plan as they are shown, for people who read the earlier one.

    Left out is what every version has of its own: number, digest, estimate, expiry, and the changes before it. The diff
    has one line of context, is cut to fit, never empty, and contains no box that can be ticked.
    """

    def lines_of(plan: PlanDocument) -> list[str]:
        base = f"Made for commit {plan.base[:12]}."
        return "\n\n".join([*_terms(replace(plan, estimate="")), *_hidden_notices(plan.hidden), base]).split("\n")

    one, other, diff = lines_of(before), lines_of(after), list[str]()
    for group in line_matcher(one, other).get_grouped_opcodes(1):
        diff += ["…"] if diff else []
        for kind, a1, a2, b1, b2 in group:
            same = kind == "equal"
            diff += [f" {line}" for line in one[a1:a2]] if same else [f"-{line}" for line in one[a1:a2]]
            diff += [] if same else [f"+{line}" for line in other[b1:b2]]
    lines = [line[:_CHANGES_LINE] for line in diff]
    fit = sum(end <= CHANGES_ROOM for end in accumulate(len(line) + 1 for line in lines))
    more = [f"… and {len(lines) - fit} more lines"] if fit < len(lines) else []
    return disarm_text("\n".join([*lines[:fit], *more])) or "nothing"


def operation_table(operations: Sequence[Operation], outcomes: Sequence[str] = ()) -> str:
    """Render operations on issues as a table, one row for each, with their results if these are known.

    Numbers and texts are code, so that they refer to nothing and notify nobody.
    """
    rows = [
        f"{n} | {code(f'#{operation.number}')} | {str(operation.kind).replace('_', ' ')} | {_label(operation, n)}"
        for n, operation in enumerate(operations, start=1)
    ]
    if outcomes:
        rows = [f"{row} | {cell(outcome)}" for row, outcome in zip(rows, outcomes, strict=False)]
    return table(f"| issue | operation | text{' | outcome' if outcomes else ''}", rows)


def _label(operation: Operation, n: int) -> str:
    if operation.kind is OperationKind.COMMENT:
        return f"comment {n}"
    return code(operation.text.replace("|", "¦")) if operation.text else ""


def _comments(operations: Sequence[Operation]) -> list[str]:
    return [
        f"Comment {n}, for {code(f'#{operation.number}')}:\n\n{fenced_block(disarm_text(operation.text), 'text')}"
        for n, operation in enumerate(operations, start=1)
        if operation.kind is OperationKind.COMMENT
    ]


def _hidden_notices(hidden: Hidden) -> list[str]:
    """Render, folded, what is invisible in the request and its thread and was withheld from the planner (X1)."""
    if not hidden.count:
        return []
    fragments = "1 hidden fragment was" if hidden.count == 1 else f"{hidden.count} hidden fragments were"
    rows = [f"- {code(fragment)}" for fragment in hidden.shown]
    if hidden.count > len(rows):
        rows.append(f"- and {hidden.count - len(rows)} more")
    return [details(f"⚠ {fragments} removed from the request before the plan was made", "\n".join(rows))]


def reasons(verdict: Verdict) -> str:
    """Render the reasons for a verdict, one clause for each."""
    stated = tuple(dict.fromkeys(verdict.reasons))
    clauses = [attribution(why.actor) + REASONS[why.reason] for why in stated]
    return "; ".join(first_items(clauses, NAMED)) or str(verdict.outcome)


def attribution(actor: Actor | None) -> str:
    """Return the start of a clause about a person, written so that it notifies nobody (X2); "" for nobody."""
    return f"`@{actor.login}`: " if actor is not None else ""


def amendment(plan: PlanDocument, weighty: Sequence[str], others: Sequence[str] = ()) -> str:
    """Return the text of an amendment: the approved plan, and what the work changed beyond it.

    Lists every weighty path, which are those of tier high. Raises Refused if they do not fit in a comment.
    """
    rows = [f"- {code(path)}" for path in weighty]
    room = _AMENDMENT_ROOM - sum(map(len, rows))
    if room < 0:
        raise Refused(
            f"the work changed {len(rows)} files of tier high that the plan does not name, too many for a comment",
            fix="ask for a smaller change",
        )
    listing = "\n".join([*rows, *fitting_items([f"- {code(path)}" for path in others], room, "- ")])
    return (
        f"{plan.markdown}\n\n## Amendment\n\n"
        f"The work is done, but it also changed files that the plan doesn't name:\n\n{listing}"
    )


def mode_sign(name: str) -> str:
    """Return a mode as it appears wherever a session is shown (P8)."""
    return f"{'⏸' if name == 'plan' else '▶'} {mode_text(name)}"


def mode_text(name: str) -> str:
    return _MODES.get(name, f"mode {name}")


@dataclass(frozen=True, slots=True)
class AgentRow:
    """One sub-agent's row in the progress comment and in the pull request."""

    type: str
    description: str
    state: str
    tool_calls: int
    tokens: int
    seconds: float
    cost_usd: float | None
    """Dollars; None if its model has no price."""


def progress(
    at: str,
    mode_name: str,
    todos: Sequence[tuple[str, str]],
    rows: Sequence[AgentRow],
    *,
    spent: tuple[int, float | None, float | None],
) -> str:
    """Render the progress comment: todo list, sub-agents, and what was spent (tool calls, dollars, budget).

    `at` is the stage, or how the session ended.
    """
    calls, cost, budget_usd = spent
    parts = [f"**{_EXECUTION_ENDS.get(at) or at.replace('_', ' ').capitalize()}** · {mode_sign(mode_name)}"]
    if todos:
        parts.append(todo_list(todos))
    if rows:
        parts.append(subagent_table(rows))
    money = "unknown cost" if cost is None else f"${cost:.2f}"
    limit = f" of ${budget_usd:.2f}" if budget_usd is not None else ""
    parts.append(f"{calls} tool calls, {money}{limit}.")
    return "\n\n".join(parts)


def is_at_work(text: str) -> bool:
    """Return whether a progress comment shows that approved work goes on."""
    return text.startswith(f"**{Stage.EXECUTING.capitalize()}**")


def planning_over(end: str) -> str:
    """Render the last text of planning's progress comment; `end` is how its session ended, or ``planned``."""
    return f"**{_PLANNING_ENDS.get(end) or _EXECUTION_ENDS.get(end) or end.capitalize()}.**"


def subagent_table(rows: Sequence[AgentRow]) -> str:
    head = "sub-agent | task | state | tool calls | tokens | seconds | dollars"
    return table(head, [_row(row) for row in rows])


def todo_list(todos: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f"- {BOXES[status]} {disarm_text(content)}" for content, status in todos)


def work_begun_line(by: Sequence[str], at: datetime) -> str:
    """Return the line placed above a plan once its work begins. No two approvals produce the same line (A4b)."""
    who = ", ".join(code(login) for login in by[:NAMED]) + (f" and {len(by) - NAMED} more" if len(by) > NAMED else "")
    who = who or "the configuration (`approval: standing`)"
    when = f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"**Approved** by {who} on {when}; the work has begun, and no earlier approval counts a second time."


def superseded_notice(plan: PlanDocument) -> str:
    return f"Replaced by plan {plan.plan} ({plan.short_digest})."


def next_plan_notice(plan: PlanDocument) -> str:
    return f"This plan was executed. Plan {plan.plan} ({plan.short_digest}) covers the next request."


def _row(row: AgentRow) -> str:
    task, cost = cell(row.description), "unknown" if row.cost_usd is None else f"${row.cost_usd:.3f}"
    return f"{row.type} | {task} | {cell(row.state)} | {row.tool_calls} | {row.tokens:,} | {row.seconds:.0f} | {cost}"


def outcome(stage: Stage, *, branch: str = "", detail: str = "", mention: str = "") -> str:
    """Render how a request ended and what can be done next. Without a mention, the text is for the terminal."""
    retry = how_to_retry(mention)
    budget = f" Somebody who may approve can raise a budget here with `{mention} budget N`." if mention else ""
    match stage:
        case Stage.DONE:
            return f"Done: branch {branch}."
        case Stage.ANSWERED:
            return "Answered. Nothing was changed."
        case Stage.AWAITING_APPROVAL:
            return "The plan is waiting for approval. Nothing was changed."
        case Stage.REJECTED:
            return "The plan was rejected. Nothing was changed."
        case Stage.STALE | Stage.EXPIRED:
            return f"The plan is no longer valid: {detail}. Use {retry} to get a new one."
        case Stage.LIMIT:
            return f"Stopped: {detail}. The work so far is kept. Raise the limit, then use {retry} to continue.{budget}"
        case Stage.FAILED:
            return f"Failed: {detail}. The work so far is kept. Use {retry} to continue."
        case _:
            return f"{stage.replace('_', ' ').capitalize()}. {detail}".strip()


def how_to_retry(mention: str) -> str:
    """Return what continues interrupted work: a command, or at a terminal, without a mention, the program again."""
    return f"`{mention} retry`" if mention else "the same command"
