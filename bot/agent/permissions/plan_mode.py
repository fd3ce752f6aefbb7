"""Plan mode: reads a submitted plan, and writes the results for its approval or rejection (P3, P5, P6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bot.agent.prompts import prompt_text
from bot.core.comment import code
from bot.core.errors import Refused
from bot.core.hosts import pattern
from bot.core.lookalikes import mark_beyond_ascii, mark_lookalikes
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


def read_plan(tool_input: Json) -> SubmittedPlan:
    """Read the input of an exit_plan_mode call. An omitted scope is derived from the text (P5).

    Raises Refused with the remedy.
    """
    from bot.core.markdown.inert import inert_markdown

    markdown = normalize_text(inert_markdown(normalize_text(tool_input["plan"])))
    given = normalize_notes(tool_input.get("notes") or "")
    notes = normalize_notes(inert_markdown(given)) if given else ""

    def strings_of(key: str) -> tuple[str, ...]:
        lines = (" ".join(text.split()) for text in tool_input.get(key) or ())
        return tuple(dict.fromkeys(disarm_text(line) for line in lines if line))

    commands = tuple(map(mark_lookalikes, strings_of("commands")))
    dependencies = tuple(map(mark_beyond_ascii, strings_of("dependencies")))
    scope = strings_of("scope") or named_paths(markdown)
    contract = Contract(scope, commands, strings_of("hosts"), dependencies)
    _check_length(markdown, notes, contract)
    for host in contract.hosts:
        pattern(host)
    return SubmittedPlan(markdown, contract, notes)


def pending_plan_call(history: Sequence[Json]) -> Json | None:
    """Return the pending call that submitted a plan for approval, or None if the session waits for no plan."""
    return next((call for call in pending_calls(history) if call["name"] == EXIT_PLAN_MODE), None)


def _check_length(markdown: str, notes: str, contract: Contract) -> None:
    """Refuse a plan that is too long together with its notes and lists.

    People read all of it, so nothing is ever cut.
    """
    lists = (*contract.scope, *contract.commands, *contract.hosts, *contract.dependencies)
    length = len(markdown) + len(notes) + sum(len(code(each)) + 2 for each in lists)
    if length > MARKDOWN_LIMIT:
        raise Refused(
            f"the plan, its notes and its lists have {length:,} characters, the limit is {MARKDOWN_LIMIT:,}",
            fix="shorten it: name folders such as `src/**` instead of each file",
        )


def approval_result(words: str = "") -> str:
    """Return the result of the pending call once a person has approved the plan (P6)."""
    return prompt_text("approved") + (f"\nThe person adds: {words}" if words else "")


def rejection_result(words: str = "") -> str:
    """Return the result of the pending call when a person has rejected the plan. Plan mode stays on (P6)."""
    said = f" The person says: {words}" if words else ""
    return f"A person rejected your plan.{said} Plan mode is still on: nothing may be changed."
