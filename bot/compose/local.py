"""Joins the components for `plangate run` on a local repository."""

import gc
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from bot.agent.limits import Ledger
from bot.agent.resources import HumanAvailability, SessionResources
from bot.agent.session_events import AgentEvent
from bot.clock import SystemClock
from bot.compose.job_environment import JobEnvironment, job_of, place_in_terminal, plant_canary
from bot.compose.parts import (
    agents_of,
    collector_of,
    committer_of,
    configured_model,
    egress_route_of,
    gate_of,
    local_key_of,
    model_of,
    sandbox_limits_of,
    web_of,
)
from bot.config.environment import configuration, redactor_for
from bot.config.settings import PATH, Settings
from bot.core.approval import Policy
from bot.core.configuration import Configuration, Models
from bot.core.errors import Misconfigured, PlangateError, Refused
from bot.core.maintenance import CheckResult
from bot.core.names import CommitId, RepositoryId, ThreadNumber, local_repository, local_thread
from bot.core.network import Network, NetworkDecision
from bot.core.secrets.redaction import CanaryAlarm, Redactor
from bot.core.thread.state import ThreadState, fold_entries
from bot.core.transcript import Line
from bot.core.turn import Role
from bot.core.work import LocalRun
from bot.logs import outlet
from bot.ports import Access, Clock, Journal, RepositoryRules
from bot.store.git_journal import GitJournal
from bot.store.sealing import StateKey
from bot.store.thread_refs import Remote, ThreadRefs
from bot.store.transcripts import LocalTranscripts, read_spool_file
from bot.telemetry import Counters, Telemetry
from bot.terminal import SessionPrinter, Terminal
from bot.workflow.engine import check_thread
from bot.workflow.maintaining import run_shell_check
from bot.workflow.thread_run import StateCache, ThreadJournal, ThreadRun, WorkConditions
from bot.workspace import sandbox
from bot.workspace.local_repository import LocalRepository
from bot.workspace.mirror import Mirror, mirrors
from bot.workspace.publish import Publishing, Screen, check_key
from bot.workspace.sandbox import check_git
from bot.workspace.workspace import GitWorkspace, LocalWorkspace

if TYPE_CHECKING:
    from bot.agent.model.anthropic_model import AnthropicModel

# --- The result of one run from the terminal --------------------------------------------------------------------------

Listener = Callable[[AgentEvent], None]


@dataclass(slots=True)
class TerminalRun:
    state: ThreadState
    ledger: Ledger
    printer: SessionPrinter
    uncommitted: int = 0
    transcript: Path | None = None


def combine_listeners(first: Listener, second: Listener) -> Listener:
    def listener(event: AgentEvent) -> None:
        first(event)
        second(event)

    return listener


# --- `plangate run` on a local repository -----------------------------------------------------------------------------

