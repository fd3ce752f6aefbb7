"""Keeps track of which workers on one PostgreSQL are alive.

Rules
- Every BEAT_SECONDS a worker records that it is alive. One that is silent for STALLED_SECONDS is declared dead, and its
  jobs are given to others. A worker declares others dead only after its own beats have succeeded for as long, because
  during an outage of the database all are silent.
- A worker also keeps a database session open, which the server ends with the process. Others check every WATCH_SECONDS,
  and declare the worker dead once its session was missing three times in a row. A worker that only lost its connection
  opens a new session before that. A worker declares others dead only once its own session has lasted SETTLED_SECONDS,
  because after an outage all open new ones. Through the same session the worker is notified of new jobs.
- A worker that learns that it was declared dead drops its work and starts again. Until then, the journal refuses its
  appends (E4).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bot.clock import SystemClock
from bot.core.errors import Transient
from bot.logs import failure, say
from bot.ports import Clock
from bot.service.queue.queue_port import end_tasks
from bot.store.postgres.database import Database, as_transient, run

if TYPE_CHECKING:
    from psycopg import AsyncConnection

BEAT_SECONDS: Final = 5.0
STALLED_SECONDS: Final = 25.0
"""Seconds of silence after which a worker counts as dead. Its jobs begin again within 45 s, at the next beat and fetch
of another worker."""
WATCH_SECONDS: Final = 0.5
MISSES: Final = 3
"""Number of times in a row that a session must be missing before its worker counts as dead. That takes 1.5 s; a living
worker opens a new session after little more than 0.5 s."""
SETTLED_SECONDS: Final = 10.0
"""Seconds in which every worker opens a new session after an outage of the database."""
_REGISTER: Final = "INSERT INTO plangate_workers DEFAULT VALUES RETURNING id"
_BEAT: Final = "UPDATE plangate_workers SET heard = now() WHERE id = %(worker)s RETURNING id"
_UNREGISTER: Final = "DELETE FROM plangate_workers WHERE id = %(worker)s"
_DISMISS_SILENT: Final = "DELETE FROM plangate_workers WHERE heard <= now() - make_interval(secs => %(seconds)s)"
# An advisory lock on the worker's number lasts as long as the session. It is a shared one, because the session before
# may not have ended yet. 1886150759 is "plgg".
_LOCK: Final = "SELECT pg_advisory_lock_shared(1886150759, (%(worker)s %% 2147483647)::integer)"
_ATTACH: Final = "UPDATE plangate_workers SET has_session = true WHERE id = %(worker)s RETURNING id"
_LOST: Final = """
SELECT w.id FROM plangate_workers w WHERE w.has_session AND w.id % 2147483647 NOT IN (
    SELECT l.objid::bigint FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.classid = 1886150759 AND l.objsubid = 2 AND l.granted
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
)
"""
_DISMISS_LOST: Final = (
    f"DELETE FROM plangate_workers WHERE id = ANY(%(workers)s) AND id IN ({_LOST.replace('%', '%%')})"
)
# Rows are locked in the order of their keys, and rows that another process holds are skipped, so there is no deadlock.
_TAKE_OVER: Final = """
WITH lost AS (
    SELECT t.repository, t.number, t.check_run IS NOT NULL AND NOT EXISTS (
        SELECT FROM plangate_workers w WHERE w.id = t.checker
    ) AS was_checked
    FROM plangate_wakes t
    WHERE t.check_run IS NOT NULL AND NOT EXISTS (SELECT FROM plangate_workers w WHERE w.id = t.checker)
        OR t.read_run IS NOT NULL AND NOT EXISTS (SELECT FROM plangate_workers w WHERE w.id = t.reader)
    ORDER BY t.repository, t.number FOR UPDATE OF t SKIP LOCKED
), front AS (SELECT coalesce(min(look_turn), 0) AS turn FROM plangate_wakes)
UPDATE plangate_wakes t SET unread = true,
    check_run = CASE WHEN lost.was_checked THEN NULL ELSE t.check_run END,
    look_turn = CASE WHEN lost.was_checked THEN coalesce(t.look_turn, front.turn) ELSE t.look_turn END,
    read_run = CASE WHEN EXISTS (SELECT FROM plangate_workers w WHERE w.id = t.reader) THEN t.read_run END
