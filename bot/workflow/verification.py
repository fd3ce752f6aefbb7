"""What surrounds approved work: set-up, commands, and checks before and after it (K4, K5)."""

import hashlib
import math
import re
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Final

from bot.agent.permissions.plan_mode import pending_plan_call
from bot.agent.prompts import reminder_text
from bot.agent.session import Session
from bot.agent.subagents.assignment import subagents_of
from bot.core.brief import escape_harness_markup
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
from bot.core.errors import Misconfigured, PlangateError, Refused
from bot.core.names import SessionId
from bot.core.network import Network, reachable_hosts
from bot.core.notes import Prepared
from bot.core.thread.state import ThreadState
from bot.core.transcript import Json, Line, all_messages, commands_of, notes_of
from bot.core.work import Checkout
from bot.ports import Access, Toolhost, ToolOutput
from bot.workflow.main_session import checkout, journal_network, read_transcript, run_until_moved, toolhost
from bot.workflow.thread_run import ThreadRun

# --- Commands that people chose, and those that agents ran

TAIL: Final = 2_000
"""Characters of a command's output that are kept."""
MOST_COMMANDS: Final = 50
"""Maximum number of agents' commands that are kept."""
_ENDING: Final = 30.0
"""Seconds that ending a command may take after it ran out of time."""


async def commands_run(run: ThreadRun, session: SessionId) -> list[Json]:
    """Return the commands that a session and its sub-agents ran: agent, command (redacted), exit_code, output_sha256.

    They are taken from the transcripts. Commands that only read are left out. Of each command the last run counts, and
    only the last MOST_COMMANDS are returned.
    """
    from bot.agent.permissions.shell_policy import is_read_only

    sessions = [("main", lines := await _lines(run, session))]
    sessions += [(agent, await _lines(run, ident)) for agent, ident in subagents_of(lines)]
    ran: dict[tuple[str, str], Json] = {}
    for agent, messages in sessions:
        for command, exit_code, output in commands_of(all_messages(messages)):
            if not is_read_only(command):
                ran.pop((agent, command), None)
                redacted = run.redactor.redact(command)[:TAIL]
                digest = hashlib.sha256(output.encode("utf-8", "surrogatepass")).hexdigest()
                row = {"agent": agent, "command": redacted, "exit_code": exit_code, "output_sha256": digest}
                ran[agent, command] = row
    return [*ran.values()][-MOST_COMMANDS:]


async def _lines(run: ThreadRun, session: SessionId) -> tuple[Line, ...]:
    """Return the lines of a session; none if they cannot be read, because that must not fail finished work."""
    with suppress(PlangateError):
        return await read_transcript(run, session)
    return ()


@asynccontextmanager
async def command_sandbox(
    run: ThreadRun, tree: Checkout, name: str, *, hosts: tuple[str, ...]
) -> AsyncIterator[Toolhost]:
    """Yield a sandbox on a checkout that can reach those hosts. Its network decisions are journaled under `name`."""
    async with (
        journal_network(run, SessionId(name)) as network_log,
        toolhost(run, tree, Access.WRITE, Network(hosts, network_log.record)) as host,
    ):
        yield host


async def run_command(
    run: ThreadRun, host: Toolhost, command: str, *, below: str = "", most: float = math.inf
) -> tuple[Json, str]:
    """Run one command, in a folder if one is named, and return how it ended and all of its output, redacted.

    It may take `sandbox.minutes`; `most` is a further time limit, in seconds.
    """
    seconds = min(run.configuration.sandbox.minutes * 60, most)
    output = await call_bash(host, f"cd {quote(below)}\n{command}" if below else command, seconds)
    text = hear_output(run, output.text)
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


def hear_output(run: ThreadRun, text: str) -> str:
    """Return the output of a command, redacted. Raises CanaryShown if it contains a canary."""
    run.resources.alarm.check_text(text)
    return run.redactor.redact(text)


