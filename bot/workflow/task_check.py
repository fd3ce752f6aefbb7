"""Runs the check of a scheduled task, and returns whether there may be something to do (MT4).

Rules
- A check is a shell command, or ``github:NAME``. A command runs in the sandbox, on a checkout that is discarded.
- Exit code 0 without output means that there is nothing to do, and exit code 75 that the check could not run.
- The output of a check that asks GitHub, or that can reach a host, counts as strangers' words (`core.entrances`).
- A check that could not run, does not end, or prints too much has a problem, and begins no session.
"""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from bot.core.entrances import Entrance
from bot.core.errors import PlangateError
from bot.core.github_check import GITHUB_CHECK, parse_github_check
from bot.core.maintenance import CheckResult, ScheduledTask
from bot.ports import Toolhost
from bot.workflow.execution.command_runs import call_bash, command_sandbox, hear_output
from bot.workflow.journal.writing import read_state
from bot.workflow.thread_context import ThreadContext

PRINTED_SHOWN: Final = 10_000
"""Characters of a check's output that the planner sees."""
MOST_PRINTED: Final = 1_000_000
"""Maximum characters that a check may print. Longer output cannot be a list of things to do."""
_NO_PROGRAM: Final = frozenset({126, 127})
"""Exit codes of a shell that cannot run a program."""
_CANNOT_RUN: Final = 75
"""Exit code by which a check says that it could not run: EX_TEMPFAIL of sysexits.h."""
_PROBLEM_SHOWN: Final = 300
_SILENT: Final = "(no output)"


async def run_check(context: ThreadContext, task: ScheduledTask) -> CheckResult:
    """Run a task's check in the sandbox, on a checkout that is discarded. It can reach the hosts of `sandbox.hosts`.

    A task without a check always has something to do.
    """
    if not task.check:
        return CheckResult(found=True)
    if task.check.startswith(GITHUB_CHECK):
        return await _ask_github(context, task.check)
    place, minutes = context.location, context.settings.command_minutes
    tree = await context.workspace.checkout(f"check-{place.repository}-{place.thread}", place.base, fresh=True)
    try:
        state = await read_state(context)
        async with command_sandbox(context, state, tree, "check", hosts=context.settings.hosts) as host:
            checked = await run_shell_check(host, task.check, minutes=minutes, redact=partial(hear_output, context))
        entrance = Entrance.NETWORK_CHECK if context.settings.hosts else Entrance.OFFLINE_CHECK
        return replace(checked, strangers=entrance.brings_strangers)
    except PlangateError as error:
        return CheckResult(problem=str(error))
    finally:
        await context.workspace.discard(tree)


async def run_shell_check(host: Toolhost, check: str, *, minutes: float, redact: Callable[[str], str]) -> CheckResult:
    """Run a shell command as a check, for at most so many minutes. `redact` removes secrets from what it printed."""
    command = f"bash -n -c {shlex.quote(check)} || exit {_CANNOT_RUN}\n(\n{check}\n)"
    output = await call_bash(host, command, minutes * 60)
    printed = redact(output.text).strip()
    if problem := _problem(output.details, printed, minutes):
        return CheckResult(problem=problem)
    if output.details["exit_code"] == 0 and printed.startswith(_SILENT):
        return CheckResult()
    return CheckResult(found=True, printed=_first_lines(printed))


def _problem(details: Mapping[str, Any], printed: str, minutes: float) -> str:
    """Return why a command that ended like this cannot count as a check that ran; "" if it counts."""
    code, characters = details.get("exit_code"), details.get("characters", 0)
    lines = printed.splitlines() or [""]
    ending = " ".join(printed.removesuffix(f"exit code {code}").split())[-_PROBLEM_SHOWN:] or f"exit code {code}"
    if characters > MOST_PRINTED:
        return f"it printed {characters:,} characters; let it print only what there is to do (at most {MOST_PRINTED:,})"
    if details.get("ended") == "timeout":
        return f"it did not end within {minutes:g} {'minute' if minutes == 1 else 'minutes'} (sandbox.minutes)"
    if code is None:  # the last line says which limit ended it
        return f"it was ended: {lines[-1].removesuffix(': all of it was ended')}"[:_PROBLEM_SHOWN]
    if code == _CANNOT_RUN:
        return ending
    return f"a program is missing: {ending}" if code in _NO_PROGRAM else ""


def _first_lines(printed: str) -> str:
    """Return the first lines of a check's output, and a line that says so if there are more."""
    if len(printed) <= PRINTED_SHOWN:
        return printed
    lines = printed[:PRINTED_SHOWN].rpartition("\n")[0] or printed[:PRINTED_SHOWN]
    return f"{lines}\n(the check printed more)"


async def _ask_github(context: ThreadContext, check: str) -> CheckResult:
    """Run a check that asks GitHub: ``github:NAME --option value ...``."""
    try:
        name, options = parse_github_check(check)
        printed = await context.tasks.run_check(name, options, context.location.base)
    except PlangateError as error:
        return CheckResult(problem=str(error))
    strangers = Entrance.GITHUB_CHECK.brings_strangers
    return CheckResult(found=bool(printed), printed=_first_lines(printed), strangers=strangers)
