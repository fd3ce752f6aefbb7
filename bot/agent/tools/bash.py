"""Bash, BashOutput and KillShell: shell commands in the sandbox, in the foreground or in the background."""

import re
from dataclasses import replace
from functools import partial
from typing import Final

from pydantic import Field

from bot.agent.permissions.tool_gate import CallKind, Mode
from bot.agent.tools.tool import Tool, ToolContext, ToolInput, ToolSink, run_in_toolhost
from bot.ports import ToolOutput

LONGEST_MS: Final = 600_000
DEFAULT_MS: Final = 120_000
_CHANGES_FOLDER: Final = re.compile(r"\bcd\b")
"""A command that changes the working directory of later calls must not run concurrently with them."""

_PLANNING: Final = "Not run: plan mode is on, and a command that only reads needs no background. Call it without."
_TIMEOUT_HINT: Final = " (what takes longer: run_in_background, then BashOutput)"
"""Follows the line that ends a timed-out command, in the form that bot/core/transcript.py reads."""


class BashInput(ToolInput):
    """Input of Bash; `timeout` in milliseconds."""

    command: str = Field(min_length=1)
    timeout: int | None = Field(default=None, ge=1, le=LONGEST_MS)
    description: str | None = None
    run_in_background: bool | None = None


def _kind(tool_input: BashInput) -> CallKind:
    from bot.agent.permissions.shell_policy import is_read_only

    return CallKind.READ_COMMAND if is_read_only(tool_input.command) else CallKind.COMMAND


async def _call(tool_input: BashInput, context: ToolContext, emit: ToolSink) -> ToolOutput:
    """Run a command on the checkout.

    In plan mode, a command that may write runs on a copy that is thrown away (P4a), and nothing in the background.
    """
    planning = context.mode is Mode.PLAN
    if tool_input.run_in_background and planning:
        return ToolOutput(_PLANNING, is_error=True)
    if context.rehearsal is not None and planning and _kind(tool_input) is CallKind.COMMAND:
        return await context.rehearsal.run(tool_input.arguments())
    operation = "StartShell" if tool_input.run_in_background else "Bash"
    output = await run_in_toolhost(tool_input, context, emit, operation=operation)
    if planning or output.details.get("ended") != "timeout":
        return output
    return replace(output, text=output.text + _TIMEOUT_HINT)


BASH = Tool(
    name="Bash",
    description=(
        "Run a shell command in the sandbox (no network but https to hosts that an approved plan names); the working "
        "directory is kept between calls. Timeout 120 s unless `timeout` (ms) says otherwise. `run_in_background` "
        "returns at once and has no timeout of its own: read on with BashOutput. In plan mode only read-only commands, "
        "and those that the reminder of plan mode lists, in the foreground. Do not use it to read or search files; "
        "there are tools for that."
    ),
    input_model=BashInput,
    call=_call,
    kind=_kind,
    concurrent=lambda tool_input: (
        _kind(tool_input) is CallKind.READ_COMMAND
        and not tool_input.run_in_background
        and not _CHANGES_FOLDER.search(tool_input.command)
    ),
    timeout=lambda tool_input: (tool_input.timeout or DEFAULT_MS) / 1000 + 10,
)


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
    call=partial(run_in_toolhost, operation="BashOutput"),
    kind=lambda _: CallKind.BACKGROUND,
)

KILL_SHELL = Tool(
    name="KillShell",
    description="End a command in the background, and all that it started.",
    input_model=KillShellInput,
    call=partial(run_in_toolhost, operation="KillShell"),
    kind=lambda _: CallKind.BACKGROUND,
)
