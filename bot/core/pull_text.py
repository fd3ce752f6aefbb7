"""Texts where work ends: the commit message and the pull request's body. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from bot.core.approval import Reason, Verdict
from bot.core.checks import Check, CheckState, result_text, state_of
from bot.core.codepoints import mark_lookalikes, with_visible_codepoints
from bot.core.comment import NAMED, REASONS, AgentRow, plan_text, subagent_table
from bot.core.decision_evidence import ConfigurationChange
from bot.core.markdown.elements import cell, code, details, fenced_block, first_items, shorten_line, table
from bot.core.markdown.inert import POSTED_CHARACTERS, cut, inert_markdown
from bot.core.paths import is_path_covered, normalized_path
from bot.core.plan import PlanDocument, disarm_text
from bot.core.receipt import receipt_ref
from bot.core.turn import Actor
from bot.core.work import PullRequest

# --- Planned and changed files in the pull request's body (PR6) ------------------------------------------------------

_ROWS_SHOWN: Final = 20
_PATHS_SHOWN: Final = 3
_PATH_ROOM: Final = 60
"""Limits of the table, in rows, in paths of a row, and in characters of a path: 400 files fit into 6,000 characters."""


def scope_table(plan: PlanDocument, changed: Sequence[str]) -> str:
    """Render, folded, a table of what the plan names and the changed files under each entry.

    A file is listed with the entry that names it exactly, else with the first one that covers it. If there are too many
    rows to show, files that no entry names and entries without a change come first.
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
    if not paths:
        return "no change"
    names = ", ".join(map(_name, paths[:_PATHS_SHOWN]))
    return names if len(paths) <= _PATHS_SHOWN else f"{len(paths)} files: {names}, …"


def _name(path: str) -> str:
    visible = with_visible_codepoints(mark_lookalikes(path))
    return f"`{cell(shorten_line(visible, _PATH_ROOM))}`"


# --- The commit message and the pull request's body ------------------------------------------------------------------

WAITS_FOR_APPROVAL: Final = (
    "> GitHub starts no workflows on this pull request until somebody with write access presses **Approve workflows to "
    "run** in the merge box, after each push: the bot works with the job's own token. When it works as a GitHub App, "
    "they start by themselves."
)
"""https://docs.github.com/en/actions/concepts/security/github_token#when-github_token-triggers-workflow-runs"""

SHORT_COMMIT: Final = 12
_SUBJECT_ROOM: Final = 72
_WAYS: Final = MappingProxyType(
    {
        "reaction": "by reaction",
        "tick": "by ticking the box",
        "command": "by comment",
        "dashboard": "on the dashboard",
        "terminal": "at the terminal",
    }
)
_FEWER_SUFFICE: Final = frozenset({Reason.CODE_OWNER, Reason.NOBODY_ELSE})
_SUMMARY_ROOM: Final = 15_000
_CHECKS_SHOWN: Final = 30
_OUTPUTS_SHOWN: Final = 3
_OUTPUT_ROOM: Final = 2_000
_ENDING_ROOM: Final = 200
_MODEL_ROOM: Final = 100
_UNDONE_ROOM: Final = 300
_RECEIPT_ROOM: Final = 12_000
"""Limits of a pull request's body, in characters or in items. The plan gets the remaining room."""


def commit_message(title: str, plan: PlanDocument, summary: str, trailers: Sequence[str] = ()) -> str:
    """Return the commit message: what was asked, what was done, and the digest of the approved plan.

    Further trailers are in the same paragraph, as git requires.
    """
    trailer_lines = "\n".join((f"Plangate-Plan: {plan.digest}", *trailers))
    return f"{shorten_line(title, _SUBJECT_ROOM)}\n\n{summary.strip()}\n\n{trailer_lines}\n"


def approval_trailers(approvers: Sequence[str]) -> tuple[str, ...]:
    """Return the trailers of a commit that name its approvers, or the configuration if nobody had to approve (RC6)."""
    if not approvers:
        return ("Plangate-Approved-By: the configuration (approval: standing)",)
    return tuple(f"Plangate-Approved-By: @{login}" for login in approvers)


def co_author(actor: Actor, host: str) -> str:
    """Return an account as a commit's co-author: its login, and its noreply address on that server.

    Returns "" without a server, where there are no accounts.
    """
    return f"{actor.login} <{actor.noreply(host)}>" if host else ""


