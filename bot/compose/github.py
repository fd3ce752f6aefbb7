"""Joins the components for threads on GitHub, for the service, the Action, `run`, `sweep`, and `audit`."""

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, TextIO
from uuid import uuid4

from bot.clock import SystemClock
from bot.compose.local import TerminalRun, combine_listeners
from bot.compose.parts import model_of
from bot.compose.thread_runs import ThreadRuns, checked_configuration
from bot.config.environment import redactor_for
from bot.config.settings import Settings
from bot.core.errors import Misconfigured
from bot.core.moves import Entry
from bot.core.names import ThreadAddress, ThreadNumber
from bot.core.reply_text import configuration_error
from bot.core.reporting import AuditRow, audit_rows
from bot.core.secrets.redaction import Redactor
from bot.github import repository
from bot.github.repository import Address
from bot.ports import Clock
from bot.service.configurations import Configurations
from bot.service.connections import Connections, key_of
from bot.service.github_host import GitHubHost
from bot.store.git_journal import GitJournal
from bot.telemetry import Counters
from bot.terminal import SessionPrinter
from bot.workflow import engine
from bot.workflow.outbox import notice_without_journal
from bot.workflow.thread_run import do_nothing

if TYPE_CHECKING:
    from bot.service.overview.recorder import Recorder

# --- Threads on GitHub ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class HostSetup:
    """The parts of a host. As an async context manager, it opens the host with its connections."""

    settings: Settings
    only: tuple[Address, ...] = ()
    """The repositories to serve. Empty: all that the credentials reach."""
    clock: Clock = field(default_factory=SystemClock)
    run: str = field(default="", kw_only=True)
    """Id of the GitHub Actions run that this process is a job of; otherwise a name that the process makes up (E4)."""
    before_work: Callable[[], Awaitable[None]] = field(default=do_nothing, kw_only=True)
    redactor: Redactor = field(default_factory=Redactor, kw_only=True)
    """Knows the settings' secrets from the start, and each token once it is created."""
    observe: Callable[[ThreadAddress, Sequence[Entry]], None] = field(default=lambda *_: None, kw_only=True)
    counters: Counters = field(default_factory=Counters, kw_only=True)
    recorder: "Recorder | None" = field(default=None, kw_only=True)
    host_class: type[GitHubHost] = field(default=GitHubHost, kw_only=True)
    _opened: AsyncExitStack = field(default_factory=AsyncExitStack, init=False)

    async def __aenter__(self) -> GitHubHost:
        """Return the host. Raises Misconfigured without credentials."""
        settings, clock = self.settings, self.clock
        redactor = self.redactor if self.redactor.values else redactor_for(settings)
        run = self.run or f"process-{uuid4().hex[:12]}"
        connections, model = Connections(settings, clock, redactor), model_of(settings, clock)
        configurations = Configurations(settings, checked_configuration)
        runs = ThreadRuns(
            settings, clock, run, redactor, self.counters, connections, configurations, model, self.recorder
        )
        host = self.host_class(
            connections,
            configurations,
            runs.open,
            runs.states,
            runs.known_bots,
            only=self.only,
            before_work=self.before_work,
            observe=self.observe,
            counters=self.counters,
            recorder=self.recorder,
        )
        self._opened.push_async_callback(model.close)
        self._opened.push_async_callback(host.close)
        return host

    async def __aexit__(self, *_: object) -> None:
        """Revoke the tokens, and close the model's connections."""
        await self._opened.aclose()


# --- Journals of a repository, for `plangate audit` -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AuditExport:
    rows: Sequence[AuditRow]
    """The rows of every thread, oldest first."""
    unreadable: Sequence[ThreadNumber]
    """Threads that are left out, because another state key wrote them, or because somebody altered them."""


async def read_audit(settings: Settings, repo: str, since: datetime) -> AuditExport:
    """Return the export of a repository since a moment. Memory holds all rows, and one journal at a time.

    Raises Misconfigured if `repo` does not name a repository.
    """
    at = Address.parse(repo, where="audit")
    async with HostSetup(settings) as host:
        served = await host.connections.repository_by_name(at)
        reached = await host.connections.reach_served(served)
        journal = GitJournal(reached.refs, served.id, key=key_of(settings), clock=host.clock)
        rows: list[AuditRow] = []
        unreadable: list[ThreadNumber] = []
        async for thread, entries in journal.read_each_since(since):
            if entries is None:
                unreadable.append(thread)
            rows += audit_rows(thread, entries or (), since)
    return AuditExport(sorted(rows, key=lambda row: (row.at, row.thread, row.entry)), unreadable)


# --- Threads known by name, for the Action and `run` ------------------------------------------------------------------


async def thread_of(host: GitHubHost, name: str, number: int) -> ThreadAddress:
    """Return the address of a thread in the repository `name`, read live. Raises Refused if there is none."""
    return (await host.connections.repository_by_name(repository_of(name))).thread(number)


async def check_once(settings: Settings, thread: str, out: TextIO) -> TerminalRun:
    """Check one thread, named OWNER/REPO#N, as the service would. Writes what its sessions do to `out`."""
    match = re.fullmatch(r"([\w.-]+/[\w.-]+)#([1-9]\d{0,9})", thread)
    if match is None:
        raise Misconfigured(f"not a thread: {thread!r}", where="OWNER/REPO#N", fix="write something like octo/hello#7")
    async with HostSetup(settings) as host:
        address = await thread_of(host, match[1], int(match[2]))
        printer = SessionPrinter(out, host.connections.redactor)
        async with host.open_run(address) as run:
            shown = replace(run, listener=combine_listeners(printer.receive, run.listener))
            return TerminalRun(await engine.check_thread(shown), run.resources.ledger, printer)


async def refuse_thread(host: GitHubHost, address: ThreadAddress, why: str) -> None:
    """Post on a thread, once, why no work can begin there. Posts only if somebody who may ask has asked."""
    async with host.open_run(address) as run:
        await notice_without_journal(run, configuration_error(why))


def repository_of(name: str) -> repository.Address:
    """Return the address of the repository ``owner/name``. Raises Misconfigured."""
    return repository.Address.parse(name, where="GITHUB_REPOSITORY")