FROM lost, front WHERE (t.repository, t.number) = (lost.repository, lost.number)
RETURNING t.number
"""


@dataclass(frozen=True, slots=True)
class Pace:
    """The intervals of a heartbeat, in seconds."""

    beat: float = BEAT_SECONDS
    stalled: float = STALLED_SECONDS
    watch: float = WATCH_SECONDS
    settled: float = SETTLED_SECONDS


@dataclass(slots=True)
class Heartbeat:
    """Keeps one worker alive in the database. Methods raise Transient while the database cannot be reached."""

    database: Database
    news: asyncio.Event
    """Set when a job may have become available."""
    pace: Pace = Pace()
    clock: Clock = field(default_factory=SystemClock)
    worker: int | None = None
    """Its number in the database, while it is registered."""
    _healthy_since: float = field(init=False, default=float("inf"))

    async def register(self) -> int:
        """Register the worker, unless it is, and return its number."""
        if self.worker is None:
            self.worker = int((await self.database.rows(_REGISTER))[0]["id"])
        return self.worker

    async def unregister(self) -> None:
        """Forget the worker. Another worker then takes over the jobs that it still has."""
        if self.worker is not None:
            await self.database.rows(_UNREGISTER, worker=self.worker)
            self.worker = None

    async def beat(self) -> bool:
        """Record that the worker is alive. Return False if it was declared dead, and its jobs were given to others."""
        return bool(await self.database.rows(_BEAT, worker=self.worker))

    async def reclaim_from_silent(self, seconds: float) -> int:
        """Release the jobs of workers that were silent for `seconds`. Return how many jobs there were."""
        await self.database.rows(_DISMISS_SILENT, seconds=seconds)
        return len(await self.database.rows(_TAKE_OVER))

    @asynccontextmanager
    async def attach(self) -> AsyncIterator["WorkerSession | None"]:
        """Keep a session of the worker open. Yield None if the worker was declared dead."""
        async with self.database.connection() as connection:
            try:
                await run(connection, _LOCK, worker=self.worker)
                is_known = bool(await run(connection, _ATTACH, worker=self.worker))
                await run(connection, "LISTEN plangate_wakes")
                yield WorkerSession(connection) if is_known else None
            finally:
                await connection.close()  # the lock ends with it, and the pool makes another one

    @asynccontextmanager
    async def running(self, drop: Callable[[], None]) -> AsyncIterator[None]:
        """Beat and watch while the context is open. Calls `drop` when the worker was declared dead."""
        loops = [asyncio.create_task(loop) for loop in (self._beat_on(drop), self._watch_on(drop))]
        try:
            yield
        finally:
            await end_tasks(loops)

    async def _beat_on(self, drop: Callable[[], None]) -> None:
        """Record again and again that this worker lives, and take over the jobs of those that do not."""
        while True:
            await self.clock.sleep(self.pace.beat)
            try:
                if (worker := self.worker) is not None and not await self.beat():
                    self._begin_anew(worker, drop)
                await self._take_over_from_silent()
            except Exception as error:  # noqa: BLE001 - the outermost shell: the next beat tries again
                failure("heartbeat", error)
                self._healthy_since = float("inf")

    async def _take_over_from_silent(self) -> None:
        now, stalled = self.clock.monotonic(), self.pace.stalled
        self._healthy_since = min(self._healthy_since, now)
        if now - self._healthy_since >= stalled and (count := await self.reclaim_from_silent(stalled)):
            say("took over the jobs of a dead worker", jobs=count)
            self.news.set()

    def _begin_anew(self, worker: int, drop: Callable[[], None]) -> None:
        """Drop all work: under this number the worker was declared dead."""
        if self.worker == worker:
            say("this worker was declared dead, and begins anew")
            self.worker = None
            drop()

    async def _watch_on(self, drop: Callable[[], None]) -> None:
        """Keep a session open again and again, and take over the jobs of workers whose session ended."""
        while True:
            try:
                if (worker := self.worker) is not None:
                    await self._watch(worker, drop)
            except Transient:
                pass  # the callers that need the database report it
            except Exception as error:  # noqa: BLE001 - the outermost shell: the next session tries again
                failure("worker session", error)
            await self.clock.sleep(self.pace.watch / 10)

    async def _watch(self, worker: int, drop: Callable[[], None]) -> None:
        """Declare workers dead whose session stays missing, as long as this worker keeps its number."""
        misses, began = dict[int, int](), self.clock.monotonic()
        async with self.attach() as session:
            if session is None:
                self._begin_anew(worker, drop)
                return
            while self.worker == worker:
                misses = {lost: misses.get(lost, 0) + 1 for lost in await session.find_lost()}
                dead = [lost for lost, count in misses.items() if count >= MISSES]
                is_settled = self.clock.monotonic() - began >= self.pace.settled
                if dead and is_settled and (count := await session.reclaim_from_lost(dead)):
                    say("took over the jobs of a worker that ended", jobs=count)
                    self.news.set()
                await session.listen(self.pace.watch, self.news)


@dataclass(frozen=True, slots=True)
class WorkerSession:
    """A database session that a worker keeps open, so that others notice at once when the worker ends.

    Every method raises Transient if the session has ended.
    """

    connection: "AsyncConnection[dict[str, Any]]"

    async def find_lost(self) -> frozenset[int]:
        """Return the workers whose session has ended."""
        with as_transient():
            return frozenset(row["id"] for row in await run(self.connection, _LOST))

    async def reclaim_from_lost(self, workers: Collection[int]) -> int:
        """Release the jobs of those of these workers that still have no session. Return how many jobs there were."""
        with as_transient():
            await run(self.connection, _DISMISS_LOST, workers=list(workers))
            return len(await run(self.connection, _TAKE_OVER))

    async def listen(self, seconds: float, news: asyncio.Event) -> None:
        """Set `news` at each notification of new jobs, for `seconds` seconds."""
        with as_transient(), suppress(TimeoutError):
            async for _ in self.connection.notifies(timeout=seconds):
                news.set()
