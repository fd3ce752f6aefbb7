"""exit_plan_mode: submits the plan (P5).

If the main agent calls it, the session is suspended. Nothing here approves.
"""

from collections.abc import AsyncIterator

from pydantic import Field

from bot.agent.permissions.plan_mode import EXIT_PLAN_MODE, HANDED_TO_PARENT
from bot.agent.permissions.tool_gate import CallKind
from bot.agent.tools.tool import Step, Tool, ToolContext, ToolInput
from bot.ports import ToolOutput


class PlanInput(ToolInput):
    """Input of exit_plan_mode; what is left out is derived from the plan's text."""

    plan: str = Field(min_length=1)
    scope: list[str] | None = None
    commands: list[str] | None = None
    hosts: list[str] | None = None
    dependencies: list[str] | None = None
    notes: str | None = None


async def _call(_: PlanInput, context: ToolContext) -> AsyncIterator[Step]:
    """Answer a sub-agent. The main agent's call never gets here, because it suspends the session."""
    yield ToolOutput(HANDED_TO_PARENT, is_error=not context.is_subagent)


PLAN = Tool(
    name=EXIT_PLAN_MODE,
    description=(
        "Hand in your plan for approval, for tasks that change the repository (never for questions). `plan`: concise "
        "Markdown. `scope`: globs of every path that will change. `commands`: commands that prove the work. `hosts`, "
        "`dependencies`: network hosts and new dependencies that are needed. `notes` (optional, at most 6,000 "
        "characters): for the session that carries the plan out and knows nothing of this one: root cause as "
        "`path:line`, what was ruled out, how to run one test. Call it alone."
    ),
    input_model=PlanInput,
    call=_call,
    kind=lambda _: CallKind.PROPOSE,
    strict=True,
)
