"""A year of scheduled tasks: each occurrence happens exactly once, or collapses into a newer one (MT1).

Four time zones whose clocks change, clocks of machines that jump, two services, runs of the Action that come late,
twice or never, people who tick "Run now", and processes that die between any two effects. What is due is found by a
search over the minutes of the year, which shares nothing with the code.

All hundred years: make soak ARGS=tests/service/test_maintenance_year.py
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from random import Random
from typing import Any, Final, cast

import pytest

from bot.core.configuration import MaintenanceTask
from bot.core.errors import Conflict
from bot.core.moves import Entry
from bot.core.names import ThreadAddress
from bot.core.schedule import MOST_MISSED
from bot.service.maintenance_pass import MaintenancePass
from tests.core.due_minutes import due_minutes
from tests.marks import soak
from tests.service.task_world import HOME, Killed, Process, World

FIRST: Final = datetime(2026, 1, 1, tzinfo=UTC)
LAST: Final = datetime(2027, 1, 1, tzinfo=UTC)
END: Final = LAST + timedelta(days=3)
"""No clock was ever there: what is left is done then."""
BEFORE: Final = FIRST - timedelta(days=3)
ZONES: Final = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")
CHANGES: Final = tuple(
    datetime(2026, *day, tzinfo=UTC) for day in ((3, 8), (3, 29), (4, 4), (10, 3), (10, 25), (11, 1))
)
SCHEDULES: Final = ("30 2 * * *", "daily", "weekly", "*/30 1-2 * * *", "0 */6 * * *", "15 2 1,15 * *", "*/30 * * * 0")
HOURS: Final = (0, 0, 1, -1, 2, -3, 5, -8, 26)
"""By how much a machine's clock may be wrong after it jumps."""


@dataclass(slots=True)
class Totals:
    """What one year, or many, came to."""

    due: int = 0
    occurrences: int = 0
    collapsed: int = 0
    asked: int = 0
    passes: int = 0
    deaths: int = 0


