"""Joins the components for threads on GitHub, for the service, the Action, and `sweep`."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from bot.clock import SystemClock
from bot.compose.parts import model_of
from bot.compose.thread_contexts import ThreadContexts, checked_configuration
from bot.config.environment import redactor_for
from bot.config.settings import Settings
from bot.core.entry import Entry
from bot.core.names import ThreadAddress
from bot.core.secrets.redaction import Redactor
from bot.github.repository import Address
from bot.ports import Clock
from bot.service.configurations import Configurations
from bot.service.connections import Connections
from bot.service.github_host import GitHubHost
from bot.telemetry import Counters
from bot.workflow.thread_context import do_nothing

if TYPE_CHECKING:
    from bot.service.overview.recorder import Recorder


@dataclass(slots=True)
class HostSetup:
    """Everything that a host is made from. As an async context manager it opens the host, with its connections."""

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
        contexts = ThreadContexts(
            settings, clock, run, redactor, self.counters, connections, configurations, model, self.recorder
        )
        host = self.host_class(
            connections,
            configurations,
            contexts.open,
            contexts.states,
            contexts.known_bots,
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
