"""Joins the rooms for threads on GitHub: what the service, the Action and `sweep` work with.

One `GitHubHost` serves many threads. Each look builds a desk for one thread from live facts, so that nothing that is
remembered here can be stale; what is kept between looks (tokens, what git last saw) only saves time.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, Self, TextIO
from uuid import uuid4

from bot.agent.limits import Ledger
from bot.agent.session import AtHand, World
from bot.clock import SystemClock
from bot.compose.connections import Connections, Reached
from bot.compose.decoys import laid
from bot.compose.parts import (
    agents_of,
    chosen_of,
    collector_of,
    described,
    environment_at,
    gate_of,
    key_of,
    model_of,
    orders_of,
    passage_of,
    policy_of,
    sandbox_limits_of,
    web_of,
)
from bot.compose.polling import Polling
from bot.compose.resting import Resting
from bot.compose.run import Run, both
from bot.config import Settings, configuration, redactor_for
from bot.core.errors import Misconfigured, PlangateError, Refused
from bot.core.gate import AT_WORK, WAITS_FOR_PEOPLE, Stage
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.secrets.canary import Alarm
from bot.core.secrets.redaction import Redactor
from bot.github import repository, runs
from bot.github.dialogue import GitHubDialogue, Manners
from bot.github.door import Door
from bot.github.pulls import GitHubPulls
from bot.github.turns import Listener
from bot.ports import Clock, Place
from bot.store.git_journal import GitJournal
from bot.store.keys import MarkerSigner, StateKey
from bot.store.thread_refs import Change
from bot.store.transcripts import SpooledTranscripts
from bot.telemetry import Counters, Telemetry
from bot.terminal import Story
from bot.workflow import engine
from bot.workflow.desk import Desk, Orders
from bot.workflow.record import Record, replayed
from bot.workspace.mirror import Mirror, mirrors
from bot.workspace.remote import RemoteRepository
from bot.workspace.screening import Screen
from bot.workspace.workspace import GitWorkspace

if TYPE_CHECKING:
    from types import TracebackType

    from bot.agent.model.client import AnthropicModel
    from bot.configuration import Configuration

AT_REST = frozenset({Stage.LISTENING, Stage.ANSWERED, Stage.DONE, Stage.REJECTED, Stage.IN_REVIEW})
"""Stages that only people move on: such a thread is not looked at until somebody speaks."""
POLLED = WAITS_FOR_PEOPLE | AT_WORK
"""Stages in which a reaction to the plan matters: an approval, or a 👎 that stops the work; or a tick in a question."""
STILL: Final = timedelta(minutes=15)
"""A thread whose ref did not move for so long has no job at it."""
REMEMBERED: Final = 5_000
"""Threads of which it is remembered what was heard; of the others it is looked up again."""


@dataclass(frozen=True, slots=True)
class ThreadAddress:
    """One thread on GitHub, and the App installation through which it is reached (None with a plain token)."""

    installation: int | None
    repository: int
    owner: str
    name: str
    number: int
    told: str = field(default="", compare=False)
    """The key of what a delivery says was said there: a look waits a little until it is to be seen."""


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
        return self

    async def __aexit__(
        self, kind: "type[BaseException] | None", error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        """Give back the tokens and close the model's connections."""
        await self.connections.close()
        await self.model.close()

    async def look(self, address: ThreadAddress) -> Record:
        """Carry a thread on until it rests; a cancelled look is taken up by the next one."""
        at = repository.Address(address.owner, address.name)
        head = (await self.connections.reach(address.installation, address.repository, at)).refs.head
        began = self.clock.now()
        async with self.desk(address) as desk:
            record = self._noted(address, await engine.look(desk))
        self._resting.looked(address, record, began, head)
        return record

    async def listen(self, address: ThreadAddress) -> Record:
        """Only take in what people said, while another look of the same thread is under way."""
        async with self.desk(address) as desk:
            return self._noted(address, await engine.listen(desk))

    def rests(self, address: ThreadAddress) -> bool:
        """Tell whether a thread waited for people when it was looked at, and nothing became due since.

        What people do to it is polled and read (W3): another look would cost its points for nothing (E2).
        """
        return self._resting.rests(address, self.clock.now())

    async def left(self, address: ThreadAddress, run: str) -> bool:
        """Tell whether the job of another run that was at a thread must be gone; False where that is not known.

        A job that works saves what it has every half minute, between two steps; what it cannot tell GitHub's answer
        does, and where that cannot be had (a 403), a thread that stands still for STILL is nobody's.
        """
        at = repository.Address(address.owner, address.name)
        reached = await self.connections.reach(address.installation, address.repository, at)
        if run.isdigit() and await runs.over(
            self.connections.watcher(address.installation, address.repository), at, run
        ):
            return True
        moved = await asyncio.to_thread(reached.refs.moved, ThreadNumber(address.number))
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

    async def changed(self, addresses: Iterable[ThreadAddress]) -> tuple[ThreadAddress, ...]:
        """Tell whose plan, or question, got a reaction or an edit since the last call."""
        return await self._polling.changed(addresses)

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
        keys, _ = await self._configuration(reached.door, at, "HEAD")
        return Listener(await self.connections.bot(reached.door), keys.mention, frozenset(keys.ask.bots))

    def heard(self, repository: int, thread: int) -> frozenset[str]:
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
                record = self._noted(address, replayed(await journal.known(thread)))
            except PlangateError:
                continue  # another key's thread is not ours
            if record.stage not in AT_REST or record.debts or record.kept or self._is_void(record):
                found.append(address)
            self._resting.listed(address, record, reached.refs.head)
        return found

    def _is_void(self, record: Record) -> bool:
        """Tell whether somebody may yet approve a plan that lost its force: for as long as it would have had it."""
        return record.void and not record.noticed and self.clock.now() < record.plan.expires

    def _noted(self, address: ThreadAddress, record: Record) -> Record:
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

    @asynccontextmanager
    async def desk(self, address: ThreadAddress) -> AsyncIterator[Desk]:
        """Join everything for one thread, from live facts."""
        at = repository.Address(address.owner, address.name)
        reached = await self.connections.reach(address.installation, address.repository, at)
        facts = await repository.repository(reached.door, at)
        if facts.id != address.repository:
            raise Refused("the delivery names another repository", where=at.path, mend="check the webhook's sender")
        if facts.address != at:  # it was renamed since: git follows no redirect
            reached = await self.connections.reach(address.installation, address.repository, facts.address)
        keys, mistake = await self._configuration(reached.door, reached.at, facts.default_branch)
        if facts.head is None:
            mistake = "the repository has no commit yet (push one)"
        screen, passage = Screen(self.redactor, tuple(keys.secrets.examples)), passage_of(self.settings)
        source = await self._source(reached)
        workspace = GitWorkspace.on(source, self.settings.data_dir, sandbox_limits_of(keys), screen, passage=passage)
        try:
            with laid(self.settings.data_dir) as alarm:
                for value, kind in alarm.named:
                    self.redactor.learn(value, kind)
                dialogue = await self._dialogue(reached, facts, address, keys)
                rooms = (dialogue, workspace, alarm)
                async with reached.kept_fresh(), dialogue.held():
                    yield await self._joined(reached, facts, keys=keys, rooms=rooms, mistake=mistake)
        finally:
            await workspace.close()

    async def _source(self, reached: Reached) -> RemoteRepository:
        """Say how git fetches a repository: one that is large and was never fetched, without contents of its past."""
        if Mirror.of(reached.remote, mirrors(self.settings.data_dir)).path.exists():
            return reached.remote
        try:
            size = await repository.kilobytes(reached.door, reached.at)
        except Refused:  # a size that is not told is no reason not to work
            return reached.remote
        return replace(reached.remote, partial=size > self.settings.partial_clone_mb * 1024)

    async def _dialogue(
        self, reached: Reached, facts: repository.Repository, address: ThreadAddress, keys: "Configuration"
    ) -> GitHubDialogue:
        made = GitHubDialogue.on(
            reached.door,
            reached.at,
            ThreadNumber(address.number),
            bot=await self.connections.bot(reached.door),
            signer=MarkerSigner(self._key, facts.id),
            keys=self._manners(keys),
            base=facts.default_branch,
        )
        made.told, made.members = address.told, self.connections.members(address.installation)
        return made

    async def _joined(
        self,
        reached: Reached,
        facts: repository.Repository,
        *,
        keys: "Configuration",
        rooms: tuple[GitHubDialogue, GitWorkspace, Alarm],
        mistake: str,
    ) -> Desk:
        dialogue, workspace, alarm = rooms
        subject = await dialogue.subject()
        base = subject.head or facts.head or CommitId("")
        bot = await self.connections.bot(reached.door)
        workflows = self.connections.may_push_workflows(bot)
        orders = replace(self._orders(keys), refusal=mistake, workflows=workflows, run=self.run)
        world, beside = self._world(reached, facts.id, dialogue.thread, keys=keys, alarm=alarm)
        name, folder = f"{reached.at.owner}/{reached.at.name}", workspace.checkouts.shown_as
        job = described(keys, folder=folder, repository=name, clock=self.clock)
        return Desk(
            Place(facts.id, dialogue.thread, subject.title, base, facts.default_branch, branch=subject.branch),
            partial(environment_at, job, partial(_read, reached.door, reached.at, facts.default_branch)),
            GitJournal(reached.refs, facts.id, key=self._key, clock=self.clock, beside=beside),
            dialogue,
            workspace,
            world,
            orders,
            policy_of(keys, bot.id),
            GitHubPulls(reached.door, reached.at, bot),
            Telemetry(f"{facts.id}#{dialogue.thread}", self.clock, self.counters, collector_of(self.settings)).take,
            redactor=self.redactor,
            agents=partial(agents_of, workspace.mirror, facts.head) if facts.head else None,
        )

    def _world(
        self, reached: Reached, number: RepositoryId, thread: ThreadNumber, *, keys: "Configuration", alarm: Alarm
    ) -> tuple[World, Change]:
        spool = self.settings.data_dir / "transcripts"
        transcripts = SpooledTranscripts(reached.refs, number, thread, key=self._key, spool=spool)
        ledger = Ledger(self._orders(keys).budget_usd)
        at_hand = AtHand(answers=True, permits=keys.tools.requests == "comment")
        gate, web, model = gate_of(keys, sandboxed=True), web_of(keys, self.settings), chosen_of(keys, self.model)
        world = World(model, transcripts, self.clock, gate, ledger, f"{number:x}", at_hand, alarm, web)
        return world, transcripts.unsaved

    def _orders(self, keys: "Configuration") -> Orders:
        given = self.settings.overrides
        return orders_of(keys, model=given.model, max_cost_usd=given.max_cost_usd)

    async def _configuration(self, door: Door, at: repository.Address, branch: str) -> tuple["Configuration", str]:
        """Read the configuration of the default branch, and what is wrong with it ("" for nothing).

        Where it is wrong nothing is carried on, and whoever speaks to the bot is told (PR3).
        """
        given = self.settings.overrides
        mistake = ""
        try:
            keys = configuration(await _read(door, at, branch, given.path) or "", given.path)
            gate_of(keys, sandboxed=True)  # its rules can be read as well
        except Misconfigured as error:
            keys, mistake = configuration(""), str(error)
        return keys.model_copy(update={"mention": given.mention}) if given.mention else keys, mistake

    def _manners(self, keys: "Configuration") -> Manners:
        approve = keys.approve
        return Manners(
            keys.mention,
            frozenset(keys.ask.bots),
            keys.ask.untrusted_context,
            policy_of(keys, 0).role,
            approve.users,
            approve.teams,
            self.settings.github.server_url,
        )


async def look_once(settings: Settings, thread: str, out: TextIO) -> Run:
    """Look at one thread, named OWNER/REPO#N, as the service would; what its sessions do is written to `out`."""
    match = re.fullmatch(r"([\w.-]+)/([\w.-]+)#([1-9]\d{0,9})", thread)
    if match is None:
        raise Misconfigured(f"no thread: {thread!r}", where="OWNER/REPO#N", mend="write something like octo/hello#7")
    async with GitHubHost(settings) as host:
        installation, number, named = await host.find(repository.Address(match[1], match[2]))
        address = ThreadAddress(installation, number, named.owner, named.name, int(match[3]))
        story = Story(out, host.redactor)
        async with host.desk(address) as desk:
            final = await engine.look(replace(desk, listener=both(story.take, desk.listener)))
            return Run(final, desk.world.ledger, story)


async def _read(door: Door, at: repository.Address, branch: str, path: str) -> str | None:
    """Read a text file of the default branch: what a pull request says there is its author's (M2)."""
    content = await repository.file(door, at, path, branch)
    return None if content is None else content.decode(errors="replace")
