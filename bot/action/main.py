"""GitHub Actions: checks the thread of one event until it rests, then every waiting thread. SHELL."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Final, TextIO

from bot.action.report import outputs, receipt_path, summary, verify_pull_request
from bot.action.runner import Runner
from bot.clock import SystemClock
from bot.compose.github import HostSetup, refuse_thread, repository_of, thread_of
from bot.compose.local import try_sandbox
from bot.compose.sweep import SWEEP, SweepSwitch, sweep_switch
from bot.config.action_inputs import ActionSettings, NoModelKey, action
from bot.config.environment import environment_variables, log_style, redactor_for
from bot.core.errors import Conflict, Misconfigured, PlangateError
from bot.core.gate import ON_ENTER, WAITS_FOR_PEOPLE, Stage
from bot.core.markdown.elements import code
from bot.core.names import ThreadAddress
from bot.core.thread.state import ThreadState
from bot.github.deliveries import EVENTS, parse_delivery
from bot.logs import setup
from bot.ports import Clock
from bot.service.github_host import GitHubHost
from bot.service.maintenance_pass import run_periodic_work
from bot.service.reconcile import unreported_threads

# --- What a job prepares before it works ------------------------------------------------------------------------------
# Most jobs only read, and install nothing. A job that has work prepares the machine for a sandbox, and switches the
# sweep on. It stays on while the job works, so that the work of a job that dies is found soon, and at the end it stays
# on if something waits for people.

_SECONDS: Final = 120
"""Seconds after which the script is ended. It limits itself to less."""
_COSTS: Final = (
    "A 👍 is then found only by the daily run or beside another event; a ticked box or a comment is still seen at once."
)


@dataclass(slots=True)
class Preparation:
    """What one job has prepared. `switch` is None where nobody can switch the sweep."""

    given: ActionSettings
    runner: Runner
    switch: SweepSwitch | None = None
    _began: bool = field(default=False, init=False)

    async def before_work(self) -> None:
        """Keep the sweep on, and prepare the machine for a sandbox. Does this once in a job, and never raises."""
        if self._began:
            return
        self._began = True
        if self.switch is not None:
            try:
                await self.switch.turn(on=True)
            except PlangateError as error:  # reported at the end if something waits then
                self.runner.say(f"plangate: the scheduled check was not switched on: {error}")
        if self.given.sandbox_script is not None:
            for line in await asyncio.to_thread(_run_script, self.given):
                self.runner.warning(line)

    async def turn_sweep(self, *, on: bool) -> None:
        """Switch the sweep on or off. If that fails, print once what the failure costs."""
        if self.switch is None:
            return
        try:
            await self.switch.turn(on=on)
        except PlangateError as error:
            if on:
                fix = f"add {SWEEP} (`plangate init` writes it), and grant this job `actions: write`"
                warning = f"The scheduled check cannot be switched on: {error.what}. {_COSTS} To fix it, {fix}."
                self.runner.warning(warning)
                self.runner.add_summary(f"> {warning}", self.given.summary)


def preparation(action: ActionSettings, runner: Runner) -> Preparation:
    at, token = repository_of(action.repository), action.job_token
    return Preparation(action, runner, sweep_switch(action.settings, at, token) if token else None)


def _run_script(action: ActionSettings) -> list[str]:
    """Run the script, and return one line for each thing that it could not do."""
    try:
        result = subprocess.run(
            ["bash", str(action.sandbox_script)],
            env={"PATH": action.settings.path},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"the sandbox was not set up: {error}"]
    return result.stderr.splitlines()


# --- One event: its thread first, then every waiting thread -----------------------------------------------------------
# A job that only reads comments does so while another job works on the thread. A sweep skips threads that another job
# works on. It continues threads that wait for approval, requests that this run took in, and work or texts that a dead
# job did not post. A scheduled run also finds comments that no event reported.

FAILED: Final = 5
TRIES: Final = 5
POLLS_A_LOOK: Final = 4
"""While waiting, every fourth poll is a whole check: polling finds reactions and edits for 1 point, but no comments."""


@dataclass(frozen=True, slots=True)
class ActionJob:
    """One run of the Action, with everything that it works with."""

    host: GitHubHost
    given: ActionSettings
    runner: Runner
    clock: Clock = field(default_factory=SystemClock)
    unreported_threads: Callable[[], Awaitable[Sequence[ThreadAddress]]] | None = None
    """Returns the threads with a comment that no event reported (W3)."""
    maintain: Callable[[], Awaitable[None]] | None = None
    """Runs the scheduled tasks that are due (MT10)."""
    preparation: Preparation | None = None


def run(out: TextIO, environ: Mapping[str, str] | None = None) -> int:
    """Execute one run of the Action. Return its exit code: 0, 2 misconfigured, 5 failed, 6 no sandbox."""
    runner, settings = Runner(out, redactor_for(environ=environ)), None
    try:
        settings = action(environ)
        runner.mask(secret.reveal() for secret in settings.secrets)
        runner.ignore_foreign_commands()
        setup(*log_style(environ), redactor=runner.redactor, out=runner)
        if settings.verify:
            return verify_pull_request(settings, runner)
        return asyncio.run(_open(settings, runner))
    except PlangateError as error:
        if isinstance(error, NoModelKey):
            with suppress(PlangateError):
                settings = _refuse(error, environ, runner)
        runner.error(str(error))
        if settings is not None:
            runner.add_summary(f"### Plangate could not continue\n\n{code(str(error))}", settings.summary)
        return error.exit_code


def _refuse(error: NoModelKey, environ: Mapping[str, str] | None, runner: Runner) -> ActionSettings:
    """Post on the event's thread why the Action cannot work, if GitHub allows that, and return the settings.

    A placeholder stands in for the missing key. It encrypts nothing, because no journal is read or written.
    """
    settings = action({**environment_variables(environ), "INPUT_ANTHROPIC_API_KEY": "a text that is no key"})
    runner.mask(secret.reveal() for secret in settings.secrets)
    runner.ignore_foreign_commands()

    async def tell() -> None:
        number, _ = thread_in(settings)
        async with HostSetup(settings.settings, (repository_of(settings.repository),)) as host:
            if number:
                await refuse_thread(host, await thread_of(host, settings.repository, number), str(error))

    with suppress(PlangateError):
        asyncio.run(tell())
    return settings


async def _open(action: ActionSettings, runner: Runner) -> int:
    number, comment = thread_in(action)
    prepared, only = preparation(action, runner), (repository_of(action.repository),)
    async with HostSetup(action.settings, only, run=action.run, before_work=prepared.before_work) as host:
        address = replace(await thread_of(host, action.repository, number), told=comment) if number else None
        job = ActionJob(
            host,
            action,
            runner,
            unreported_threads=partial(unreported_threads, host),
            maintain=partial(run_periodic_work, host),
            preparation=prepared,
        )
        return await run_job(job, address)


def _thread_of_outputs(
    action: ActionSettings, checked: Sequence[tuple[ThreadAddress, ThreadState]], reported: ThreadAddress | None
) -> tuple[ThreadAddress, ThreadState] | tuple[None, None]:
    """Return the thread that the outputs are about: the event's, else the first that got a pull request, else any."""
    published = [] if reported else [pair for pair in checked if receipt_path(action, pair[1])]
    return next(iter((*published, *checked)), (None, None))


