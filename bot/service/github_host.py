"""The host of the threads on GitHub: checks them, and lists those that need a check.

One `GitHubHost` serves many threads, for the service, the Action, and `sweep`. Each check builds a run of one thread
from live facts, so nothing that is cached here can be stale. What is kept between checks (tokens, what git last saw)
only saves time. In the service it is a `ServiceHost` (bot/service/maintenance_pass.py), which adds scheduled tasks.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from bot.config.settings import Settings
from bot.core.checks import checks_to_fix, may_begin
from bot.core.errors import PlangateError, Transient
from bot.core.gate import AT_WORK, ON_ENTER, WAITS_FOR_PEOPLE, Stage
from bot.core.moves import Entry
from bot.core.names import RepositoryId, ThreadAddress, ThreadNumber
from bot.core.thread.state import ThreadState
from bot.core.thread.task import TaskHistory
from bot.github import repository
from bot.github.checks import PullCheckReader
from bot.github.deliveries import KnownBot
from bot.github.permissions import Roles
from bot.github.tasks import TrackingIssues
from bot.github.turns import BotIdentity
from bot.ports import Clock, Journal
from bot.service.configurations import Configurations, CurrentConfiguration
from bot.service.connections import READING_RUNS, Connections, RepositoryAccess, ServedRepository, key_of
from bot.service.polling import Polling, Rest, Resting
from bot.service.slots import SessionControl
from bot.store.git_journal import GitJournal
from bot.store.sealing import marker_key
from bot.telemetry import Counters
from bot.workflow import engine
from bot.workflow.thread_run import StateCache, ThreadRun, WorkControl, do_nothing

if TYPE_CHECKING:
    from bot.core.configuration import Configuration
    from bot.service.overview.recorder import Recorder


AT_REST = frozenset({Stage.LISTENING, Stage.ANSWERED, Stage.DONE, Stage.REJECTED, Stage.IN_REVIEW})
"""Stages that only people can end. Such a thread is not checked until somebody speaks."""
POLLED = WAITS_FOR_PEOPLE | AT_WORK
"""Stages in which reactions and ticks matter: one may approve or answer, and a 👎 may stop the work."""
STILL: Final = timedelta(minutes=15)
"""A thread whose ref has not moved for this long has no job working on it."""
REMEMBERED: Final = 5_000
"""Number of threads for which the journaled turns are cached. For other threads they are read again."""


@dataclass(frozen=True, slots=True)
class TrackedTask:
    """The tracking issue of a scheduled task, and the task's history from its journal."""

    issue: ThreadNumber
    history: TaskHistory


@dataclass(frozen=True, slots=True)
class CheckedThread:
    """The result of a check of a thread, for the process that polls and reconciles."""

    address: ThreadAddress
    comment: str
    """The plan or question that is polled for reactions; "" for none."""
    rest: Rest | None
    """Until when the thread need not be checked; None if it does not rest."""
    polled: str = ""
    """Fingerprint of the comment that polls have reported and settled on; "" if this process does not know one."""


