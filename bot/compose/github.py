"""Joins the rooms for threads on GitHub: what the service, the Action and `sweep` work with.

One `GitHubHost` serves many threads. Each look builds a context for one thread from live facts, so that nothing that is
remembered here can be stale; what is kept between looks (tokens, what git last saw) only saves time.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Self
from uuid import uuid4

from bot.clock import SystemClock
from bot.compose.address import ThreadAddress
from bot.compose.connections import Connections
from bot.compose.parts import key_of, model_of
from bot.compose.polling import Polling
from bot.compose.resting import Resting
from bot.compose.thread_contexts import ThreadContexts
from bot.config.environment import redactor_for
from bot.config.settings import Settings
from bot.core.errors import PlangateError
from bot.core.gate import AT_WORK, WAITS_FOR_PEOPLE, Stage
from bot.core.names import RepositoryId, ThreadNumber
from bot.core.secrets.redaction import Redactor
from bot.github import repository, runs
from bot.github.turns import Listener
from bot.ports import Clock
from bot.store.git_journal import GitJournal
from bot.store.keys import StateKey
from bot.telemetry import Counters
from bot.workflow import engine
from bot.workflow.record import Record, fold_entries
from bot.workflow.thread_context import ThreadContext

if TYPE_CHECKING:
    from types import TracebackType

    from bot.agent.model.client import AnthropicModel

AT_REST = frozenset({Stage.LISTENING, Stage.ANSWERED, Stage.DONE, Stage.REJECTED, Stage.IN_REVIEW})
"""Stages that only people move on: such a thread is not looked at until somebody speaks."""
POLLED = WAITS_FOR_PEOPLE | AT_WORK
"""Stages in which a reaction to the plan matters: an approval, or a 👎 that stops the work; or a tick in a question."""
STILL: Final = timedelta(minutes=15)
"""A thread whose ref did not move for so long has no job at it."""
REMEMBERED: Final = 5_000
"""Threads of which it is remembered what was heard; of the others it is looked up again."""


@dataclass(slots=True)
class GitHubHost:
    """Looks at threads on GitHub; use it as an async context manager."""

    settings: Settings
    only: tuple[repository.Address, ...] = ()
    """The repositories to serve; empty for all that the credentials reach."""
    clock: Clock = field(default_factory=SystemClock)
    run: str = field(default="", kw_only=True)
    """The run of GitHub Actions that this process is a job of; elsewhere a name that it makes for itself (E4)."""
    redactor: Redactor = field(default_factory=Redactor, kw_only=True)
    """Knows the settings' secrets from the beginning, and tokens as they are made."""
    counters: Counters = field(default_factory=Counters, kw_only=True)
    """What the sessions of this process did."""
    connections: Connections = field(init=False)
    model: "AnthropicModel" = field(init=False)
    _desks: ThreadContexts = field(init=False)
    _polling: Polling = field(init=False)
    _resting: Resting = field(default_factory=Resting)
    _heard: dict[tuple[int, int], frozenset[str]] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        """Make sure that there are credentials."""
        if not self.redactor.values:
            self.redactor = redactor_for(self.settings)
        self.run = self.run or f"process-{uuid4().hex[:12]}"
        self.connections = Connections(self.settings, self.clock, self.redactor)
        self._polling = Polling(self.connections)
        self.model = model_of(self.settings, self.clock)
        beside = (self.redactor, self.counters, self.connections, self.model)
        self._desks = ThreadContexts(self.settings, self.clock, self.run, *beside)
        return self

    async def __aexit__(
        self, kind: "type[BaseException] | None", error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        """Give back the tokens and close the model's connections."""
        await self.connections.close()
        await self.model.close()

    async def look(self, address: ThreadAddress, begin_session: Callable[[], bool] = lambda: True) -> Record:
        """Carry a thread on until it rests; a cancelled look is taken up by the next one.

        `begin_session` is called before each session with the model; where it returns False, a later look begins it.
        """
        at = repository.Address(address.owner, address.name)
        head = (await self.connections.reach(address.installation, address.repository, at)).refs.head
        began = self.clock.now()
        async with self.desk(address) as context:
            record = self._remember(address, await engine.look(replace(context, begin_session=begin_session)))
        self._resting.record_look(address, record, began, head)
        return record

    async def listen(self, address: ThreadAddress) -> Record:
        """Only take in what people said, while another look of the same thread is under way."""
        async with self.desk(address) as context:
            return self._remember(address, await engine.listen(context))

    def rests(self, address: ThreadAddress) -> bool:
        """Tell whether a thread waited for people when it was looked at, and nothing became due since.

        What people do to it is polled and read (W3): another look would cost its points for nothing (E2).
        """
        return self._resting.rests(address, self.clock.now())

    async def is_abandoned(self, address: ThreadAddress, run: str) -> bool:
        """Tell whether the job of another run that was at a thread must be gone; False where that is not known.

        A job that works saves what it has every minute, between two steps; what it cannot tell GitHub's answer
        does, and where that cannot be had (a 403), a thread that stands still for STILL is nobody's.
        """
        at = repository.Address(address.owner, address.name)
        reached = await self.connections.reach(address.installation, address.repository, at)
        if run.isdigit() and await runs.over(
            self.connections.watcher(address.installation, address.repository), at, run
        ):
            return True
        moved = await asyncio.to_thread(reached.refs.last_write_time, ThreadNumber(address.number))
        return moved < self.clock.now() - STILL

    async def open_threads(self) -> tuple[ThreadAddress, ...]:
        """List every thread that waits or was interrupted, over all repositories that are served.

        A repository or thread that cannot be read is passed over: it must not keep the others from being looked at.
        """
        found: list[ThreadAddress] = []
        async for installation, number, at in self.connections.repositories(self.only):
            try:
                found += await self._open_in(installation, number, at)
            except PlangateError:
                continue
        return tuple(found)

    async def changed_threads(self, addresses: Iterable[ThreadAddress]) -> tuple[ThreadAddress, ...]:
        """Tell whose plan, or question, got a reaction or an edit since the last call."""
        return await self._polling.changed_threads(addresses)

    def is_bot(self, actor: int | None) -> bool:
        """Tell whether an account is known to be the bot's own: what it does wakes nobody."""
        return self.connections.is_bot(actor)

    async def find(self, at: repository.Address) -> tuple[int | None, int, repository.Address]:
        """Look a repository up by name: (installation, number, name); raises Missing."""
        return await self.connections.find(at)

    async def installation(self, address: ThreadAddress) -> int | None:
        """Give the App installation of a thread's repository, which only the App's own hook names (W4); raises Missing.

        None with a plain token.
        """
        if address.installation is not None or not self.settings.github.as_app:
            return address.installation
        return (await self.find(repository.Address(address.owner, address.name)))[0]

    async def listener(self, installation: int | None, number: int, at: repository.Address) -> Listener:
        """Say to what the bot listens in a repository now, by its configuration."""
        reached = await self.connections.reach(installation, number, at)
        keys, _ = await self._desks.configuration(reached.door, at, "HEAD")
        return Listener(await self.connections.bot(reached.door), keys.mention, frozenset(keys.ask.bots))

    def heard_turns(self, repository: int, thread: int) -> frozenset[str]:
        """Give the keys of the turns that a thread's journal held when it was read last; it may be forgotten by now."""
        return self._heard.get((repository, thread), frozenset())

    @property
    def _key(self) -> StateKey:
        return key_of(self.settings)

    async def _open_in(self, installation: int | None, number: int, at: repository.Address) -> list[ThreadAddress]:
        """List the open threads of one repository."""
        reached = await self.connections.reach(installation, number, at)
        journal = GitJournal(reached.refs, RepositoryId(number), key=self._key, clock=self.clock)
        found = []
        for thread in await journal.threads():
            address = ThreadAddress(installation, number, at.owner, at.name, thread)
            try:
                record = self._remember(address, fold_entries(await journal.cached_entries(thread)))
            except PlangateError:
                continue  # another key's thread is not ours
            if record.stage not in AT_REST or record.debts or record.kept or self._is_void(record):
                found.append(address)
            self._resting.record_listing(address, record, reached.refs.head)
        return found

    def _is_void(self, record: Record) -> bool:
        """Tell whether somebody may yet approve a plan that lost its force: for as long as it would have had it."""
        return record.void and not record.noticed and self.clock.now() < record.plan.expires

    def desk(self, address: ThreadAddress) -> AbstractAsyncContextManager[ThreadContext]:
        """Join everything for one thread, from live facts."""
        return self._desks.open(address)

    def _remember(self, address: ThreadAddress, record: Record) -> Record:
        """Remember which plan comment to poll, and what was heard."""
        place = (address.repository, address.number)
        self._heard.pop(place, None)
        self._heard[place] = record.seen
        while len(self._heard) > REMEMBERED:
            del self._heard[next(iter(self._heard))]
        if record.stage in POLLED or self._is_void(record):
            self._polling.show(address, record.fact("question" if record.stage is Stage.ASKED else "shown"))
        else:
            self._polling.show(address, "")
        return record