async def run_commands(run: ThreadRun, host: Toolhost, commands: Iterable[str], *, seconds: float | None) -> list[Json]:
    """Run commands one after the other, within `seconds` in all; None for no limit.

    Return the results of the commands that were not cut short.
    """
    clock, results = run.clock, list[Json]()
    end = math.inf if seconds is None else clock.monotonic() + seconds
    for command in commands:
        if (seconds_left := end - clock.monotonic()) > 0:
            facts, _ = await run_command(run, host, command, most=seconds_left)
            results += [facts] if facts["exit_code"] is not None or clock.monotonic() < end else []
    return results


# --- Set-up commands of the default branch's configuration
# - They run in a sandbox after a plan was approved, and can reach the hosts that both it and the configuration name
#   (N1a). The plan always includes the configuration's hosts, so that its approvers see them.
# - They run once in each checkout. The session, its sub-agents, and the checks find the files that they leave.
# - Files that they leave and that git does not ignore are not published, unless the work changed them too.

KEY: Final = "sandbox.setup in .github/plangate.yml"
MOST_LEFTOVERS: Final = 50
"""Files that git does not ignore and that set-up commands may leave."""
_SHOWN: Final = 500
_MARK: Final = ".git/plangate-prepared"
"""The file in a checkout that records which commands ran. A session that writes to it harms only that checkout."""
_LEFT: Final = """git ls-files -z --modified --others --exclude-standard | sort -zu | xargs -0r sh -c '
for f; do
  if [ -L "$f" ]; then id=$(readlink -n -- "$f" | git hash-object --stdin)
  else id=$(git hash-object --no-filters -- "$f" 2>/dev/null || echo gone)
  fi
  printf "%s %s\\n" "$id" "$f"
done' sh"""
_LINE: Final = re.compile(r"([0-9a-f]{40}|gone) (.+)")


def hosts(run: ThreadRun) -> tuple[str, ...]:
    """List the hosts that approved work may reach: those in both its plan and the configuration (N1a)."""
    plan, configured = run.state.plan.current, run.configuration.sandbox.hosts
    return reachable_hosts(plan.contract.hosts, configured, plan.tier)


async def prepare(run: ThreadRun) -> bool:
    """Run the set-up commands in a checkout that has not had them. Return False if the thread was moved meanwhile.

    Raises Misconfigured if a command fails, or leaves too many files that git does not ignore.
    """
    if not run.configuration.sandbox.setup:
        return True
    return bool(await run_until_moved(run, _run_setup(run)))


def leftovers(state: ThreadState) -> dict[str, str]:
    """Return the files that the set-up commands left and git does not ignore: path -> blob id, or ``gone``."""
    return {} if state.request.setup is None else state.request.setup.left


async def _run_setup(run: ThreadRun) -> bool:
    tree, commands = await checkout(run), run.configuration.sandbox.setup
    async with command_sandbox(run, tree, "setup", hosts=hosts(run)) as host:
        mark = hashlib.sha256("\n".join(commands).encode()).hexdigest()
        if await _command_output(host, tree, f"cat {_MARK}") != mark:
            results = [await _run_setup_command(run, host, command, tree) for command in commands]
            if run.state.request.setup is None:  # no work was done yet: the commands caused every difference
                await _journal_leftovers(run, await _command_output(host, tree, _LEFT), results)
            await _command_output(host, tree, f"printf %s {mark} > {_MARK}")
    return True


async def _run_setup_command(run: ThreadRun, host: Toolhost, command: str, tree: Checkout) -> Json:
    facts, _ = await run_command(run, host, command, below=tree.shown_as)
    if facts["exit_code"] != 0:
        output = " ".join(facts["output"].split())[-_SHOWN:]
        raise Misconfigured(f"the set-up command {command!r} failed: {output}", where=KEY, fix="fix it, then retry")
    return facts


async def _journal_leftovers(run: ThreadRun, listed: str, results: Sequence[Json]) -> None:
    left = {path: blob for blob, path in _LINE.findall(listed)}
    if len(left) > MOST_LEFTOVERS:
        some = ", ".join([*left][:3])
        what = f"the set-up commands left {len(left)} files that git does not ignore ({some} ...)"
        raise Misconfigured(what, where=KEY, fix="add them to .gitignore, then retry")
    await run.beside().note(Prepared(commands=tuple(results), left=left))


async def _command_output(host: Toolhost, tree: Checkout, command: str) -> str:
    return (await host.call("Bash", {"command": f"cd {quote(tree.shown_as)} && {command}"})).text


