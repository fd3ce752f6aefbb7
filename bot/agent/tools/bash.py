"""Bash: one shell command in the sandbox."""

import re
from collections.abc import AsyncIterator
from typing import Final

from pydantic import Field

from bot.agent.forwarding import forward
from bot.agent.permissions.gate import CallKind
from bot.agent.permissions.modes import Mode
from bot.agent.tools.tool import Step, Tool, ToolContext, ToolInput, run_in_toolhost

LONGEST_MS: Final = 600_000
DEFAULT_MS: Final = 120_000
_CHANGES_FOLDER: Final = re.compile(r"\bcd\b")
"""A command that changes the working directory of later calls must not run concurrently with them."""


class BashInput(ToolInput):
    """Input of Bash; `timeout` in milliseconds."""

    command: str = Field(min_length=1)
    timeout: int | None = Field(default=None, ge=1, le=LONGEST_MS)
    description: str | None = None


def _kind(given: BashInput) -> CallKind:
    from bot.agent.permissions.shell_policy import is_read_only

    return CallKind.LOOK_COMMAND if is_read_only(given.command) else CallKind.COMMAND


async def _call(given: BashInput, context: ToolContext) -> AsyncIterator[Step]:
    """Run a command on the checkout.

    In plan mode, a command that may write runs on a copy that is thrown away (P4a).
    """
    if context.rehearsal is not None and context.mode is Mode.PLAN and _kind(given) is CallKind.COMMAND:
        yield await context.rehearsal.run(given.arguments())
        return
    async with forward(run_in_toolhost(given, context, operation="Bash")) as steps:
        async for step in steps:
            yield step


BASH = Tool(
    name="Bash",
    description=(
        "Run a shell command in the sandbox (no network but https to hosts that an approved plan names); the working "
        "directory is kept between calls. Timeout 120 s unless `timeout` (ms) says otherwise. In plan mode only "
        "read-only commands. Do not use it to read or search "
        "files; there are tools for that."
    ),
    input_model=BashInput,
    call=_call,
    kind=_kind,
    concurrent=lambda given: _kind(given) is CallKind.LOOK_COMMAND and not _CHANGES_FOLDER.search(given.command),
    timeout=lambda given: (given.timeout or DEFAULT_MS) / 1000 + 10,
)
