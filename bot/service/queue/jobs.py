"""The jobs of the queue in PostgreSQL, and the open threads of all workers."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from bot.core.names import ThreadAddress
from bot.github.deliveries import KnownBot
from bot.service.github_host import CheckedThread, GitHubHost
from bot.service.inbox import Delivery
from bot.service.queue.queue_port import Load, Outcome, StoredDelivery
from bot.store.postgres.database import Database, as_transient, run

if TYPE_CHECKING:
    from procrastinate.manager import JobManager
    from psycopg import AsyncConnection
    from pydantic import TypeAdapter

# --- The jobs of the queue in PostgreSQL: procrastinate's tables, and the functions of the migration 0001_queue ------
# Three tasks wake a thread; `lock` keeps two of one thread from running at once, and the queueing lock keeps one of
# each
# waiting:
# - `look` (queue `looks`): carry the thread on.
# - `session` (queue `sessions`): the same, for a thread whose check found no free session slot.
# - `listen` (queue `looks`): read what people said while another job of the thread runs. It has a lock of its own.
# Installations take turns, so that many waiting jobs of one do not delay the others.
#
# A job that runs is identified by its number and its attempt. A worker that was declared dead and comes back (a paused
# machine) can neither finish nor return a job that another worker has begun again.

LOOKS, SESSIONS = "looks", "sessions"
KEPT_DAYS: Final = 4
"""Days for which the guid of a delivery is known. GitHub redelivers what is at most 3 days old.
https://docs.github.com/en/webhooks/testing-and-troubleshooting-webhooks/redelivering-webhooks
"""
UNKNOWN_SECONDS: Final = 5.0
"""Seconds for which a job that this release does not know is left to newer workers."""
EVERY: Final = "every"
_FIELDS: Final = ThreadAddress.__match_args__
_READ_FIELDS: Final = attrgetter(*_FIELDS)
_WAKE: Final = "SELECT plangate_wake_v1(%(about)s, %(args)s)"
_STORE_ALL: Final = "SELECT * FROM plangate_store_all_v1(%(guids)s, %(events)s, %(abouts)s, %(args)s)"
_WAIT: Final = "SELECT plangate_wait_v1(%(about)s, %(args)s)"
_FINISH: Final = "SELECT plangate_finish_v1(%(job)s, %(run)s) AS yes"
_RETURN: Final = "SELECT plangate_return_v1(%(job)s, %(run)s, %(seconds)s) AS yes"
_RETURN_OTHERS: Final = """
SELECT plangate_return_v1(id, attempts, 0) FROM procrastinate_jobs
WHERE worker_id = %(worker)s AND status = 'doing' AND NOT id = ANY(%(known)s)
ORDER BY regexp_replace(lock, '^listen ', ''), task_name
"""
_TAKE_OVER: Final = "SELECT plangate_take_over_v1(%(seconds)s) AS count"
_ATTACH: Final = "SELECT plangate_attach_v1(%(worker)s) AS yes"
_LOST: Final = "SELECT plangate_lost_workers_v1() AS worker"
_DISMISS: Final = "SELECT plangate_dismiss_v1(%(workers)s) AS count"
_BEAT: Final = "UPDATE procrastinate_workers SET last_heartbeat = now() WHERE id = %(worker)s RETURNING id"
_UNREGISTER: Final = "DELETE FROM procrastinate_workers WHERE id = %(worker)s"
_LEAD: Final = """
INSERT INTO plangate_leases AS lease (name, holder, until)
VALUES ('periodic work', %(holder)s, now() + make_interval(secs => %(seconds)s))
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE lease.holder = excluded.holder OR lease.until < now()
RETURNING holder
"""
_END_LEAD: Final = "DELETE FROM plangate_leases WHERE holder = %(holder)s"
_KNOWN: Final = "SELECT guid FROM plangate_deliveries WHERE guid = ANY(%(guids)s)"
_FORGET: Final = "DELETE FROM plangate_deliveries WHERE stored_at < now() - make_interval(days => %(days)s)"
_WAITING: Final = "SELECT DISTINCT lock FROM procrastinate_jobs WHERE status = 'todo' AND lock = ANY(%(locks)s)"
_BOTS: Final = """
SELECT t.about, l.bot, l.mention, (
    EXISTS (SELECT FROM plangate_watched w WHERE w.repository = t.repository AND w.number = t.number)
    OR EXISTS (SELECT FROM procrastinate_jobs j WHERE j.status = 'doing' AND j.lock IN (t.about, 'listen ' || t.about))
    OR EXISTS (
        SELECT FROM procrastinate_jobs j WHERE j.status = 'todo'
        AND j.queueing_lock IN ('look ' || t.about, 'session ' || t.about, 'listen ' || t.about)
    )
) AS is_open
FROM unnest(%(repositories)s::bigint[], %(numbers)s::bigint[], %(abouts)s::text[]) AS t (repository, number, about)
JOIN plangate_listeners l ON l.repository = t.repository
"""
_LOAD: Final = """
SELECT count(DISTINCT lock) AS busy,
    count(*) FILTER (WHERE queue_name = 'sessions' AND status = 'doing') AS sessions,
    count(*) FILTER (WHERE queue_name = 'sessions' AND status = 'todo') AS queued,
    (SELECT count(*) FROM procrastinate_workers) AS workers