@dataclass(frozen=True, slots=True)
class PullOrigin:
    """The people, decisions, and work behind a pull request (PR6)."""

    asked: Sequence[str]
    """The logins of the people whose words the plan was made for."""
    verdict: Verdict
    at: datetime
    model: str = ""
    """The main agent's model; "" if no entry names it."""
    cost_usd: float | None = None
    agents: Sequence[AgentRow] = ()
    commands: Sequence[Mapping[str, Any]] = ()
    """The commands that the agents ran on their own: agent, command, exit_code."""
    task: str = ""
    """The scheduled task that it was made for, whose tracking issue stays open; "" for none."""
    receipt: str = ""
    """The text about the receipt, in Markdown; "" for none."""
    workflows_wait: bool = False
    """Whether GitHub starts the pull request's workflows only once a person has said so."""
    tokens: tuple[int, int] = (0, 0)
    """The tokens of prompts and of answers; zeros if the journal does not have them."""
    ways: Sequence[str] = ()
    """How the approvers approved (bot.core.approval.Way); none if the journal does not have it."""
    paths: Sequence[str] = ()
    change: ConfigurationChange | None = None
    """The newest change of the configuration, if that alone approved the plan; None otherwise, or if unknown."""


def pull_body(
    plan: PlanDocument, origin: PullOrigin, *, summary: str, checks: Sequence[Check], no_baseline: str = ""
) -> str:
    """Render a pull request's body: failing checks first, summary, evidence, files, agents, origin, and plan.

    `no_baseline` says why a check did not run before the work. The body always fits (X2): every part has a limit, and
    the plan gets the remaining room.
    """
    failing = [check for check in checks if check["exit_code"] != 0]
    failing.sort(key=lambda check: state_of(check) is not CheckState.FAILED)  # what the work broke comes first
    parts = [f"> ⚠ {_warning(checks)}"] if failing else []
    if origin.workflows_wait:
        parts.append(WAITS_FOR_APPROVAL)
    parts.append(cut(disarm_text(summary), _SUMMARY_ROOM))
    if checks:
        parts.append(_checks_table(checks, no_baseline))
    parts += [_output(check) for check in failing[:_OUTPUTS_SHOWN]]
    if origin.paths:
        parts.append(scope_table(plan, origin.paths))
    if origin.commands:
        parts.append(_command_table(origin.commands))
    if origin.agents:
        parts.append(_agents_table(origin.agents))
    parts.append(_provenance(plan, origin))
    if origin.receipt:
        parts.append(origin.receipt)
    room = POSTED_CHARACTERS - len("\n\n".join(parts)) - _ENDING_ROOM
    parts.append(details("The approved plan", cut(plan_text(plan).rstrip(), room)))
    reference = "Refs" if plan.branch else "Closes"  # a pull request is not closed by another one (CL4)
    parts.append(
        f"Scheduled task {code(origin.task)}: #{plan.thread}" if origin.task else f"{reference} #{plan.thread}"
    )
    return "\n\n".join(parts) + "\n"


def receipt_block(commit: str, envelope: str) -> str:
    """Render where the receipt of a commit is, how to check it, and, if it is short, the receipt itself, folded."""
    where = f"Signed receipt: `{receipt_ref(commit)}`. Check it with `plangate verify {commit[:SHORT_COMMIT]}`."
    if len(envelope) > _RECEIPT_ROOM:
        return where
    return details("Receipt", f"{where}\n\n{fenced_block(envelope.strip())}")


def no_receipt(why: str) -> str:
    """Render that a receipt was made and could not be kept."""
    return f"There is no receipt: {code(shorten_line(why, _UNDONE_ROOM))}."


def pull_request_ready(pull: PullRequest) -> str:
    """Render that the pull request exists, whether it is a draft, and which labels and reviewers are missing."""
    at = "is open as a draft" if pull.draft else "is ready for review"
    rows = first_items([f"- {code(shorten_line(item, _UNDONE_ROOM))}" for item in pull.undone], NAMED, "- ")
    undone = "\n".join(["", "", "I couldn't add all that the configuration asks for:", "", *rows]) if rows else ""
    return f"Pull request #{pull.number} {at}.{undone}"