@dataclass(slots=True)
class GitHubHost:
    """Checks threads on GitHub. Methods raise Transient, Refused, or Broken, and may be cancelled at any time."""

    connections: Connections
    configurations: Configurations
    open_run: Callable[[ThreadAddress], AbstractAsyncContextManager[ThreadRun]]
    """Returns the run of one thread, built from live facts."""
    states: StateCache
    """The states of all threads as of the last reading of their journals."""
    read_mentions: Mapping[RepositoryId, KnownBot]
    """Who the bot is in each repository, as the last check there read it."""
    only: tuple[repository.Address, ...] = field(default=(), kw_only=True)
    """The repositories to serve. Empty: all that the credentials reach."""
    before_work: Callable[[], Awaitable[None]] = field(default=do_nothing, kw_only=True)
    """Called before each step of work that needs a sandbox."""
    observe: Callable[[ThreadAddress, Sequence[Entry]], None] = field(default=lambda *_: None, kw_only=True)
    """Called with each journal that may have changed. Never waits, never raises."""
    counters: Counters = field(default_factory=Counters, kw_only=True)
    """Counters of what the sessions of this process did."""
    recorder: "Recorder | None" = field(default=None, kw_only=True)
    """Records the journals that this process reads and writes. None in one that shows nobody a list of threads."""
    _polling: Polling = field(init=False)
    _resting: Resting = field(init=False, default_factory=Resting)
    _heard: dict[tuple[int, int], frozenset[str]] = field(init=False, default_factory=dict)
    _control: SessionControl = field(init=False, default_factory=SessionControl)

    def __post_init__(self) -> None:
        self._polling = Polling(self.connections)

    @property
    def settings(self) -> Settings:
        """The operator's settings."""
        return self.connections.settings

    @property
    def clock(self) -> Clock:
        """The clock of the process."""
        return self.connections.clock

    async def close(self) -> None:
        """Revoke the tokens."""
        await self._polling.close()
        await self.connections.close()

    async def check_thread(
        self, address: ThreadAddress, begin_session: Callable[[], bool] = lambda: True
    ) -> ThreadState:
        """Check a thread until it rests. The next check continues a cancelled one.

        `begin_session` is called before each session with the model. If it returns False, a later check begins the
        session.
        """
        head = (await self.connections.reach_thread(address)).refs.head
        began = self.clock.now()
        async with self.open_run(address) as run:
            control = WorkControl(begin_session, self.before_work, self._control.before_step)
            try:
                state = self._remember(address, await engine.check_thread(replace(run, control=control)))
            finally:
                with suppress(PlangateError):  # the next reconciliation reads it
                    self.observe(address, await run.journal.port.cached_entries(ThreadNumber(address.number)))
        self._resting.record_check(address, state, began, head)
        return state

    async def read_comments(self, address: ThreadAddress) -> ThreadState:
        """Only read what people said on a thread. Another check of it may run at the same time."""
        async with self.open_run(address) as run:
            return self._remember(address, await engine.read_comments(run))  # it makes no move that is reported

    def rests(self, address: ThreadAddress) -> bool:
        """Return whether a thread waited for people at its last check, and nothing has become due since.

        Polling and reading find what people do on it (W3), so another check would only cost points (E2).
        """
        return self._resting.rests(address, self.clock.now())

    def known_bot(self, repository: int) -> KnownBot | None:
        """Return who the bot is in a repository, as the last check there read it; None if there was none."""
        return self.read_mentions.get(RepositoryId(repository))

    def last_check(self, address: ThreadAddress) -> CheckedThread:
        """Return the result of a thread's last check."""
        polling, rest = self._polling, self._resting.get(address)
        comment, polled = polling.comment_of(address), polling.settled_fingerprint(address)
        return CheckedThread(replace(address, told=""), comment, rest, polled)

    def recall(self, checked: CheckedThread) -> None:
        """Record the result of another process's check."""
        self._polling.show(checked.address, checked.comment)
        self._polling.recall(checked.address, checked.polled)
        self._resting.set(checked.address, checked.rest)

    def end_at_next_step(self) -> None:
        """Make running sessions end at their next step, because this process ends. Another one continues them."""
        self._control.end_sessions()

    def hold_sessions(self, *, held: bool) -> None:
        """Make running sessions wait before each step, because checks need the processors; or let them go on."""
        self._control.hold_sessions(held=held)

    async def is_abandoned(self, address: ThreadAddress, run: str) -> bool:
        """Return whether the job of another run that worked on a thread must be gone; False if that is unknown.

        A working job saves its state every minute, between two steps. If GitHub reports that the run is over, the job
        is gone. If GitHub does not report it (a 403, say), the job counts as gone once the thread's ref has not moved
        for STILL.
        """
        reached = await self.connections.reach_thread(address)
        reader = self.connections.client_with(READING_RUNS, address.installation, address.repository)
        if run.isdigit() and await repository.run_is_over(reader, reached.at, run):
            return True
        moved = await asyncio.to_thread(reached.refs.last_write_time, ThreadNumber(address.number))
        return moved < self.clock.now() - STILL

    async def open_threads(self) -> tuple[ThreadAddress, ...]:
        """Return every thread that waits or was interrupted, over all repositories that are served.

        Skips repositories that cannot be read. Once GitHub fails for one, skips the rest of its installation too, where
        each repository would wait for the same timeouts. Records of repositories that are not served any more are
        deleted.
        """
        listings = [listing async for listing in self.connections.listings(self.only)]
        if self.recorder is not None and not self.only:
            await self.recorder.record_served(listings)
        return tuple([address for _, listed in listings for address in await self._open_in_each(listed or ())])

    async def waits(self) -> bool:
        """Return whether anything has to be checked more than once a day; True if that is unknown.

        That is a thread that waits for people, for abandoned work, or for a reply; a scheduled task that is due more
        often; or a running check of the bot's pull requests, if red checks lead to a plan. A void plan does not count:
        an approval of it only gets a reply.
        """
        try:
            return any([await self._waits_in(served) for served in await self.served_repositories()])
        except PlangateError:
            return True

    async def changed_threads(self, addresses: Iterable[ThreadAddress]) -> tuple[ThreadAddress, ...]:
        """Return the threads whose plan or question got a reaction or an edit since the last call."""
        return await self._polling.changed_threads(addresses)

    def is_bot(self, actor: int | None) -> bool:
        """Return whether an account is known to be the bot's own. Its actions wake no thread."""
        return self.connections.is_bot(actor)

    async def installation(self, address: ThreadAddress) -> int | None:
        """Return the App installation of a thread's repository, or None with a plain token. Raises Missing.

        Only the App's own webhook names the installation (W4); otherwise GitHub is asked.
        """
        if address.installation is not None or not self.settings.github.as_app:
            return address.installation
        return (await self.connections.repository_by_name(repository.Address.of_thread(address))).installation

    async def identity(self, installation: int | None, number: int, at: repository.Address) -> BotIdentity:
        """Return who the bot is in a repository now, by its configuration."""
        reached = await self.connections.reach(installation, number, at)
        keys, _, _ = await self.configurations.read(reached.client, at)
        return BotIdentity(await self.connections.bot(reached.client), keys.mention, frozenset(keys.ask.bots))

    async def served_repositories(self) -> tuple[ServedRepository, ...]:
        """Return the repositories that are served."""
        return tuple([served async for served in self.connections.served_repositories(self.only)])

    async def current_configuration(self, served: ServedRepository) -> CurrentConfiguration:
        """Return the configuration on the default branch now. One with a mistake has the defaults, and so no tasks."""
        reached = await self.connections.reach_served(served)
        current = await self.configurations.read(reached.client, served.at)
        return await self.configurations.pin_people(reached, served.id, current)

    async def tracked_tasks(self, served: ServedRepository) -> dict[str, TrackedTask]:
        """Return the tasks that a journal of the repository tracks: name -> tracking issue, the oldest for each."""
        tracked: dict[str, TrackedTask] = {}
        for address, state in (await self._states_in(served)).items():
            if state.task is not None:
                tracked.setdefault(state.task.task, TrackedTask(ThreadNumber(address.number), state.task))
        return tracked

    async def tracking_issues(self, served: ServedRepository) -> TrackingIssues:
        """Return access to the tracking issues of a repository."""
        reached = await self.connections.reach_served(served)
        bot = partial(self.connections.bot, reached.client)
        return TrackingIssues(reached.client, served.at, bot, marker_key(key_of(self.settings), served.id))

    async def roles(self, served: ServedRepository) -> Roles:
        """Return the roles of people on a repository, as they are now."""
        reached = await self.connections.reach_served(served)
        return Roles(reached.client, served.at)

    async def pulls_to_check(self, served: ServedRepository) -> tuple[ThreadAddress, ...]:
        """Return the bot's open pull requests on which red required checks lead to something (MT9)."""
        states = await self._states_in(served)
        if not any(state.work.published is not None for state in states.values()):
            return ()
        reader = await self._check_reader(served, (await self.current_configuration(served)).keys)
        if reader is None:
            return ()
        numbers = [
            number
            for number, head in (await reader.open_heads()).items()
            if may_begin(head, self.heard_turns(served.id, number))
            and (checks := await reader.read(number)) is not None
            and checks_to_fix(checks)
        ]
        return tuple(served.thread(number) for number in numbers)

    async def own_recipe(self, served: ServedRepository, name: str | None) -> dict[str, str]:
        """Return the project's own recipe of that name on the default branch: name -> text, empty if there is none."""
        reached = await self.connections.reach_served(served)
        return await self.configurations.own_recipe(reached.client, served.at, name)

    def heard_turns(self, repository: int, thread: int) -> frozenset[str]:
        """Return the keys of the turns in a thread's journal when it was last read; empty if no longer cached."""
        return self._heard.get((repository, thread), frozenset())

    async def thread_journal(self, address: ThreadAddress) -> Journal:
        """Return the journal that holds a thread, to read it. Raises Transient or Refused if it is out of reach."""
        return self._journal(await self.connections.reach_thread(address), RepositoryId(address.repository))

    async def mention(self, address: ThreadAddress) -> str:
        """Return how commands to the bot begin in a thread's repository, by its configuration."""
        at = repository.Address.of_thread(address)
        return (await self.identity(address.installation, address.repository, at)).mention

    async def reindex(self) -> Mapping[str, int]:
        """Read the journals of all served repositories, and return how many threads each has, by ``owner/name``.

        The recorder receives them. Raises the error of the first repository that cannot be read.
        """
        counts = {}
        for served in await self.served_repositories():
            states = await self._states_in(served)
            counts[served.at.full_name] = len(states)
        return counts

    def _journal(self, reached: RepositoryAccess, number: RepositoryId) -> GitJournal:
        return GitJournal(reached.refs, number, key=key_of(self.settings), clock=self.clock)

    async def _open_in_each(self, repositories: Sequence[ServedRepository]) -> list[ThreadAddress]:
        """Return the open threads of one installation's repositories, as far as they can be read."""
        threads: list[ThreadAddress] = []
        for served in repositories:
            try:
                threads += await self._open_in(served)
            except PlangateError as error:
                if isinstance(error, Transient) and served.installation is not None:
                    break
        return threads

    async def _open_in(self, served: ServedRepository) -> list[ThreadAddress]:
        states = await self._states_in(served)
        return [
            address
            for address, state in states.items()
            if state.stage not in AT_REST or state.has_unfinished_turns or self._is_void(state)
        ]

    async def _states_in(self, served: ServedRepository) -> dict[ThreadAddress, ThreadState]:
        """Return the state of each thread of one repository, except those that another key protects."""
        reached = await self.connections.reach_served(served)
        journal = self._journal(reached, served.id)
        states, read_journals, every = {}, [], await journal.threads()
        for thread in every:
            address = served.thread(thread)
            try:
                entries = await journal.cached_entries(thread)
                read_journals.append((address, entries))
                self.observe(address, entries)
                state = self._remember(address, self.states.fold(served.id, thread, entries))
            except PlangateError:
                continue  # another key's thread is not ours
            states[address] = state
            self._resting.record_listing(address, state, reached.refs.head)
        if self.recorder is not None:
            await self.recorder.record_listing(served.id, read_journals, every=every)
        return states

    async def _waits_in(self, served: ServedRepository) -> bool:
        states = await self._states_in(served)
        if any(state.stage in ON_ENTER or state.has_unfinished_turns for state in states.values()):
            return True
        keys = (await self.current_configuration(served)).keys
        reader = await self._check_reader(served, keys)
        if reader is not None and await reader.is_under_way():
            return True
        return any(task.due_times().is_finer_than_daily(self.clock.now()) for task in keys.maintenance)

    async def _check_reader(self, served: ServedRepository, keys: "Configuration") -> PullCheckReader | None:
        """Return the reader of the bot's pull requests; None where their red checks lead to nothing."""
        if keys.pull_request.fix_checks == "off":
            return None
        reached = await self.connections.reach_served(served)
        results = self.connections.check_results(served.installation, served.id, served.at)
        return PullCheckReader(reached.client, served.at, await self.connections.bot(reached.client), results)

    def _is_void(self, state: ThreadState) -> bool:
        """Return whether somebody may still approve a void plan: until the time when the plan would have expired."""
        plan, voided = state.plan.newest, state.plan.voided
        waits = state.has_void_plan and voided is not None and not voided.noticed
        return waits and plan is not None and self.clock.now() < plan.expires

    def _remember(self, address: ThreadAddress, state: ThreadState) -> ThreadState:
        """Remember which plan comment to poll, and which turns the journal has."""
        place = (address.repository, address.number)
        self._heard.pop(place, None)
        self._heard[place] = state.turns.seen
        while len(self._heard) > REMEMBERED:
            del self._heard[next(iter(self._heard))]
        if state.stage in POLLED or self._is_void(state):
            self._polling.show(address, state.question.comment if state.stage is Stage.ASKED else state.plan.comment)
        else:
            self._polling.show(address, "")
        return state
