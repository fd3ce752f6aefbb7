"""Plan mode: reads a submitted plan, writes its results, and runs allowed commands on a copy (P3-P6, P4a)."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import Final, TypeVar

from bot.agent.prompts import prompt_text
from bot.core.codepoints import mark_beyond_ascii, mark_lookalikes
from bot.core.errors import Refused
from bot.core.maintenance import Operation, OperationKind, TaskFinding, check_findings, check_operations
from bot.core.markdown.elements import code
from bot.core.network import require_host_pattern
from bot.core.plan import MARKDOWN_LIMIT, Contract, disarm_text, named_paths, normalize_notes, normalize_text
from bot.core.transcript import Json, pending_calls
from bot.core.work import Checkout
from bot.ports import Access, Toolhost, ToolOutput, Workspace

# --- Reads a submitted plan, and answers its call (P3, P5, P6) --------------------------------------------------------

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
    finding_id, title = (" ".join(_lines([submitted[key]])) for key in ("id", "title"))
    return TaskFinding(finding_id, title or finding_id, _lines(submitted.get("paths") or ()))


def _finding_texts(findings: Iterable[TaskFinding]) -> Iterator[str]:
    for finding in findings:
        yield from (finding.id, finding.title, *finding.paths)


def _operation(submitted: Json) -> Operation:
    """Return a submitted operation. The text of a comment is made inert; any other text becomes one line."""
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
    return prompt_text("approved")


def rejection_result() -> str:
    """Return the result of the pending call when a person has rejected the plan. Plan mode stays on (P6)."""
    return "A person rejected your plan. Plan mode is still on: nothing may be changed."


# --- Runs allowed commands on a throw-away copy (P4a) -----------------------------------------------------------------
# Rules: the copy has a sandbox of its own, without network. It is removed with everything the command did, whatever the
# outcome; a copy that a killed process left is removed together with abandoned forks. The checkout itself stays
# unchanged. If the configuration names set-up commands, they run once in a session, on a copy from which all others are
# made.

_SHOWN = 500
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PreparedCheckout:
    checkout: Checkout
    remark: str = ""
    """Which set-up command failed, and how; "" if none did."""


@dataclass(slots=True)
class Rehearsal:
    """Runs each command on its own copy of one checkout."""

    workspace: Workspace
    checkout: Checkout
    setup: tuple[str, ...] = ()
    """Commands that make the checkout ready."""
    seconds: float = 600.0
    """Time limit of one set-up command."""
    _preparing: "asyncio.Task[PreparedCheckout] | None" = field(default=None, init=False)

    async def run(self, arguments: Json) -> ToolOutput:
        """Run one Bash call on a new copy, and remove the copy afterward.

        If the set-up takes longer than the call, it continues, and a later call uses the finished copy.
        """
        prepared = await self._prepare_once()
        copy = await self.workspace.fork(prepared.checkout, f"rehearsal-{secrets.token_hex(4)}")
        try:
            output = await self._with_host(copy, lambda host: host.call("Bash", arguments))
        finally:
            await self.workspace.discard(copy)
        return replace(output, text=f"{prepared.remark}{output.text}") if prepared.remark else output

    async def aclose(self) -> None:
        """Cancel a set-up that still runs, and remove the copy that was set up."""
        if self._preparing is not None:
            self._preparing.cancel()
            (outcome,) = await asyncio.gather(self._preparing, return_exceptions=True)
            if isinstance(outcome, PreparedCheckout):
                await self.workspace.discard(outcome.checkout)

    async def _prepare_once(self) -> PreparedCheckout:
        if not self.setup:
            return PreparedCheckout(self.checkout)
        if self._preparing is None or (self._preparing.done() and self._preparing.exception() is not None):
            self._preparing = asyncio.ensure_future(self._prepare())
        return await asyncio.shield(self._preparing)

    async def _prepare(self) -> PreparedCheckout:
        """Return a copy on which the set-up commands ran, up to the first that failed."""
        copy = await self.workspace.fork(self.checkout, f"rehearsal-{secrets.token_hex(4)}")
        try:
            return PreparedCheckout(copy, await self._with_host(copy, lambda host: self._set_up(host, copy)))
        except BaseException:
            await self.workspace.discard(copy)
            raise

    async def _set_up(self, host: Toolhost, copy: Checkout) -> str:
        """Run the set-up commands up to the first that fails, and return a note about that one; "" if none fails."""
        for command in self.setup:
            line = {"command": f"cd {quote(copy.shown_as)}\n{command}", "timeout": int(self.seconds * 1000)}
            output = await host.call("Bash", line, timeout=self.seconds + 30.0)
            if output.is_error:
                message = " ".join(output.text.split())[-_SHOWN:]
                return f"(The set-up command {code(command)} failed; nothing reaches the network here: {message})\n\n"
        return ""

    async def _with_host(self, copy: Checkout, use: Callable[[Toolhost], Awaitable[_T]]) -> _T:
        host = await self.workspace.open(copy, Access.WRITE)
        try:
            return await use(host)
        finally:
            await host.close()
