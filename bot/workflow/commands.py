"""Runs commands that people chose, in the sandbox, and keeps what they showed as evidence."""

from shlex import quote
from typing import Final

from bot.core.transcript import Json
from bot.ports import Toolhost
from bot.workflow.desk import Desk

TAIL: Final = 2_000
"""Characters of a command's output that are kept."""
_ENDING: Final = 30.0
"""Seconds in which a command that ran out of time is ended."""


async def run_command(desk: Desk, host: Toolhost, command: str, *, below: str = "") -> Json:
    """Run one command, in a folder if one is named, and give how it ended and the end of what it said, redacted.

    It may take `sandbox.minutes`.
    """
    seconds = desk.orders.command_minutes * 60
    line = f"cd {quote(below)}\n{command}" if below else command
    given = {"command": line, "timeout": int(seconds * 1000)}
    output = await host.call("Bash", given, timeout=seconds + _ENDING)
    desk.world.alarm.listen(output.text)
    return {
        "command": command,
        "exit_code": output.details.get("exit_code"),
        "seconds": output.details.get("seconds"),
        "output": desk.redactor.redacted(output.text)[-TAIL:],
    }
