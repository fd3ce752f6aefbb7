"""Runs commands that people chose, in the sandbox, and lists those that agents ran by themselves."""

import asyncio
import hashlib
import math
from collections.abc import Iterable
from contextlib import suppress
from shlex import quote
from typing import Final

from bot.agent.subagents.resuming import subagents_of
from bot.core.errors import PlangateError
from bot.core.names import SessionId
from bot.core.transcript import Json, Line, all_messages, commands_of
from bot.ports import Toolhost
from bot.workflow.thread_context import ThreadContext

TAIL: Final = 2_000
"""Characters of a command's output that are kept."""
MOST: Final = 50
"""Most commands of agents that are kept."""
ENDING: Final = 30.0
"""Seconds in which a command that ran out of time is ended."""


async def commands_run(context: ThreadContext, session: SessionId) -> list[Json]:
    """Return the commands that a session and its sub-agents ran: agent, command (redacted), exit_code, output_sha256.

    Taken from their transcripts. Those that only read are left out; of one command the last run counts, and of many
    commands the last MOST.
    """
    from bot.agent.permissions.shell_policy import is_read_only

    sessions = [("main", lines := await _lines(context, session))]
    sessions += [(agent, await _lines(context, ident)) for agent, ident in subagents_of(lines)]
    ran: dict[tuple[str, str], Json] = {}
    for agent, messages in sessions:
        for command, code, output in commands_of(all_messages(messages)):
            if not is_read_only(command):
                ran.pop((agent, command), None)
                shown = context.redactor.redact(command)[:TAIL]
                digest = hashlib.sha256(output.encode("utf-8", "surrogatepass")).hexdigest()
                row = {"agent": agent, "command": shown, "exit_code": code, "output_sha256": digest}
                ran[agent, command] = row
    return [*ran.values()][-MOST:]


async def _lines(context: ThreadContext, session: SessionId) -> tuple[Line, ...]:
    """Return the lines of a session; none if they cannot be read, because that must not fail finished work."""
    with suppress(PlangateError):
        return await asyncio.to_thread(context.resources.transcripts.load, session)
    return ()


async def run_command(context: ThreadContext, host: Toolhost, command: str, *, below: str = "") -> Json:
    """Run one command, in a folder if one is named, and return how it ended and the end of its output, redacted.

    It may take `sandbox.minutes`.
    """
    facts, _ = await run_command_with_output(context, host, command, below=below)
    return facts


async def run_command_with_output(
    context: ThreadContext, host: Toolhost, command: str, *, below: str = "", most: float = math.inf
) -> tuple[Json, str]:
    """Run one command as `run_command` does, and return all of its output beside, redacted.

    `most` is a further limit of its time, in seconds.
    """
    seconds = min(context.settings.command_minutes * 60, most)
    line = f"cd {quote(below)}\n{command}" if below else command
    given = {"command": line, "timeout": int(seconds * 1000)}
    output = await host.call("Bash", given, timeout=seconds + ENDING)
    said = hear_output(context, output.text)
    facts = {
        "command": command,
        "exit_code": output.details.get("exit_code"),
        "seconds": output.details.get("seconds"),
        "output": said[-TAIL:],
    }
    return facts, said


def hear_output(context: ThreadContext, text: str) -> str:
    """Return what a command printed, redacted. Planted decoys in it raise the alarm first."""
    context.resources.alarm.listen(text)
    return context.redactor.redact(text)


async def run_commands(
    context: ThreadContext, host: Toolhost, commands: Iterable[str], *, seconds: float | None
) -> list[Json]:
    """Run commands one after the other as long as the time lasts; None for any time.

    Return how those ended that were not cut short.
    """
    clock, found = context.resources.clock, list[Json]()
    end = math.inf if seconds is None else clock.monotonic() + seconds
    for command in commands:
        if (left := end - clock.monotonic()) > 0:
            facts, _ = await run_command_with_output(context, host, command, most=left)
            found += [facts] if facts["exit_code"] is not None or clock.monotonic() < end else []
    return found
