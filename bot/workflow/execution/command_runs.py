"""Runs commands that people chose, in the sandbox, and lists those that agents ran by themselves."""

import hashlib
import math
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from shlex import quote
from typing import Final

from bot.agent.subagents.resuming import subagents_of
from bot.core.errors import PlangateError
from bot.core.names import SessionId
from bot.core.network import Network
from bot.core.thread.state import ThreadState
from bot.core.transcript import Json, Line, all_messages, commands_of
from bot.core.work import Checkout
from bot.ports import Access, Toolhost, ToolOutput
from bot.workflow.session.network_journal import journal_network
from bot.workflow.session.saved_work import read_transcript, toolhost
from bot.workflow.thread_context import ThreadContext

TAIL: Final = 2_000
"""Characters of a command's output that are kept."""
MOST: Final = 50
"""Most commands of agents that are kept."""
_ENDING: Final = 30.0
"""Seconds that ending a command may take after it ran out of time."""


async def commands_run(context: ThreadContext, session: SessionId) -> list[Json]:
    """Return the commands that a session and its sub-agents ran: agent, command (redacted), exit_code, output_sha256.

    They are taken from the transcripts. Commands that only read are left out. Of each command the last run counts, and
    only the last MOST commands are returned.
    """
    from bot.agent.permissions.shell_policy import is_read_only

    sessions = [("main", lines := await _lines(context, session))]
    sessions += [(agent, await _lines(context, ident)) for agent, ident in subagents_of(lines)]
    ran: dict[tuple[str, str], Json] = {}
    for agent, messages in sessions:
        for command, code, output in commands_of(all_messages(messages)):
            if not is_read_only(command):
                ran.pop((agent, command), None)
                redacted = context.redactor.redact(command)[:TAIL]
                digest = hashlib.sha256(output.encode("utf-8", "surrogatepass")).hexdigest()
                row = {"agent": agent, "command": redacted, "exit_code": code, "output_sha256": digest}
                ran[agent, command] = row
    return [*ran.values()][-MOST:]


async def _lines(context: ThreadContext, session: SessionId) -> tuple[Line, ...]:
    """Return the lines of a session; none if they cannot be read, because that must not fail finished work."""
    with suppress(PlangateError):
        return await read_transcript(context, session)
    return ()


@asynccontextmanager
async def command_sandbox(
    context: ThreadContext, state: ThreadState, tree: Checkout, name: str, *, hosts: tuple[str, ...]
) -> AsyncIterator[Toolhost]:
    """Yield a sandbox on a checkout that can reach those hosts. Its network decisions are journaled under `name`."""
    async with (
        journal_network(context, state, SessionId(name)) as network_log,
        toolhost(context, tree, Access.WRITE, Network(hosts, network_log.record)) as host,
    ):
        yield host


async def run_command(
    context: ThreadContext, host: Toolhost, command: str, *, below: str = "", most: float = math.inf
) -> tuple[Json, str]:
    """Run one command, in a folder if one is named, and return how it ended and all of its output, redacted.

    It may take `sandbox.minutes`; `most` is a further time limit, in seconds.
    """
    seconds = min(context.settings.command_minutes * 60, most)
    output = await call_bash(host, f"cd {quote(below)}\n{command}" if below else command, seconds)
    text = hear_output(context, output.text)
    facts = {
        "command": command,
        "exit_code": output.details.get("exit_code"),
        "seconds": output.details.get("seconds"),
        "output": text[-TAIL:],
    }
    return facts, text


async def call_bash(host: Toolhost, command: str, seconds: float) -> ToolOutput:
    """Run a command for at most so many seconds."""
    call_input = {"command": command, "timeout": int(seconds * 1000)}
    return await host.call("Bash", call_input, timeout=seconds + _ENDING)


def hear_output(context: ThreadContext, text: str) -> str:
    """Return the output of a command, redacted. Raises CanaryShown first if it contains a planted decoy."""
    context.resources.alarm.check_text(text)
    return context.redactor.redact(text)


async def run_commands(
    context: ThreadContext, host: Toolhost, commands: Iterable[str], *, seconds: float | None
) -> list[Json]:
    """Run commands one after the other, within `seconds` in all; None for no limit.

    Return the results of the commands that were not cut short.
    """
    clock, results = context.resources.clock, list[Json]()
    end = math.inf if seconds is None else clock.monotonic() + seconds
    for command in commands:
        if (seconds_left := end - clock.monotonic()) > 0:
            facts, _ = await run_command(context, host, command, most=seconds_left)
            results += [facts] if facts["exit_code"] is not None or clock.monotonic() < end else []
    return results