def thread_in(action: ActionSettings) -> tuple[int, str]:
    """Return the number of the event's thread, or 0 if it has none, and the key of the reported turn ("" for none).

    Raises Misconfigured.
    """
    try:
        body = action.event_path.read_bytes()
        if action.event in EVENTS:
            wake = parse_delivery(action.event, body)
            if wake is None or (action.event, wake.action) == ("issues", "edited"):
                return 0, ""  # a box of a tracking issue was ticked; the scheduled tasks read it
            return wake.thread or 0, wake.told
        # A run started by hand, or by a job without secrets, may name a thread.
        inputs = json.loads(body).get("inputs") or {}
        return int(str(inputs.get("thread") or "0")), ""
    except (OSError, ValueError, AttributeError) as error:
        raise Misconfigured(
            f"the event cannot be read: {error}", where="GITHUB_EVENT_PATH", fix="run this in a job of GitHub Actions"
        ) from error


async def run_job(job: ActionJob, address: ThreadAddress | None) -> int:
    """Check the event's thread, then sweep. Write outputs and summary, and return the exit code."""
    began = job.clock.now()
    checked = [(address, await _advance_thread(job, address))] if address is not None else []
    if not (job.given.only_listen or job.given.dry_run):
        checked += [pair async for pair in _check_others(job, address)]
        if address is None and job.maintain is not None:
            await job.maintain()
        if job.preparation is not None:
            await job.preparation.turn_sweep(on=await job.host.waits())
    for at, state in checked:
        job.runner.add_summary(summary(job.given, at, state), job.given.summary)
        job.runner.say(f"plangate: #{at.number} is at: {state.stage}")
    job.runner.outputs(outputs(job.given, *_thread_of_outputs(job.given, checked, address)), job.given.output)
    failures = [at.number for at, state in checked if _failed_in_this_run(state, began)]
    for number in failures:
        job.runner.error(f"the work on #{number} failed; the thread says why")
    if failures:
        await asyncio.to_thread(try_sandbox)  # reports a machine without a sandbox by its own exit code (D1)
    return FAILED if failures else 0