FROM procrastinate_jobs WHERE status IN ('todo', 'doing')
"""
_NEWEST: Final = """
SELECT guid, event, extract(epoch FROM stored_at)::float8 AS stored_at
FROM plangate_deliveries ORDER BY plangate_deliveries.stored_at DESC LIMIT 200
"""


class Task(StrEnum):
    """What a job does."""

    CHECK = "look"
    SESSION = "session"
    READ = "listen"

    @property
    def label(self) -> str:
        """What the log calls it."""
        return {Task.CHECK: "check", Task.SESSION: "session", Task.READ: "read comments"}[self]


@dataclass(frozen=True, slots=True)
class Job:
    """One job that this process runs."""

    id: int
    run: int
    """How often it was begun before."""
    task: Task
    address: ThreadAddress | None
    """None: every open thread."""


@dataclass(frozen=True, slots=True)
class WorkerSession:
    """A session of the database that a worker keeps open: others notice at once when it ends.

    Every method raises Transient if the session has ended.
    """

    connection: "AsyncConnection[dict[str, Any]]"

    async def find_lost(self) -> frozenset[int]:
        """Return the workers whose session has ended."""
        with as_transient():
            return frozenset(row["worker"] for row in await run(self.connection, _LOST))

    async def dismiss(self, workers: Collection[int]) -> int:
        """Declare dead those of these workers that still have no session. Return how many jobs they had."""
        with as_transient():
            return int((await run(self.connection, _DISMISS, workers=list(workers)))[0]["count"])


@dataclass(slots=True)
class Jobs:
    """The jobs in one database. Every method raises Transient while the database cannot be reached."""

    database: Database
    _manager: "JobManager | None" = field(init=False, default=None)

    async def store(self, delivery: Delivery) -> Outcome:
        """Store one delivery, as `store_all` does."""
        return (await self.store_all((delivery,)))[0]

    async def store_all(self, deliveries: Sequence[Delivery]) -> Sequence[Outcome]:
        """Store deliveries and defer their checks, in one transaction. Return the outcome of each."""
        first = {delivery.guid: delivery for delivery in reversed(deliveries)}
        wakes = [_values(delivery.address) for delivery in first.values()]
        rows = await self.database.rows(
            _STORE_ALL,
            guids=list(first),
            events=[delivery.event for delivery in first.values()],
            abouts=[wake["about"] for wake in wakes],
            args=[wake["args"] for wake in wakes],
        )
        outcomes = {row["guid"]: Outcome(row["outcome"]) for row in rows}
        return [outcomes.pop(delivery.guid, Outcome.DUPLICATE) for delivery in deliveries]

    async def wake(self, address: ThreadAddress | None) -> None:
        """Make sure that a check of a thread begins after this call."""
        await self.database.rows(_WAKE, **_values(address))

    async def defer_session(self, address: ThreadAddress) -> None:
        """Have the next worker with a free session slot go on with a thread."""
        await self.database.rows(_WAIT, **_values(address))

    async def fetch(self, queues: Sequence[str], worker: int) -> Job | None:
        """Begin the next job of these queues, or return None. A waiting job of a thread with one under way is passed
        over, and one that only a newer release knows is left to its workers."""
        from procrastinate.exceptions import UniqueViolation
        from psycopg.errors import ForeignKeyViolation

        try:
            with _transient():
                row = await (await self._procrastinate()).fetch_job(list(queues), worker)
        except UniqueViolation:  # another worker began one of the same thread at this moment
            return None
        except ForeignKeyViolation:  # this worker was declared dead, as its next beat tells it
            return None
        if row is None or row.id is None:
            return None
        about = row.task_kwargs
        try:
            address = ThreadAddress(**about) if about else None  # type: ignore[arg-type]  # as `_values` wrote it
            return Job(row.id, row.attempts, Task(row.task_name), address)
        except (TypeError, ValueError):  # a worker of the next release, which runs beside this one, deferred it
            await self.give_back(Job(row.id, row.attempts, Task.CHECK, None), UNKNOWN_SECONDS)
            return None

    async def finish(self, job: Job) -> bool:
        """Remove a job. Return False if it was taken over by another worker."""
        return bool((await self.database.rows(_FINISH, job=job.id, run=job.run))[0]["yes"])

    async def give_back(self, job: Job, seconds: float) -> bool:
        """Have a job run again after some seconds. Return False if it was taken over by another worker."""
        return bool((await self.database.rows(_RETURN, job=job.id, run=job.run, seconds=seconds))[0]["yes"])

    async def give_back_others(self, worker: int, known: Collection[int]) -> None:
        """Return to the queue the jobs that a worker began without learning of it: the connection broke meanwhile."""
        await self.database.rows(_RETURN_OTHERS, worker=worker, known=list(known))

    async def register(self) -> int:
        """Register a worker, and return its number."""
        with _transient():
            return await (await self._procrastinate()).register_worker()

    async def beat(self, worker: int) -> bool:
        """Record that a worker is alive. Return False if it was declared dead, and its jobs were given to others."""
        return bool(await self.database.rows(_BEAT, worker=worker))

    async def unregister(self, worker: int) -> None:
        """Forget a worker that ends. Jobs that it still has are given to others at the next taking over."""
        await self.database.rows(_UNREGISTER, worker=worker)

    async def reclaim_stalled(self, seconds: float) -> int:
        """Return to the queue the jobs of workers that were silent for `seconds`. Return how many there were."""
        return int((await self.database.rows(_TAKE_OVER, seconds=seconds))[0]["count"])

    @asynccontextmanager
    async def attach(self, worker: int) -> AsyncIterator[WorkerSession | None]:
        """Keep a session of a worker open. Yield None if the worker was declared dead."""
        async with self.database.connection() as connection:
            try:
                is_known = (await run(connection, _ATTACH, worker=worker))[0]["yes"]
                yield WorkerSession(connection) if is_known else None
            finally:
                await connection.close()  # the lock ends with it, and the pool makes another one

    async def lead(self, holder: str, seconds: float) -> bool:
        """Take or renew the lease of the periodic work. Return False if another process holds it."""
        return bool(await self.database.rows(_LEAD, holder=holder, seconds=seconds))

    async def end_lead(self, holder: str) -> None:
        """Release the lease, if this process holds it."""
        await self.database.rows(_END_LEAD, holder=holder)

    async def known_guids(self, guids: Collection[str]) -> frozenset[str]:
        """Return which of these deliveries are stored."""
        return frozenset(row["guid"] for row in await self.database.rows(_KNOWN, guids=list(guids)))

    async def delete_deliveries(self) -> None:
        """Delete the guids of deliveries that GitHub no longer redelivers."""
        await self.database.rows(_FORGET, days=KEPT_DAYS)

    async def find_waiting(self, addresses: Sequence[ThreadAddress]) -> frozenset[ThreadAddress]:
        """Return for which of these threads a job waits."""
        by_lock = {_lock_name(address): address for address in addresses}
        rows = await self.database.rows(_WAITING, locks=list(by_lock))
        return frozenset(by_lock[row["lock"]] for row in rows)

    async def find_bots(self, addresses: Collection[ThreadAddress]) -> dict[ThreadAddress, tuple[KnownBot, bool]]:
        """Return the bot of the repositories of threads, and whether each thread is open.

        It is open if a check left something that waits there, or if a job waits or runs. Threads of a repository that
        was never checked are left out.
        """
        by_lock = {_lock_name(address): address for address in addresses}
        rows = await self.database.rows(
            _BOTS,
            repositories=[address.repository for address in by_lock.values()],
            numbers=[address.number for address in by_lock.values()],
            abouts=list(by_lock),
        )
        return {by_lock[row["about"]]: (KnownBot(row["bot"], row["mention"]), row["is_open"]) for row in rows}

    async def load(self) -> Load:
        """Return for how many threads a job waits or runs, and how many sessions run and wait."""
        return Load(**(await self.database.rows(_LOAD))[0])

    async def list_stored(self) -> Sequence[StoredDelivery]:
        """Return the 200 newest deliveries, oldest first. Neither their threads are recorded, nor whether they wait."""
        rows = await self.database.rows(_NEWEST)
        return [
            StoredDelivery(row["guid"], row["event"], None, row["stored_at"], is_waiting=False)
            for row in reversed(rows)
        ]

    async def listen(self, hear: Callable[[], None]) -> None:
        """Call `hear` for each job that any process defers, until cancelled or the connection breaks."""

        async def forward(**_: Any) -> None:
            hear()

        with _transient():
            manager = await self._procrastinate()
            await manager.listen_for_jobs(on_notification=forward, queues=(LOOKS, SESSIONS))

    async def _procrastinate(self) -> "JobManager":
        """Return procrastinate's interface to its tables, on the pool of the database."""
        if self._manager is None:
            from procrastinate import PsycopgConnector
            from procrastinate.manager import JobManager

            connector = PsycopgConnector()
            await connector.open_async(self.database.pool)  # type: ignore[arg-type]  # it sets its own row factory
            self._manager = JobManager(connector)
        return self._manager


