"""Runs the checks before the work and after it, and hands failing work back to its session (K4, K5).

Rules
- The checks are the plan's commands and `execution.verify`. After the work they run on a frozen copy of it, in a
  sandbox of their own: what they write is not published, and publishing refuses another tree (G3a).
- Before the work they run on a copy of the untouched checkout, and take at most a part of the session's time.
- The transcript is the source of truth. It keeps the results before the work, and counting its messages tells how often
  work was handed back. After a crash anywhere, the next process verifies again and hands nothing back twice.
- A check that failed before the work and is not a command of the plan is never handed back, nor one that the sandbox
  cannot run.
"""

import secrets
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bot.agent.history.escaping import escape_harness_markup
from bot.agent.permissions.plan_mode import pending_plan_call
from bot.agent.prompts import reminder_text
from bot.agent.session import Session
from bot.core.checks import (
    FAILING,
    OUTSIDE,
    CheckState,
    baseline_text,
    failures_text,
    head_and_tail,
    outputs_text,
    outside_text,
    state_of,
)
from bot.core.errors import Refused
from bot.core.names import SessionId
from bot.core.thread.state import ThreadState
from bot.core.transcript import Json, Line, all_messages, notes_of
from bot.core.work import Checkout
from bot.ports import Toolhost
from bot.workflow.execution.command_runs import command_sandbox, run_command, run_commands
from bot.workflow.execution.set_up import hosts, leftovers
from bot.workflow.journal.writing import read_state
from bot.workflow.session.saved_work import checkout, read_transcript
from bot.workflow.thread_context import ThreadContext

SHARE: Final = 4
"""The checks before the work may take this fraction (1/N) of a session's time."""
NO_TIME: Final = "they would have taken too much of the session's time"
NOT_KNOWN: Final = "the work had begun before"

BASELINE: Final = "baseline"
"""Kind of the transcript note that holds the results of the checks before the work."""
_KEPT: Final = 500
"""Characters that the journal keeps of a command's output before the work."""
_REMINDER: Final = reminder_text("").partition("\n")[0] + "\n"
"""How a reminder begins."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The results of the checks on the finished work."""

    checks: tuple[Json, ...] = ()
    """In the form that the journal holds (core/checks.py)."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """The output of each command, cut in the middle."""
    tree: str = ""
    """The git tree that they ran on; "" if there are no checks."""
    outside: tuple[str, ...] = ()
    """The changed paths that the plan does not name."""
    no_baseline: str = ""
    """Why a check did not run before the work; "" if all did."""


def check_commands(context: ThreadContext, state: ThreadState) -> tuple[str, ...]:
    """List the checks: the plan's commands, and the project's own."""
    return tuple(dict.fromkeys((*state.plan.current.contract.commands, *context.settings.verify)))


async def measure_baseline(context: ThreadContext, state: ThreadState, session: Session) -> bool:
    """Run the checks on the untouched checkout, once in a session, and keep their results in the transcript.

    Return True.
    """
    commands = check_commands(context, state)
    if not commands or not _is_untouched(session) or _baseline(await read_transcript(context, session.id)) is not None:
        return True
    copy = await context.workspace.fork(await checkout(context, state), f"base-{secrets.token_hex(4)}")
    try:
        async with _sandbox(context, state, copy) as host:
            seconds = context.settings.limits.seconds
            results = await run_commands(context, host, commands, seconds=None if seconds is None else seconds / SHARE)
    finally:
        await context.workspace.discard(copy)
    session.note(BASELINE, {"checks": results})
    return True


async def baseline_reminders(context: ThreadContext, session: Session) -> list[str]:
    """Return a reminder of the checks' results before the work; none if the session already has it."""
    has_begun = any(message["role"] == "assistant" for message in session.history)
    if not _is_untouched(session) or (not has_begun and len(session.history) > 1):
        return []
    results = _baseline(await read_transcript(context, session.id))
    return [reminder_text(escape_harness_markup(baseline_text(results)))] if results else []


