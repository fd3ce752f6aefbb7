"""Plan mode: reads a submitted plan, and writes the results for its approval or rejection (P3, P5, P6)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bot.agent.prompts import prompt_text
from bot.core.errors import Refused
from bot.core.hosts import require_host_pattern
from bot.core.lookalikes import mark_beyond_ascii, mark_lookalikes
from bot.core.maintenance import TaskFinding, check_findings
from bot.core.markdown.elements import code
from bot.core.operations import Operation, OperationKind, check_operations
from bot.core.plan import MARKDOWN_LIMIT, Contract, disarm_text, named_paths, normalize_notes, normalize_text
from bot.core.transcript import Json, pending_calls

EXIT_PLAN_MODE: Final = "exit_plan_mode"

HANDED_TO_PARENT: Final = (
    "The agent that sent you has your plan now. Nobody has approved it. End with your report; change nothing."
)


@dataclass(frozen=True, slots=True)
class SubmittedPlan:
    """A plan as the model submitted it: normalized text and its contract."""

    markdown: str
    contract: Contract
    notes: str = ""
    findings: tuple[TaskFinding, ...] = ()
    operations: tuple[Operation, ...] = ()


def read_plan(tool_input: Json) -> SubmittedPlan:
    """Read the input of an exit_plan_mode call. An omitted scope is derived from the text (P5).

    Raises Refused with the remedy.
    """
    from bot.core.markdown.inert import inert_markdown

    markdown = normalize_text(inert_markdown(normalize_text(tool_input["plan"])))
    submitted_notes = normalize_notes(tool_input.get("notes") or "")
    notes = normalize_notes(inert_markdown(submitted_notes)) if submitted_notes else ""

    def strings_of(key: str) -> tuple[str, ...]:
        return _lines(tool_input.get(key) or ())

    commands = tuple(map(mark_lookalikes, strings_of("commands")))
    dependencies = tuple(map(mark_beyond_ascii, strings_of("dependencies")))
    operations = tuple(map(_operation, tool_input.get("operations") or ()))
    scope = strings_of("scope") or (() if operations else named_paths(markdown))
    contract = Contract(scope, commands, strings_of("hosts"), dependencies)
    findings = tuple(map(_finding, tool_input.get("findings") or ()))
    check_findings(findings)
    check_operations(operations)
    _check_length(markdown, notes, contract, (*_finding_texts(findings), *(operation.text for operation in operations)))
    for host in contract.hosts:
        require_host_pattern(host)
    return SubmittedPlan(markdown, contract, notes, findings, operations)


def _lines(texts: Iterable[str]) -> tuple[str, ...]:
    """Return each text as one line, without those that are empty or repeated."""
    return tuple(dict.fromkeys(line for text in texts if (line := disarm_text(" ".join(text.split())))))


def _finding(submitted: Json) -> TaskFinding:
    """Return a finding as the model submitted it, each text as one line."""
    finding_id, title = (" ".join(_lines([submitted[key]])) for key in ("id", "title"))
    return TaskFinding(finding_id, title or finding_id, _lines(submitted.get("paths") or ()))


def _finding_texts(findings: Iterable[TaskFinding]) -> Iterator[str]:
    for finding in findings:
        yield from (finding.id, finding.title, *finding.paths)


def _operation(submitted: Json) -> Operation:
    """Return an operation as the model submitted it: its comment inert and on its own lines, its label one line."""
    from bot.core.markdown.inert import inert_markdown

    kind, text = OperationKind(submitted["kind"]), submitted.get("text") or ""
    if kind is OperationKind.COMMENT:
        text = inert_markdown(text).strip()
    return Operation(kind, submitted["number"], text if kind is OperationKind.COMMENT else " ".join(_lines([text])))


def pending_plan_call(history: Sequence[Json]) -> Json | None:
    """Return the pending call that submitted a plan for approval, or None if the session waits for no plan."""
    return next((call for call in pending_calls(history) if call["name"] == EXIT_PLAN_MODE), None)


def _check_length(markdown: str, notes: str, contract: Contract, more: Iterable[str]) -> None:
    """Refuse a plan that is too long together with its notes and lists.

    People read all of it, so nothing is ever cut.
    """
    lists = (*contract.scope, *contract.commands, *contract.hosts, *contract.dependencies, *more)
    length = len(markdown) + len(notes) + sum(len(code(item)) + 2 for item in lists)
    if length > MARKDOWN_LIMIT:
        raise Refused(
            f"the plan, its notes and its lists have {length:,} characters, the limit is {MARKDOWN_LIMIT:,}",
            fix="shorten it: name folders such as `src/**` instead of each file",
        )


def approval_result() -> str:
    """Return the result of the pending call once a person has approved the plan (P6)."""
    return prompt_text("approved")


def rejection_result() -> str:
    """Return the result of the pending call when a person has rejected the plan. Plan mode stays on (P6)."""
    return "A person rejected your plan. Plan mode is still on: nothing may be changed."