@contextmanager
def _transient() -> Iterator[None]:
    """Raise Transient if the database is away, which procrastinate reports with errors of its own."""
    from procrastinate.exceptions import ConnectorException

    with as_transient():
        try:
            yield
        except ConnectorException as error:
            raise error.__cause__ or error from None


def _lock_name(address: ThreadAddress | None) -> str:
    return EVERY if address is None else f"thread {address.repository}/{address.number}"


def _values(address: ThreadAddress | None) -> dict[str, Any]:
    from psycopg.types.json import Jsonb

    args = {} if address is None else dict(zip(_FIELDS, _READ_FIELDS(address), strict=True))
    return {"about": _lock_name(address), "args": Jsonb(args)}


# --- The open threads of all workers: each check leaves in the database what polling and reconciling need ------------

_LISTENER: Final = """
INSERT INTO plangate_listeners (repository, bot, mention)
SELECT new.* FROM (VALUES (%(repository)s::bigint, %(bot)s::bigint, %(mention)s)) AS new (repository, bot, mention)
WHERE NOT EXISTS (
    SELECT FROM plangate_listeners l WHERE (l.repository, l.bot, l.mention) = (new.repository, new.bot, new.mention)
)
ON CONFLICT (repository) DO UPDATE SET bot = excluded.bot, mention = excluded.mention
"""
_RECORD: Final = """
INSERT INTO plangate_watched (repository, number, facts) VALUES (%(repository)s, %(number)s, %(facts)s)
ON CONFLICT (repository, number) DO UPDATE SET facts = CASE
    WHEN plangate_watched.facts -> 'comment' = excluded.facts -> 'comment' THEN plangate_watched.facts || excluded.facts
    ELSE excluded.facts
END
"""
_KEEP_POLLED: Final = """
UPDATE plangate_watched w SET facts = w.facts || jsonb_build_object('polled', new.polled)
FROM unnest(%(repositories)s::bigint[], %(numbers)s::bigint[], %(comments)s::text[], %(polled)s::text[])
    AS new (repository, number, comment, polled)
WHERE (w.repository, w.number, w.facts ->> 'comment') = (new.repository, new.number, new.comment)
"""
_FORGET_OPEN: Final = "DELETE FROM plangate_watched WHERE repository = %(repository)s AND number = %(number)s"
_ALL: Final = "SELECT facts FROM plangate_watched"


