"""exit_plan_mode: submits the plan (P5).

If the main agent calls it, the session is suspended. Nothing here approves.
"""

from dataclasses import replace

from pydantic import Field

from bot.agent.permissions.plan_mode import EXIT_PLAN_MODE, HANDED_TO_PARENT
from bot.agent.permissions.tool_gate import CallKind
from bot.agent.tools.tool import Tool, ToolContext, ToolInput, ToolSink
from bot.core.operations import OperationKind
from bot.ports import ToolOutput


class PlanInput(ToolInput):
    """Input of exit_plan_mode; what is left out is derived from the plan's text."""

    plan: str = Field(min_length=1)
    scope: list[str] | None = None
    commands: list[str] | None = None
    hosts: list[str] | None = None
    dependencies: list[str] | None = None
    notes: str | None = None


class PlanFindingInput(ToolInput):
    """One thing that the plan of a scheduled task wants to change."""

    id: str = Field(min_length=1)
    title: str = Field(min_length=1)
    paths: list[str] | None = None


class OperationInput(ToolInput):
    """One operation on an issue or a pull request of the repository."""

    kind: OperationKind
    number: int
    text: str | None = None


class TaskPlanInput(PlanInput):
    """Input of exit_plan_mode where a scheduled task asks for the plan."""

    findings: list[PlanFindingInput] | None = None
    operations: list[OperationInput] | None = None


async def _call(_: PlanInput, context: ToolContext, _emit: ToolSink) -> ToolOutput:
    """Answer a sub-agent. The main agent's call never gets here, because it suspends the session."""
    return ToolOutput(HANDED_TO_PARENT, is_error=not context.is_subagent)


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

TASK_PLAN = replace(
    PLAN,
    description=(
        f"{PLAN.description} `findings`: each thing that this plan of a scheduled task changes, so that people decide "
        "on it once. `id`: what it is called, such as a package, a test, or a rule: the same at each run, without "
        "versions, dates, and line numbers. `title`: one line for people. `operations`: what is to be done to issues "
        "and pull requests of this repository, in order, at most 50; carried out exactly so once the plan is approved, "
        "without a session. `text`: the label, or the comment. For a plan of operations alone, leave out `scope`."
    ),
    input_model=TaskPlanInput,
)
"""Takes the place of PLAN where a scheduled task asks for the plan (MT5)."""
