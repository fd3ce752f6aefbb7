"""BashOutput and KillShell: commands that Bash started in the background."""

from pydantic import Field

from bot.agent.permissions.tool_gate import CallKind
from bot.agent.tools.tool import Tool, ToolInput, run_in_toolhost


class BashOutputInput(ToolInput):
    """Input of BashOutput; `filter` is a regular expression as in Grep."""

    bash_id: str = Field(min_length=1)
    filter: str | None = None


class KillShellInput(ToolInput):
    """Input of KillShell."""

    shell_id: str = Field(min_length=1)


BASH_OUTPUT = Tool(
    name="BashOutput",
    description=(
        "Read what a command in the background wrote since the last call, and how it ended or that it runs. Waits up "
        "to 10 s for something new. With `filter`, lines that do not match it are dropped for good."
    ),
    input_model=BashOutputInput,
    call=lambda given, context: run_in_toolhost(given, context, operation="BashOutput"),
    kind=lambda _: CallKind.BACKGROUND,
)

KILL_SHELL = Tool(
    name="KillShell",
    description="End a command in the background, and all that it started.",
    input_model=KillShellInput,
    call=lambda given, context: run_in_toolhost(given, context, operation="KillShell"),
    kind=lambda _: CallKind.BACKGROUND,
)