# --- Checks before and after the work, and repairs (K4, K5)
# - The checks are the plan's commands and `execution.verify`. After the work they run on a frozen copy of it, in a
#   sandbox of their own: what they write is not published, and publishing refuses another tree (G3a).
# - Before the work they run on a copy of the untouched checkout, and take at most a part of the session's time.
# - The transcript is the source of truth: it keeps the results before the work, and tells how often work was handed
#   back. After a crash anywhere, the next process verifies again and hands nothing back twice.
# - A check that failed before the work and is not a command of the plan is never handed back, nor one that the sandbox
#   cannot run.

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


def check_commands(run: ThreadRun) -> tuple[str, ...]:
    """List the checks: the plan's commands, and the project's own."""
    return tuple(dict.fromkeys((*run.state.plan.current.contract.commands, *run.configuration.execution.verify)))


async def measure_baseline(run: ThreadRun, session: Session) -> bool:
    """Run the checks on the untouched checkout, once in a session, and keep their results in the transcript."""
    commands = check_commands(run)
    if not commands or not _is_untouched(session) or _baseline(await read_transcript(run, session.id)) is not None:
        return True
    copy = await run.workspace.fork(await checkout(run), f"base-{secrets.token_hex(4)}")
    try:
        async with _sandbox(run, copy) as host:
            seconds = run.configuration.budget.minutes * 60 / SHARE
            results = await run_commands(run, host, commands, seconds=seconds)
    finally:
        await run.workspace.discard(copy)
    session.note(BASELINE, {"checks": results})
    return True


async def baseline_reminders(run: ThreadRun, session: Session) -> list[str]:
    """Return a reminder of the checks' results before the work; none if the session already has it."""
    has_begun = any(message["role"] == "assistant" for message in session.history)
    if not _is_untouched(session) or (not has_begun and len(session.history) > 1):
        return []
    results = _baseline(await read_transcript(run, session.id))
    return [reminder_text(escape_harness_markup(baseline_text(results)))] if results else []


async def verify(run: ThreadRun, session: SessionId) -> Verification:
    """Run the checks on a frozen copy of the work. Raises Refused if it cannot be copied or published."""
    commands, work = check_commands(run), await checkout(run)
    setup_files = leftovers(await run.journal.read())
    if not commands:
        with suppress(Refused):  # publishing reports it
            paths = await run.workspace.changed_paths(work)
            return Verification(outside=_outside(run.state, set(paths) - set(setup_files)))
        return Verification()
    frozen = await run.workspace.freeze(work, f"checks-{secrets.token_hex(4)}", setup_files)
    try:
        async with _sandbox(run, frozen.checkout) as host:
            ran = [await run_command(run, host, line) for line in commands]
    finally:
        await run.workspace.discard(frozen.checkout)
    before = _baseline(await read_transcript(run, session))
    results_before = {check["command"]: _result(check) for check in before or ()}
    return Verification(
        tuple(
            check | ({"before": results_before[line]} if (line := check["command"]) in results_before else {})
            for check, _ in ran
        ),
        {check["command"]: head_and_tail(output) for check, output in ran},
        frozen.tree,
        _outside(run.state, frozen.paths),
        NOT_KNOWN if before is None else "" if results_before.keys() >= set(commands) else NO_TIME,
    )


async def hand_back(run: ThreadRun, session: SessionId, verified: Verification) -> Json | None:
    """Return the message that hands failing work back to the session, or None if the work stands as it is.

    An amendment was approved with its exact tree, so nothing of it is handed back.
    """
    if run.state.plan.current.tree:
        return None
    messages = all_messages(await read_transcript(run, session))
    earlier = [begin for message in messages for begin in _reminder_beginnings(message)]
    failing = _to_repair(run.state, verified) if earlier.count(FAILING) < run.configuration.execution.repairs else []
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
    """List how the reminders in a message begin that hand work back."""
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


def _sandbox(run: ThreadRun, copy: Checkout) -> AbstractAsyncContextManager[Toolhost]:
    return command_sandbox(run, copy, Path(copy.path).parent.name, hosts=hosts(run))