@dataclass(frozen=True, slots=True)
class Watching:
    """The recorded facts about open threads. They only save requests: a thread without any is checked instead."""

    host: GitHubHost
    database: Database
    jobs: Jobs

    async def record(self, address: ThreadAddress) -> None:
        """Record the result of this process's check of a thread, and then the bot's name there.

        In this order, so that no process skips a thread on which something waits.
        """
        checked, place = self.host.last_check(address), {"repository": address.repository, "number": address.number}
        if checked.comment or checked.rest is not None:
            facts = _reader().dump_json(checked, exclude_defaults=True).decode()  # what is unknown here stays
            await self.database.rows(_RECORD, **place, facts=facts)
        else:
            await self.database.rows(_FORGET_OPEN, **place)
        if bot := self.host.known_bot(address.repository):
            values = {"repository": address.repository, "bot": bot.id, "mention": bot.mention}
            await self.database.rows(_LISTENER, **values)

    async def threads_to_poll(self) -> tuple[ThreadAddress, ...]:
        """Return the threads with a plan or question on display, after telling the host what all checks found out.

        What this process's polls saw is recorded, so that its successor does not check every thread because of it.
        """
        recorded = [_reader().validate_python(row["facts"]) for row in await self.database.rows(_ALL)]
        for checked in recorded:
            self.host.recall(checked)
        await self._keep_polled(recorded)
        return tuple(checked.address for checked in recorded if checked.comment)

    async def _keep_polled(self, recorded: Sequence[CheckedThread]) -> None:
        known = [(checked, self.host.last_check(checked.address)) for checked in recorded]
        new = [checked for before, checked in known if checked.polled and checked.polled != before.polled]
        if new:
            await self.database.rows(
                _KEEP_POLLED,
                repositories=[checked.address.repository for checked in new],
                numbers=[checked.address.number for checked in new],
                comments=[checked.comment for checked in new],
                polled=[checked.polled for checked in new],
            )

    async def wake_all(
        self,
        wake: Callable[[ThreadAddress], Awaitable[None]],
        *,
        rests: Callable[[ThreadAddress], bool] = lambda _: False,
    ) -> int:
        """Wake every open thread, except those that rest or for which a job waits. Return how many are open."""
        await self.threads_to_poll()
        addresses = await self.host.open_threads()
        waiting = await self.jobs.find_waiting(addresses)
        for address in addresses:
            if not rests(address) and address not in waiting:
                await wake(address)
        return len(addresses)


@cache
def _reader() -> "TypeAdapter[CheckedThread]":
    from pydantic import TypeAdapter

    return TypeAdapter(CheckedThread)