async def _advance_thread(job: ActionJob, address: ThreadAddress) -> ThreadState:
    """Check the event's thread as far as this job may, and wait for its approval as long as configured."""
    if job.given.only_listen:
        return await job.host.read_comments(address)
    if job.given.dry_run:
        state = await job.host.read_comments(address)
        return await _retry_on_conflict(job, address) if state.stage in {Stage.PLANNING, Stage.PROPOSING} else state
    state = await _retry_on_conflict(job, address)
    until, polls = job.clock.monotonic() + job.given.wait_minutes * 60, 0
    while state.stage in WAITS_FOR_PEOPLE and job.clock.monotonic() < until:
        await job.clock.sleep(job.given.settings.github.poll_seconds)
        polls += 1
        if await job.host.changed_threads((address,)) or polls % POLLS_A_LOOK == 0:
            state = await _retry_on_conflict(job, address)
    return state


async def _retry_on_conflict(job: ActionJob, address: ThreadAddress) -> ThreadState:
    """Check a thread. Retries after Conflict, because a job that only reads comments may have written first."""
    for seconds in range(1, TRIES):
        try:
            return await job.host.check_thread(address)
        except Conflict:
            await job.clock.sleep(seconds)
    return await job.host.check_thread(address)


async def _check_others(job: ActionJob, own: ThreadAddress | None) -> AsyncIterator[tuple[ThreadAddress, ThreadState]]:
    """Check every other thread that no job works on, and yield it. A failure does not stop the others."""
    every = dict.fromkeys(await job.host.open_threads())
    if own is None:  # only on schedule: an event's own thread should not wait for this
        every |= dict.fromkeys(await _unreported_threads(job))
    for address in every:
        if address.full_name.lower() != job.given.repository.lower():
            continue
        if own is not None and address.number == own.number:
            continue
        try:
            state = await job.host.read_comments(address)
            if await _is_unattended(job, address, state):
                yield address, await job.host.check_thread(address)
        except Conflict:
            job.runner.say(f"plangate: another job is working on #{address.number}")
        except PlangateError as error:
            job.runner.warning(f"#{address.number}: {error}")


async def _unreported_threads(job: ActionJob) -> Sequence[ThreadAddress]:
    """Return the threads that no event reported; none if they cannot be read now."""
    try:
        return await job.unreported_threads() if job.unreported_threads else ()
    except PlangateError as error:
        job.runner.warning(f"threads that no event reported cannot be read: {error}")
        return ()


async def _is_unattended(job: ActionJob, address: ThreadAddress, state: ThreadState) -> bool:
    """Return whether a thread needs work and no other job can be working on it."""
    if state.stage in WAITS_FOR_PEOPLE or state.has_void_plan:
        return True
    left_over = state.stage in ON_ENTER or state.turns.texts_to_post(job.clock.now()) or state.can_begin_kept_turn
    return bool(left_over) and (state.work.run == job.given.run or await job.host.is_abandoned(address, state.work.run))


def _failed_in_this_run(state: ThreadState, began: datetime) -> bool:
    """Return whether a thread failed in this run. An older failure was reported by its own run."""
    return state.stage is Stage.FAILED and state.work.failed_at >= began
