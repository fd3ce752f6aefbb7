"""A world in memory for passes over scheduled tasks: real decisions and journals, no HTTP, git, sandbox, or model.

Each process has its own clock, and can die at any moment: before or after anything that it does to the world. The world
itself loses nothing that was done. Folded journals are shared, because folding a year for each new process takes long.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final, cast

from bot.agent.limits import Ledger
from bot.agent.permissions.tool_gate import PermissionGate
from bot.agent.resources import SessionResources
from bot.core.configuration import Configuration, MaintenanceTask
from bot.core.errors import Conflict, Refused
from bot.core.gate import Stage
from bot.core.maintenance import Tick
from bot.core.moves import Answered, Entry, Failed, MoveEvent
from bot.core.names import CommitId, ThreadAddress, ThreadNumber
from bot.core.reply_text import RUN_NOW
from bot.core.thread.state import ThreadState
from bot.core.transcript import Json
from bot.core.turn import Actor, Role, Turn
from bot.core.work import ThreadLocation
from bot.github.repository import Address, ReachableRepository
from bot.github.tasks import IssueText
from bot.service.configurations import CurrentConfiguration
from bot.service.connections import ServedRepository
from bot.service.github_host import TrackedTask
from bot.workflow.thread_run import StateCache, ThreadJournal, ThreadRun
from tests.memory_store import MemoryTranscripts

ABSENT: Final = cast("Any", None)
HOME: Final = ServedRepository(None, ReachableRepository(1, "R_1", Address("octo", "hello")))
WILL: Final = Actor(5, "will")


class Killed(BaseException):
    """The process is dead. Nothing that it would do happens."""


@dataclass(slots=True)
class TrackingIssue:
    """The tracking issue of a task, as GitHub holds it."""

    task: str
    body: str
    ticks: tuple[Tick, ...] = ()
    closed: bool = False


@dataclass(slots=True)
class World:
    """One repository: its tasks, its issues, and its journals. `now` is the true time."""

    tasks: Sequence[MaintenanceTask]
    now: datetime
    random: Random
    issues: dict[ThreadNumber, TrackingIssue] = field(default_factory=dict)
    journals: dict[ThreadNumber, tuple[Entry, ...]] = field(default_factory=dict)
    states: StateCache = field(default_factory=StateCache)

    def tick(self, number: ThreadNumber) -> None:
        """Let a person tick "Run now"."""
        self.issues[number].ticks = (Tick(RUN_NOW, WILL, self.now),)

    def entries(self, kind: str) -> list[tuple[ThreadNumber, Entry]]:
        return [(at, entry) for at, entries in self.journals.items() for entry in entries if entry.kind == kind]


@dataclass(slots=True)
class Process:
    """One process: the clock, the host, the journal, the issues, and everything else that a pass uses (its ports)."""

    world: World
    ahead: timedelta = timedelta()
    """By how much its clock is wrong."""
    left: int | None = None
    """How many moments it lives; None: for good."""

    async def moment(self) -> None:
        """Let others go on, or die."""
        for _ in range(self.world.random.randrange(3)):
            await asyncio.sleep(0)
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed

    # --- clock

    def now(self) -> datetime:
        return self.world.now + self.ahead

    def monotonic(self) -> float:
        return self.world.now.timestamp()

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(f"nothing here takes time: {seconds} s")

    # --- host

    @property
    def clock(self) -> "Process":
        return self

    async def current_configuration(self, found: ServedRepository) -> CurrentConfiguration:  # noqa: ARG002 - the port's
        await self.moment()
        return CurrentConfiguration(Configuration(maintenance=list(self.world.tasks)), "", "")

    async def tracked_tasks(self, found: ServedRepository) -> dict[str, TrackedTask]:
        await self.moment()
        tracked: dict[str, TrackedTask] = {}
        for number in sorted(self.world.journals):
            state = self.world.states.fold(found.id, number, self.world.journals[number])
            if state.task is not None:
                tracked.setdefault(state.task.task, TrackedTask(number, state.task))
        return tracked

    async def tracking_issues(self, found: ServedRepository) -> "Process":  # noqa: ARG002 - the port's
        return self

    async def roles(self, found: ServedRepository) -> "Process":  # noqa: ARG002 - the port's
        return self

    async def of(self, actor: Actor) -> Role | None:  # noqa: ARG002 - the port's
        return Role.WRITE

    async def own_recipe(self, found: ServedRepository, name: str | None) -> dict[str, str]:  # noqa: ARG002 - the port's
        return {}

    @asynccontextmanager
    async def open_run(self, address: ThreadAddress) -> AsyncIterator[ThreadRun]:
        await self.moment()
        number, journal = ThreadNumber(address.number), Journal(self)
        location = ThreadLocation(HOME.id, number, "", CommitId("a" * 40))
        resources = SessionResources(ABSENT, MemoryTranscripts(), self, PermissionGate(), Ledger())
        yield ThreadRun(
            location,
            ThreadJournal(journal, HOME.id, number, self.world.states),
            cast("Any", Thread(self, number)),
            ABSENT,
            resources,
            ABSENT,
            pulls=cast("Any", Thread(self, number)),
            tasks=cast("Any", Thread(self, number)),
        )

    async def check_thread(self, address: ThreadAddress) -> ThreadState:
        """End what was requested, as a session does; now and then it stays at work."""
        async with self.open_run(address) as run:
            await run.read()
            if run.state.stage is Stage.PLANNING and self.world.random.random() < 0.8:
                ends: list[MoveEvent] = [
                    Failed(detail="the model is down"),
                    Answered(answer="Nothing.", text_to_post=""),
                ]
                await run.append(self.world.random.choice(ends))
            return run.state

    async def read_comments(self, address: ThreadAddress) -> ThreadState:
        async with self.open_run(address) as run:
            await run.read()
            return run.state

    def wake(self, address: ThreadAddress) -> None:
        """Leave it to the next check of every thread."""

    # --- tracking issues

    async def open(self, task: str, title: str, body: str) -> ThreadNumber:  # noqa: ARG002 - the port's
        await self.moment()
        found = next((number for number, each in sorted(self.world.issues.items()) if each.task == task), None)
        await self.moment()
        if found is None:
            self.world.issues[ThreadNumber(len(self.world.issues) + 1)] = TrackingIssue(task, body)
            await self.moment()
            found = next(number for number, each in sorted(self.world.issues.items()) if each.task == task)
        return found

    async def read(self, number: ThreadNumber) -> IssueText:
        await self.moment()
        issue = self.world.issues[number]
        return IssueText(issue.body, issue.ticks)

    async def read_all(self, numbers: Sequence[ThreadNumber]) -> dict[ThreadNumber, IssueText]:
        return {number: await self.read(number) for number in numbers}

    async def show(self, number: ThreadNumber, task: str, body: str, *, shown: str) -> None:  # noqa: ARG002 - the port's
        await self.moment()
        issue = self.world.issues[number]
        if body != shown or issue.ticks:
            issue.body, issue.ticks = body, ()
        await self.moment()

    async def warn(self, number: ThreadNumber, mistake: str) -> None:
        raise AssertionError(f"the configuration of #{number} is right, and not: {mistake}")


@dataclass(slots=True)
class Journal:
    """The Journal port. An append is done or not, whatever becomes of the process."""

    process: Process
    known: dict[ThreadNumber, tuple[Entry, ...]] = field(default_factory=dict)
    """As of the last read or append of this process."""

    async def read(self, thread: ThreadNumber) -> tuple[Entry, ...]:
        await self.process.moment()
        self.known[thread] = self.process.world.journals.get(thread, ())
        return self.known[thread]

    async def cached_entries(self, thread: ThreadNumber) -> tuple[Entry, ...]:
        return self.known[thread]

    async def append(self, thread: ThreadNumber, expected: int, entries: Sequence[tuple[str, Json]]) -> int:
        await self.process.moment()
        before = self.process.world.journals.get(thread, ())
        if len(before) != expected:
            raise Conflict(f"the journal has {len(before)} entries, not {expected}", where=f"thread {thread}")
        for kind, body in entries:
            text, last = json.dumps(body), before[-1].chain_hash if before else ""
            link = hashlib.sha256(f"{last}{kind}{text}".encode()).hexdigest()
            before += (Entry(len(before) + 1, self.process.now(), str(kind), json.loads(text), link),)
        self.process.world.journals[thread] = self.known[thread] = before
        await self.process.moment()
        return len(before)

    async def threads(self) -> tuple[ThreadNumber, ...]:
        return tuple(sorted(self.process.world.journals))

    async def since(self, moment: datetime) -> Mapping[ThreadNumber, tuple[Entry, ...]]:
        entries = self.process.world.journals
        return {thread: found for thread, found in entries.items() if found and found[-1].at >= moment}


@dataclass(slots=True)
class Thread:
    """What a pass asks of a tracking issue's thread, and of the checks of its repository."""

    process: Process
    number: ThreadNumber

    async def closed_since(self, moment: datetime) -> bool:  # noqa: ARG002 - the port's
        await self.process.moment()
        return self.process.world.issues[self.number].closed

    async def asked_before(self, turn: Turn) -> Collection[str]:  # noqa: ARG002 - the port's
        return ()

    async def open_on(self, thread: ThreadNumber) -> tuple[int, ...]:  # noqa: ARG002 - the port's
        await self.process.moment()
        return ()

    async def run_check(self, name: str, options: Mapping[str, Sequence[str]], commit: CommitId) -> str:  # noqa: ARG002 - the port's
        """Find something every other time; now and then GitHub refuses."""
        await self.process.moment()
        found = self.process.world.random.choice(["", "", "Something.", "Something.", "Something.", None])
        if found is None:
            raise Refused("GitHub refused")
        return found