_DEPTH: Final = 3
"""Number of folders between a data directory and a transcript in it."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    folder: Path
    prompt: str
    yes: bool = False
    dry_run: bool = False
    model: str | None = None
    max_cost_usd: float | None = None
    unsafe: bool = False


async def run_local(options: RunOptions, settings: Settings, out: TextIO) -> TerminalRun:
    """Work on one request in a local repository until it rests. Continues an interrupted run.

    Secrets are redacted from everything written to `out` (PR4).
    """
    if not (settings.api_key or settings.identity):
        raise Misconfigured("no key for the model", where="ANTHROPIC_API_KEY", fix="set it")
    model = model_of(settings)
    # A daemon thread, so that an error is reported without waiting for the import.
    threading.Thread(target=_warm_model, args=(model,), daemon=True).start()
    try:
        source = await LocalRepository.open(options.folder, unsafe=options.unsafe)
        source.need_writable()
        mirror = Mirror.of(source, mirrors(settings.data_dir))
        await mirror.ensure(source.head)
        file = await mirror.read(source.head, PATH) or b""
        keys = configuration(file.decode(errors="replace"))
        keys = keys.with_overrides(None, options.model, options.max_cost_usd).for_terminal()
        with plant_canary(settings.data_dir) as alarm:
            parts = _RunParts(options, settings, source, mirror, keys, model, alarm)
            run, printer = await parts.thread_run(out)
            final = await check_thread(run)
            folder = settings.data_dir / "transcripts" / str(run.location.repository) / str(run.location.thread)
            transcript = folder / final.request.planning_session
            return TerminalRun(final, run.resources.ledger, printer, source.uncommitted, transcript)
    finally:
        await model.close()


async def run_check(folder: Path, commit: CommitId, command: str, settings: Settings) -> int | None:
    """Run a command on a commit of a local repository, in a sandbox. Return its exit code (None: it did not run)."""
    source = await LocalRepository.open(folder)
    workspace = GitWorkspace.on(source, settings.data_dir)
    checkout = await workspace.checkout(f"check-{commit}", commit)
    host = await workspace.open(checkout, Access.WRITE)
    try:
        code = (await host.call("Bash", {"command": command})).details.get("exit_code")
    finally:
        await workspace.discard(checkout)
    return code if isinstance(code, int) else None


def transcript(file: Path, settings: Settings) -> tuple[Line, ...]:
    """Return the lines of an encrypted transcript, DIR/transcripts/1/2/plan-1, opened with the key of DIR."""
    above = file.absolute().parents
    if len(above) > _DEPTH and (above[_DEPTH] / "state.key").is_file():
        settings = replace(settings, data_dir=above[_DEPTH])
    return read_spool_file(file, local_key_of(settings))


def try_sandbox() -> None:
    """Check git, then start a sandbox and end it. Raises Misconfigured or NoSandbox with the cure."""
    check_git()
    sandbox.probe()


async def try_model(settings: Settings) -> str:
    """Return the id of the default model, as the server reports it. Raises Transient or Refused with the cure."""
    model = model_of(settings)
    try:
        return await model.check_model(Models().main)
    finally:
        await model.close()


async def try_signing(settings: Settings) -> None:
    """Check the key that signs commits. Raises Misconfigured with the cure."""
    if settings.signing_key is not None:
        await check_key(settings.signing_key)


def _warm_model(model: "AnthropicModel") -> None:
    """Import the library and create the client in parallel with other work. Errors appear at the first request."""
    gc.disable()  # else the collector would scan imported objects again and again: a sixth of the import
    try:
        with suppress(PlangateError):
            model.warm()
    finally:
        gc.freeze()
        gc.enable()


@dataclass(frozen=True, slots=True)
class _RunParts(RepositoryRules):
    options: RunOptions
    settings: Settings
    source: LocalRepository
    mirror: Mirror
    keys: Configuration
    model: "AnthropicModel"
    alarm: CanaryAlarm
    clock: Clock = SystemClock()

    @property
    def number(self) -> RepositoryId:
        return local_repository(self.source.location)

    @property
    def key(self) -> StateKey:
        """State key: the operator's, else from a key file in the data directory."""
        return local_key_of(self.settings)

    async def thread_run(self, out: TextIO) -> tuple[ThreadRun, SessionPrinter]:
        """Return the run of the thread, and the printer of its sessions. Both write to `out` without secrets."""
        options, settings, source, clock = self.options, self.settings, self.source, self.clock
        number, key, redactor = self.number, self.key, self._redactor()
        out = outlet(out, redactor)
        # The git programs that run inside the repository run in a sandbox.
        remote = Remote(source.location, source.upload_pack, source.receive_pack)
        refs = ThreadRefs(remote, settings.data_dir / "state" / f"{number}.git", clock)
        journal = GitJournal(refs, number, key=key, clock=clock)
        thread = await _thread(journal, source.head, options.prompt)
        transcripts = LocalTranscripts(refs, number, thread, key=key, spool=settings.data_dir / "transcripts")
        dialogue = Terminal(options.prompt, clock, out, yes=options.yes, dry_run=options.dry_run)
        workspace, printer = self._workspace(redactor), SessionPrinter(out, redactor)
        ledger = Ledger(self.keys.budget.session_usd)
        spans = Telemetry(f"{number}#{thread}", clock, Counters(), collector_of(settings))
        run = ThreadRun(
            location=LocalRun(number, thread, options.prompt, source.head),
            environment=self._environment(workspace).at,
            journal=ThreadJournal(journal, number, thread, StateCache()),
            dialogue=dialogue,
            workspace=workspace,
            resources=self._session_resources(transcripts, dialogue, ledger, f"{thread:08x}"),
            rules=self,
            configuration=self.keys,
            conditions=WorkConditions(watch_seconds=0),
            policy=Policy(role=Role.READ, high_needs=1),
            listener=combine_listeners(printer.receive, spans.receive),
            redactor=redactor,
        )
        return run, printer

    async def agent_types(self) -> Mapping[str, str]:
        return await agents_of(self.mirror, self.source.head)

    def _session_resources(
        self, transcripts: LocalTranscripts, dialogue: Terminal, ledger: Ledger, user: str
    ) -> SessionResources:
        keys, attended = self.keys, dialogue.is_attended
        return SessionResources(
            model=configured_model(keys, self.model),
            transcripts=transcripts,
            clock=self.clock,
            gate=gate_of(keys, sandboxed=not self.options.unsafe),
            ledger=ledger,
            user_id=user,
            availability=HumanAvailability(attended, attended and keys.tools.requests == "comment"),
            alarm=self.alarm,
            web=web_of(keys, self.settings),
            compact_at=keys.compaction.at_tokens,
        )

    def _redactor(self) -> Redactor:
        """Return a redactor that knows this machine's secrets, its state key, and the canaries of this run."""
        redactor = redactor_for(self.settings)
        redactor.learn(self.key.secret.hex(), "state key")
        for value, kind in self.alarm.named_values:
            redactor.learn(value, kind)
        return redactor

    def _workspace(self, redactor: Redactor) -> GitWorkspace:
        """Return the workspace on the local repository, which publishes nothing that holds a secret."""
        keys, settings = self.keys, self.settings
        rules = Publishing(Screen(redactor, tuple(keys.secrets.examples)), committer_of(settings))
        limits, route = sandbox_limits_of(keys), egress_route_of(settings)
        return LocalWorkspace.on(self.source, settings.data_dir, limits, rules, route=route)

    def _environment(self, workspace: GitWorkspace) -> JobEnvironment:
        folder = workspace.checkouts.shown_as
        job = job_of(self.keys, folder=folder, repository=Path(folder).name, clock=self.clock)
        return JobEnvironment(place_in_terminal(job, self.source.branch), workspace, self.source.head)