async def verify(context: ThreadContext, state: ThreadState, session: SessionId) -> Verification:
    """Run the checks on a frozen copy of the work. Raises Refused if it cannot be copied or published."""
    commands, work = check_commands(context, state), await checkout(context, state)
    setup_files = leftovers(await read_state(context))
    if not commands:
        with suppress(Refused):  # publishing reports it
            paths = await context.workspace.changed_paths(work)
            return Verification(outside=_outside(state, set(paths) - set(setup_files)))
        return Verification()
    frozen = await context.workspace.freeze(work, f"checks-{secrets.token_hex(4)}", setup_files)
    try:
        async with _sandbox(context, state, frozen.checkout) as host:
            ran = [await run_command(context, host, line) for line in commands]
    finally:
        await context.workspace.discard(frozen.checkout)
    before = _baseline(await read_transcript(context, session))
    results_before = {check["command"]: _result(check) for check in before or ()}
    return Verification(
        tuple(
            check | ({"before": results_before[line]} if (line := check["command"]) in results_before else {})
            for check, _ in ran
        ),
        {check["command"]: head_and_tail(output) for check, output in ran},
        frozen.tree,
        _outside(state, frozen.paths),
        NOT_KNOWN if before is None else "" if results_before.keys() >= set(commands) else NO_TIME,
    )


async def hand_back(
    context: ThreadContext, state: ThreadState, session: SessionId, verified: Verification
) -> Json | None:
    """Return the message that hands failing work back to the session, or None if the work stands as it is.

    An amendment was approved with its exact tree, so nothing of it is handed back.
    """
    if state.plan.current.tree:
        return None
    messages = all_messages(await read_transcript(context, session))
    earlier = [begin for message in messages for begin in _reminder_beginnings(message)]
    failing = _to_repair(state, verified) if earlier.count(FAILING) < context.settings.repairs else []
    texts = list[str]()
    if failing:
        passed = [check for check in verified.checks if state_of(check) is CheckState.PASSED]
        others = [check for check in verified.checks if check not in (*failing, *passed)]
        texts.append(reminder_text(escape_harness_markup(failures_text(failing, others))))
        texts.append(escape_harness_markup(outputs_text(failing, verified.outputs)))
    if verified.outside and OUTSIDE not in earlier:
        texts.append(reminder_text(escape_harness_markup(outside_text(verified.outside))))
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]} if texts else None


def _to_repair(state: ThreadState, verified: Verification) -> list[Json]:
    """List the checks that the work broke, and the plan's own checks that fail after it."""
    proofs = {CheckState.FAILED, CheckState.FAILED_BEFORE}
    repairable = dict.fromkeys(state.plan.current.contract.commands, proofs)
    return [
        check for check in verified.checks if state_of(check) in repairable.get(check["command"], {CheckState.FAILED})
    ]


def _reminder_beginnings(message: Json) -> list[str]:
    """List the kinds of this module's reminders in a message, each by the words with which it begins."""
    if message["role"] != "user" or isinstance(message["content"], str):
        return []
    texts = [str(block.get("text", "")) for block in message["content"]]
    return [begin for text in texts for begin in (FAILING, OUTSIDE) if text.startswith(_REMINDER + begin)]


def _is_untouched(session: Session) -> bool:
    """Return whether the session has not begun to work: it is new, or its plan was approved just now."""
    has_begun = any(message["role"] == "assistant" for message in session.history)
    return not has_begun or pending_plan_call(session.history) is not None


def _baseline(lines: Iterable[Line]) -> list[Json] | None:
    """Return the results of the checks before the work; None if they did not run then."""
    return next((list(note["checks"]) for note in notes_of(lines, BASELINE)), None)


def _result(check: Json) -> Json:
    """Return the part of a check's result before the work that the journal keeps."""
    return {key: check[key] for key in ("exit_code", "seconds")} | {"output": check["output"][-_KEPT:]}


def _outside(state: ThreadState, paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(path for path in paths if not state.plan.current.contract.reaches(path)))


def _sandbox(context: ThreadContext, state: ThreadState, copy: Checkout) -> AbstractAsyncContextManager[Toolhost]:
    """Return a separate sandbox on a copy. It can reach the hosts that approved work may reach."""
    return command_sandbox(context, state, copy, Path(copy.path).parent.name, hosts=hosts(context, state))