def _provenance(plan: PlanDocument, origin: PullOrigin) -> str:
    requesters = ", ".join([code(login) for login in origin.asked[:NAMED]])
    more = f" and {len(origin.asked) - NAMED} more" if len(origin.asked) > NAMED else ""
    approved = f"{_approvers(origin.verdict)} as plan {plan.plan} ({plan.short_digest})"
    model = f" Model: {code(shorten_line(origin.model, _MODEL_ROOM))}." if origin.model else ""
    money = "unknown" if origin.cost_usd is None else f"${origin.cost_usd:.2f}"
    if any(origin.tokens):
        money += " ({:,} tokens in, {:,} out)".format(*origin.tokens)
    at = f"{origin.at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    how = "".join(f", {_WAYS.get(way, way)}" for way in dict.fromkeys(origin.ways))
    if (change := origin.change) is not None:
        how += f"; {code(change.actor.login)} brought in that file's newest version ({change.commit[:SHORT_COMMIT]})"
    return f"- Requested by {requesters}{more}.\n- Approved by {approved} on {at}{how}.\n-{model} Cost: {money}."


def _agents_table(agents: Sequence[AgentRow]) -> str:
    more = f"\n\nSub-agents not shown: {len(agents) - NAMED}." if len(agents) > NAMED else ""
    return inert_markdown(subagent_table(agents[:NAMED])) + more


def _approvers(verdict: Verdict) -> str:
    """Render who approved and, if tier high needed fewer approvals than usual, why."""
    who = ", ".join(f"`{actor.login}`" for actor in verdict.by) or "the configuration (`approval: standing`)"
    why = [REASONS[reason.reason] for reason in verdict.reasons if reason.reason in _FEWER_SUFFICE]
    return f"{who} ({why[0]})" if why else who


def _warning(checks: Sequence[Check]) -> str:
    """Return how many checks did not pass, counted by what that says about the work."""
    states = Counter(map(state_of, checks))
    failed, before, unable = (
        states[state] for state in (CheckState.FAILED, CheckState.FAILED_BEFORE, CheckState.CANNOT_RUN)
    )
    sentences = [f"{failed} of {len(checks)} checks failed; see below."] if failed else []
    sentences += [f"{before} of {len(checks)} checks failed before the work and still fail."] if before else []
    sentences += [f"{unable} of {len(checks)} checks could not run in the sandbox."] if unable else []
    return " ".join(sentences)


def _checks_table(checks: Sequence[Check], no_baseline: str) -> str:
    """Render the checks as a table, failing ones first if there are too many to show.

    Where any of them ran before the work, its result is shown next to the one after it.
    """
    first = sorted(checks, key=lambda check: check["exit_code"] == 0) if len(checks) > _CHECKS_SHOWN else checks
    compares = any("before" in check for check in checks)
    head = "check | before | after | seconds" if compares else "check | exit code | seconds"
    row = _result_cells if compares else lambda check: f"`{cell(check['command'])}` | {check['exit_code']}"
    rows = [f"{row(check)} | {check['seconds']}" for check in first[:_CHECKS_SHOWN]]
    more = f"\n\nChecks not shown: {len(checks) - _CHECKS_SHOWN}." if len(checks) > _CHECKS_SHOWN else ""
    missing = f"\n\nNot every check ran before the work: {no_baseline}." if no_baseline else ""
    return table(head, rows) + more + missing


def _result_cells(check: Check) -> str:
    return f"`{cell(check['command'])}` | {result_text(check.get('before'))} | {result_text(check)}"


def _command_table(commands: Sequence[Mapping[str, Any]]) -> str:
    """Render the last commands that the agents ran, folded, with the model's text made inert."""
    last = commands[-_CHECKS_SHOWN:]
    rows = [f"{run['agent']} | `{cell(run['command'])}` | {_exit_code(run)}" for run in last]
    more = f"\n\nEarlier commands not shown: {len(commands) - len(last)}." if len(commands) > len(last) else ""
    return details("Commands that the agents ran", inert_markdown(table("agent | command | exit code", rows)) + more)


def _exit_code(command: Mapping[str, Any]) -> str:
    return "stopped" if command["exit_code"] is None else str(command["exit_code"])


def _output(check: Check) -> str:
    command = cell(check["command"]).replace("&", "&amp;")  # in HTML an entity would be decoded
    return details(f"<code>{command}</code>", fenced_block(str(check["output"])[-_OUTPUT_ROOM:]))