async def _thread(journal: Journal, head: CommitId, prompt: str) -> ThreadNumber:
    """Return the thread of this request on this commit: the unfinished one, else a new one.

    Skips a journal that was written with another key, because it cannot be read.
    """
    for ordinal in count():
        thread = local_thread(head, prompt, ordinal)
        try:
            finished = fold_entries(await journal.read(thread)).is_finished
        except Refused:
            continue
        if not finished:
            return thread
    raise AssertionError("count() never ends")


# --- The check of a scheduled task, tried locally ---------------------------------------------------------------------
# It runs as an occurrence of the task would run it, without GitHub or a model.

_HOSTS_NAMED: Final = 3


async def try_check(folder: Path, check: str, keys: Configuration, settings: Settings) -> CheckResult:
    """Run a shell command as the check of a task: on the newest commit, on a checkout that is discarded.

    The limits and hosts are those of the key `sandbox`. A problem names hosts that the command could not reach. Raises
    Misconfigured if the folder is in no repository with a commit.
    """
    source = await LocalRepository.open(folder)
    workspace = GitWorkspace.on(source, settings.data_dir, sandbox_limits_of(keys), route=egress_route_of(settings))
    decisions: list[NetworkDecision] = []
    network = Network(tuple(keys.sandbox.hosts), decisions.append)
    redact, minutes = redactor_for(settings).redact, keys.sandbox.minutes
    try:
        tree = await workspace.checkout(f"doctor-{source.head}", source.head, fresh=True)
        try:
            host = await workspace.open(tree, Access.WRITE, network=network)
            result = await run_shell_check(host, check, minutes=minutes, redact=redact)
        finally:
            await workspace.discard(tree)
    except PlangateError as error:
        return CheckResult(problem=str(error))
    finally:
        await workspace.close()
    refused = list(dict.fromkeys(decision.host for decision in decisions if not decision.allowed))
    if not result.problem or not refused:
        return result
    return CheckResult(problem=f"{result.problem}; it could not reach {', '.join(refused[:_HOSTS_NAMED])}")