@dataclass(slots=True)
class Year:
    """One year, drawn from a seed."""

    seed: int
    random: Random = field(init=False)
    world: World = field(init=False)
    services: list[Process] = field(init=False)
    at_work: set[int] = field(default_factory=set)
    totals: Totals = field(default_factory=Totals)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        tasks = [
            MaintenanceTask(
                name=f"task-{n}",
                schedule=self.random.choice(SCHEDULES),
                timezone=zone,
                prompt="Look after it.",
                check=self.random.choice([None, "github:anything"]),
            )
            for n, zone in enumerate(ZONES)
        ]
        self.world = World(tasks, FIRST, self.random)
        self.services = [Process(self.world), Process(self.world)]

    async def run(self) -> Totals:
        """Live through the year, let everything come to rest, and check what happened."""
        for moment in self._moments():
            self.world.now = moment
            await asyncio.gather(*(self._act() for _ in range(self.random.choice([1, 1, 1, 2, 3]))))
        await self._settle()
        for task in self.world.tasks:
            self._check(task)
        return self.totals

    def _moments(self) -> Iterator[datetime]:
        """Yield when something happens: now and then, often on days when clocks change, and right at due times."""
        hours = [self.random.expovariate(1 / 16) for _ in range(600)]
        found = {FIRST + timedelta(hours=since) for since in accumulate(hours)}
        found |= {day + timedelta(minutes=self.random.randrange(-600, 1800)) for day in CHANGES for _ in range(10)}
        for task in self.world.tasks:
            due = oracle(task)
            for moment in self.random.sample(due, min(len(due), 25)):
                found |= {moment - timedelta(seconds=1), moment, moment + timedelta(seconds=1)}
        return (moment for moment in sorted(found) if moment < LAST)

    async def _act(self) -> None:
        """One pass of a service or of the Action, one check of every thread, or a tick."""
        match self.random.choice("SSSSAALT"):
            case "S":
                await self._serve(self.random.randrange(2))
            case "A":
                for _ in range(self.random.choice([0, 1, 1, 2])):
                    await self._pass(Process(self.world, left=self._life()), wakes=False)
            case "L":
                await self._check_threads(Process(self.world, left=self._life()))
            case _ if self.world.issues and self.random.random() < 0.2:
                self.totals.asked += 1
                self.world.tick(self.random.choice(sorted(self.world.issues)))

    async def _serve(self, n: int) -> None:
        """Let a service make one pass. Its clock may have jumped since; a service that dies starts anew."""
        if n in self.at_work:
            return
        self.at_work.add(n)
        if self.random.random() < 0.1:
            self.services[n].ahead = timedelta(hours=self.random.choice(HOURS))
        self.services[n].left = self._life()
        if not await self._pass(self.services[n], wakes=True):
            self.services[n] = Process(self.world, ahead=self.services[n].ahead)
        self.at_work.remove(n)

    def _life(self) -> int | None:
        return self.random.randrange(60) if self.random.random() < 0.3 else None

    async def _pass(self, process: Process, *, wakes: bool) -> bool:
        """Run a pass; return whether the process survived it."""
        self.totals.passes += 1
        try:
            await MaintenancePass(cast("Any", process), HOME, wake=process.wake if wakes else None).run()
        except Killed:
            self.totals.deaths += 1
            return False
        return True

    async def _check_threads(self, process: Process) -> None:
        for number in sorted(self.world.issues):
            try:
                await process.check_thread(ThreadAddress(None, HOME.id, HOME.at.owner, HOME.at.name, number))
            except Conflict:
                continue  # another process was at it
            except Killed:
                return

    async def _settle(self) -> None:
        """Let a process with the right time do what is left."""
        self.world.now = END
        for _ in range(3):
            assert await self._pass(Process(self.world), wakes=False)

    def _check(self, task: MaintenanceTask) -> None:
        """Check the task's only journal against what was due."""
        issues = [number for number, issue in self.world.issues.items() if issue.task == task.name]
        (number,) = {at for at, entry in self.world.entries("task") if entry.body["task"] == task.name}
        assert number == min(issues)
        entries = self.world.journals[number]
        self._check_decided_once(entries)
        self._check_dues(task, entries)

    def _check_decided_once(self, entries: tuple[Entry, ...]) -> None:
        """Each occurrence that was journaled began, or ended with a reason, and not both."""
        keys = Counter(entry.body["key"] for entry in entries if entry.kind == "due")
        began = Counter(entry.body["turn"] for entry in entries if entry.kind == "requested")
        ended = Counter(entry.body["key"] for entry in entries if entry.kind == "occurrence")
        assert set(keys.values()) <= {1}
        assert began + ended == keys

    def _check_dues(self, task: MaintenanceTask, entries: tuple[Entry, ...]) -> None:
        """Between two occurrences lie as many due times as the later one says that it missed; none is left."""
        began = next(entry.at for entry in entries if entry.kind == "task")
        rows = [entry for entry in entries if entry.kind == "due" and entry.body["key"].startswith("due/")]
        times = [datetime.fromisoformat(row.body["due"]) for row in rows]
        expected = [moment for moment in oracle(task) if moment > began]
        assert times == sorted(set(times))
        assert set(times) <= set(expected)
        assert all(row.at >= time for row, time in zip(rows, times, strict=True))
        for (before, at), row in zip(pairwise([began, *times]), rows, strict=True):
            missed = sum(before < moment < at for moment in expected)
            assert row.body.get("missed", 0) == min(missed, MOST_MISSED), (task, at)
            self.totals.collapsed += missed
        assert [moment for moment in expected if not times or moment > times[-1]] == []
        self.totals.due += len(expected)
        self.totals.occurrences += len(times)


def oracle(task: MaintenanceTask) -> tuple[datetime, ...]:
    """Return when a task is due, as far as any clock goes."""
    return due_minutes(task.due_times().expression, task.timezone, BEFORE, END)


@pytest.mark.req("MT1", "MT10")
@pytest.mark.parametrize("seed", (pytest.param(1, marks=pytest.mark.long), *map(soak, range(2, 101))))
async def test_a_year(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """Every due time is an occurrence, or is counted by the next one; every occurrence is decided once."""
    caplog.set_level(logging.CRITICAL)
    totals = await Year(seed).run()
    assert totals.due == totals.occurrences + totals.collapsed
    assert totals.occurrences > 100
    assert totals.deaths > 10
