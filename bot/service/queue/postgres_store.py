"""The store in PostgreSQL: any number of processes on any number of machines store deliveries and check threads.

One row of `plangate_wakes` is one thread that does not rest: whether it waits in the line for checks (`look_turn`) or
for sessions (`session_turn`), and who checks it (`checker`, `check_run`) or reads it (`reader`, `read_run`). Each
statement is a transaction of its own. Taking a run over removes its number, so a worker that was declared dead and
comes back cannot end it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from bot.clock import SystemClock
from bot.core.errors import Transient
from bot.core.names import ThreadAddress
from bot.github.deliveries import KnownBot, needs_check
from bot.ports import Clock
from bot.service.github_host import CheckedThread, GitHubHost
from bot.service.inbox import MISSED, Delivery
from bot.service.queue.heartbeat import Heartbeat, Pace
from bot.service.queue.queue_port import Job, JobKind, JobStore, Load, Outcome, StoredDelivery
from bot.service.slots import Installation
from bot.store.postgres.database import Database
from bot.store.postgres.migrations import require_current

if TYPE_CHECKING:
    from pydantic import TypeAdapter

KEPT_DAYS: Final = 4
"""Days for which the guid of a delivery is known. GitHub redelivers what is at most 3 days old.
https://docs.github.com/en/webhooks/testing-and-troubleshooting-webhooks/redelivering-webhooks
"""
_KEYS: Final = "%(repositories)s::bigint[], %(numbers)s::bigint[]"
# Installations take turns: a new thread is placed behind the waiting threads of its installation, and level with the
# first waiting thread of any other. All statements lock threads in the order of their keys, so there is no deadlock.
_WAKE_GIVEN: Final = """
INSERT INTO plangate_wakes AS w (repository, number, installation, address, look_turn)
SELECT g.repository, g.number, g.installation, g.address, g.nth - 1 + greatest(
    (SELECT coalesce(min(look_turn), 0) FROM plangate_wakes),
    (SELECT max(l.look_turn) + 1 FROM plangate_wakes l WHERE l.installation = g.installation)
)
FROM (
    SELECT *, row_number() OVER (PARTITION BY installation ORDER BY place) AS nth
    FROM (SELECT DISTINCT ON (repository, number) * FROM given ORDER BY repository, number, place DESC) AS newest
) AS g
ORDER BY g.repository, g.number
ON CONFLICT (repository, number) DO UPDATE SET
    address = excluded.address,
    installation = CASE WHEN excluded.installation = 0 THEN w.installation ELSE excluded.installation END,
    place = CASE WHEN w.look_turn IS NULL THEN excluded.place ELSE w.place END,
    look_turn = coalesce(w.look_turn, excluded.look_turn),
    unread = true
"""
_WAKE: Final = f"""
WITH given AS (
    SELECT * FROM unnest({_KEYS}, %(installations)s::bigint[], %(addresses)s::jsonb[])
        WITH ORDINALITY AS given (repository, number, installation, address, place)
)
{_WAKE_GIVEN}"""
_STORE_ALL: Final = f"""
WITH arrived AS (
    SELECT * FROM unnest(
        %(guids)s::text[], %(events)s::text[], {_KEYS}, %(installations)s::bigint[], %(addresses)s::jsonb[]
    ) WITH ORDINALITY AS arrived (guid, event, repository, number, installation, address, place)
), new AS (
    INSERT INTO plangate_deliveries AS d (guid, event) SELECT guid, event FROM arrived ORDER BY guid
    ON CONFLICT DO NOTHING RETURNING d.guid
), given AS (SELECT arrived.* FROM arrived JOIN new USING (guid)), woken AS ({_WAKE_GIVEN})
SELECT g.guid, w.look_turn IS NOT NULL
    OR row_number() OVER (PARTITION BY g.repository, g.number ORDER BY g.place) > 1 AS has_joined
FROM given g LEFT JOIN plangate_wakes w USING (repository, number)
"""
_BEGIN: Final = """
WITH next AS (
    SELECT t.repository, t.number FROM plangate_wakes t
    WHERE {condition} AND t.installation <> ALL(%(passed_over)s)
    ORDER BY {line}, t.place LIMIT 1 FOR UPDATE OF t SKIP LOCKED
), living AS (SELECT id FROM plangate_workers WHERE id = %(worker)s FOR SHARE)
UPDATE plangate_wakes t SET unread = false, {change} FROM next, living
WHERE (t.repository, t.number) = (next.repository, next.number)
RETURNING t.repository, t.number, t.installation, t.address, t.attempts, t.{run} AS run
"""
_IS_FREE: Final = "t.check_run IS NULL AND t.read_run IS NULL AND NOT plangate_is_held_v1(t.repository, t.number)"
_CHECKED: Final = "checker = living.id, check_run = nextval('plangate_runs'), has_session = "
_FETCH: Final = {
    JobKind.CHECK: _BEGIN.format(
        condition=f"t.look_turn IS NOT NULL AND t.due <= now() AND {_IS_FREE}",
        line="t.look_turn",
        change=f"look_turn = NULL, {_CHECKED} false",
        run="check_run",
    ),
    JobKind.SESSION: _BEGIN.format(
        condition=f"t.session_turn IS NOT NULL AND t.look_turn IS NULL AND {_IS_FREE}",
        line="t.session_turn",
        change=f"session_turn = NULL, {_CHECKED} true",
        run="check_run",
    ),
    JobKind.READ: _BEGIN.format(
        condition="t.unread AND t.number > 0 AND t.look_turn IS NOT NULL AND t.read_run IS NULL"
        " AND (t.check_run IS NOT NULL OR t.due <= now())",
        line="t.look_turn",
        change="reader = living.id, read_run = nextval('plangate_runs')",
        run="read_run",
    ),
}
_IS_RUN: Final = {
    True: "repository = %(repository)s AND number = %(number)s AND read_run = %(run)s",
    False: "repository = %(repository)s AND number = %(number)s AND check_run = %(run)s",
}
_CLEAR_TOLD: Final = """
    address = CASE WHEN t.address ->> 'told' = %(told)s THEN t.address - 'told' ELSE t.address END"""
_FINISH_CHECK: Final = f"""
WITH gone AS (
    DELETE FROM plangate_wakes
    WHERE {_IS_RUN[False]} AND look_turn IS NULL AND read_run IS NULL AND NOT %(waits)s RETURNING 1
), kept AS (
    UPDATE plangate_wakes t SET check_run = NULL, attempts = 0, due = now(), {_CLEAR_TOLD},
        session_turn = CASE WHEN %(waits)s THEN coalesce(t.session_turn, greatest(
            (SELECT coalesce(min(session_turn), 0) FROM plangate_wakes),
            (SELECT max(l.session_turn) + 1 FROM plangate_wakes l WHERE l.installation = t.installation)
        )) END
    WHERE {_IS_RUN[False]} AND NOT EXISTS (SELECT FROM gone) RETURNING 1
)
SELECT 1 FROM gone UNION ALL SELECT 1 FROM kept
"""
_FINISH_READING: Final = f"""
WITH gone AS (
    DELETE FROM plangate_wakes WHERE {_IS_RUN[True]}
        AND look_turn IS NULL AND session_turn IS NULL AND check_run IS NULL RETURNING 1
), kept AS (
    UPDATE plangate_wakes t SET read_run = NULL, {_CLEAR_TOLD}
    WHERE {_IS_RUN[True]} AND NOT EXISTS (SELECT FROM gone) RETURNING 1
)
SELECT 1 FROM gone UNION ALL SELECT 1 FROM kept
"""
_GIVE_BACK_CHECK: Final = f"""
UPDATE plangate_wakes SET check_run = NULL, unread = true, attempts = attempts + 1,
    due = now() + make_interval(secs => %(seconds)s),
    look_turn = coalesce(look_turn, (SELECT coalesce(min(look_turn), 0) FROM plangate_wakes))
WHERE {_IS_RUN[False]} RETURNING 1
"""
_GIVE_BACK_READING: Final = (
    f"UPDATE plangate_wakes SET read_run = NULL, unread = true WHERE {_IS_RUN[True]} RETURNING 1"
)
_UNHEARD: Final = """
SELECT repository, number, check_run AS run, false AS is_reading FROM plangate_wakes
WHERE checker = %(worker)s AND check_run <> ALL(%(known)s)
UNION ALL
SELECT repository, number, read_run, true FROM plangate_wakes WHERE reader = %(worker)s AND read_run <> ALL(%(known)s)
"""
_WAITING: Final = f"""
SELECT repository, number FROM plangate_wakes JOIN unnest({_KEYS}) AS given (repository, number)
    USING (repository, number)
WHERE look_turn IS NOT NULL OR session_turn IS NOT NULL
"""
_LOAD: Final = """
SELECT count(*) AS busy, count(check_run) FILTER (WHERE has_session) AS sessions, count(session_turn) AS queued,
    (SELECT count(*) FROM plangate_workers) AS workers
FROM plangate_wakes
"""
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
_NEWEST: Final = """
SELECT guid, event, extract(epoch FROM stored_at)::float8 AS stored_at
FROM plangate_deliveries ORDER BY plangate_deliveries.stored_at DESC LIMIT 200
"""
_BOTS: Final = f"""
SELECT repository, number, l.bot, l.mention, (
    EXISTS (SELECT FROM plangate_watched w WHERE (w.repository, w.number) = (given.repository, given.number))
    OR EXISTS (SELECT FROM plangate_wakes w WHERE (w.repository, w.number) = (given.repository, given.number))
) AS is_open
FROM unnest({_KEYS}) AS given (repository, number) JOIN plangate_listeners l USING (repository)
"""
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
_KEEP_POLLED: Final = f"""
UPDATE plangate_watched w SET facts = w.facts || jsonb_build_object('polled', new.polled)
FROM unnest({_KEYS}, %(comments)s::text[], %(polled)s::text[]) AS new (repository, number, comment, polled)
WHERE (w.repository, w.number, w.facts ->> 'comment') = (new.repository, new.number, new.comment)
"""
_FORGET_OPEN: Final = "DELETE FROM plangate_watched WHERE repository = %(repository)s AND number = %(number)s"
_ALL: Final = "SELECT facts FROM plangate_watched"
_read_texts: Final = attrgetter("owner", "name", "told")


@dataclass(slots=True)
class PostgresStore(JobStore):
    """The store as one process sees it. Every method raises Transient while the database cannot be reached."""

    is_shared = True
    host: GitHubHost
    database: Database
    pace: Pace = Pace()
    clock: Clock = field(default_factory=SystemClock)
    news: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    heartbeat: Heartbeat = field(init=False)
    _runs: set[int] = field(init=False, default_factory=set)
    """The jobs that this process has begun."""
    _may_hold_others: bool = field(init=False, default=False)
    """Whether a fetch failed, so that a job may have begun in the database alone."""

    def __post_init__(self) -> None:
        self.heartbeat = Heartbeat(self.database, self.news, self.pace, self.clock)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Hold the database open, which may be away. Raises Misconfigured if it lacks a migration."""
        async with self.database.open():
            with suppress(Transient):
                await require_current(self.database)
            yield

    @asynccontextmanager
    async def working(self, drop: Callable[[], None]) -> AsyncIterator[None]:
        def drop_all() -> None:
            self._runs.clear()
            drop()

        async with self.heartbeat.running(drop_all):
            yield
        with suppress(Transient):
            await self._give_back_unheard()  # the fetch that was cut may have begun one
            await self.heartbeat.unregister()

    async def store_all(self, deliveries: Sequence[Delivery]) -> Sequence[Outcome]:
        bots = await self._find_bots(
            {delivery.address for delivery in deliveries if delivery.report and delivery.address}
        )
        missed = [delivery.address for delivery in deliveries if delivery.event == MISSED and delivery.address]
        # A waiting job, also one that waits for a session, reads what the reconciler found when it begins. Otherwise
        # each change of the process that reconciles would cause a check of each thread whose session waits.
        waiting = await self.find_waiting(missed) if missed else frozenset()
        outcomes = dict[str, Outcome]()
        for delivery in deliveries:
            if delivery.event == MISSED and delivery.address in waiting:
                outcomes[delivery.guid] = Outcome.JOINED
            elif not _may_need_check(delivery, bots):
                outcomes[delivery.guid] = Outcome.NOT_FOR_US
        kept = {delivery.guid: delivery for delivery in reversed(deliveries) if delivery.guid not in outcomes}
        if kept:
            values = _thread_values([delivery.address for delivery in kept.values()])
            events = [delivery.event for delivery in kept.values()]
            rows = await self.database.rows(_STORE_ALL, guids=list(kept), events=events, **values)
            new = {row["guid"]: Outcome.JOINED if row["has_joined"] else Outcome.STORED for row in rows}
            return [outcomes.get(delivery.guid) or new.pop(delivery.guid, Outcome.DUPLICATE) for delivery in deliveries]
        return [outcomes[delivery.guid] for delivery in deliveries]

    async def known_guids(self, guids: Collection[str]) -> frozenset[str]:
        return frozenset(row["guid"] for row in await self.database.rows(_KNOWN, guids=list(guids)))

    async def list_stored(self) -> Sequence[StoredDelivery]:
        """Return the 200 newest deliveries, oldest first, without their threads and without whether they wait."""
        rows = await self.database.rows(_NEWEST)
        return [
            StoredDelivery(row["guid"], row["event"], None, row["stored_at"], is_waiting=False)
            for row in reversed(rows)
        ]

    async def probe(self) -> None:
        await self.database.rows("SELECT FROM plangate_deliveries LIMIT 1")

    async def wake(self, addresses: Sequence[ThreadAddress | None]) -> None:
        if addresses:
            await self.database.rows(_WAKE, **_thread_values(addresses))

    async def fetch(self, kind: JobKind, passed_over: Collection[Installation]) -> Job | None:
        """Begin the next job. A worker that was declared dead gets none; its next beat tells it so."""
        worker = await self.heartbeat.register()
        if self._may_hold_others:
            await self._give_back_unheard()
        self._may_hold_others = True
        installations = [installation or 0 for installation in passed_over]
        rows = await self.database.rows(_FETCH[kind], worker=worker, passed_over=installations)
        self._may_hold_others = False
        if not rows:
            return None
        self._runs.add(rows[0]["run"])
        return Job(kind, _address(rows[0]), rows[0]["run"], rows[0]["attempts"], kind is JobKind.SESSION)

    async def finish(self, job: Job) -> bool:
        told = job.address.told if job.address else ""
        if job.kind is JobKind.READ:
            return await self._end(_FINISH_READING, job, told=told)
        return await self._end(_FINISH_CHECK, job, told=told, waits=job.waits_for_session)

    async def give_back(self, job: Job, seconds: float) -> bool:
        if job.kind is JobKind.READ:
            return await self._end(_GIVE_BACK_READING, job)
        return await self._end(_GIVE_BACK_CHECK, job, seconds=seconds)

    async def find_waiting(self, addresses: Sequence[ThreadAddress]) -> frozenset[ThreadAddress]:
        by_key = {_key(address): address for address in addresses}
        rows = await self.database.rows(_WAITING, **_keys(by_key))
        return frozenset(by_key[row["repository"], row["number"]] for row in rows)

    async def load(self) -> Load:
        return Load(**(await self.database.rows(_LOAD))[0])

    async def threads_to_poll(self) -> tuple[ThreadAddress, ...]:
        """Return the threads with a plan or question on display, after passing the results of all checks to the host.

        Records the results of this process's polls, so that its successor does not check every thread again.
        """
        recorded = [_reader().validate_python(row["facts"]) for row in await self.database.rows(_ALL)]
        for checked in recorded:
            self.host.recall(checked)
        await self._keep_polled(recorded)
        return tuple(checked.address for checked in recorded if checked.comment)

    async def record_check(self, address: ThreadAddress) -> None:
        """Record the result of this process's check of a thread, and then the bot's name there.

        In this order, so that no process skips a thread on which something waits.
        """
        checked, place = self.host.last_check(address), {"repository": address.repository, "number": address.number}
        if checked.comment or checked.rest is not None:
            facts = _reader().dump_json(checked, exclude_defaults=True).decode()  # the row keeps its other facts
            await self.database.rows(_RECORD, **place, facts=facts)
        else:
            await self.database.rows(_FORGET_OPEN, **place)
        if bot := self.host.known_bot(address.repository):
            values = {"repository": address.repository, "bot": bot.id, "mention": bot.mention}
            await self.database.rows(_LISTENER, **values)

    async def lead(self, holder: str, seconds: float) -> bool:
        return bool(await self.database.rows(_LEAD, holder=holder, seconds=seconds))

    async def end_lead(self, holder: str) -> None:
        await self.database.rows(_END_LEAD, holder=holder)

    async def delete_deliveries(self) -> None:
        await self.database.rows(_FORGET, days=KEPT_DAYS)

    async def _end(self, query: str, job: Job, **values: object) -> bool:
        repository, number = _key(job.address)
        rows = await self.database.rows(query, repository=repository, number=number, run=job.run, **values)
        self._runs.discard(job.run)
        return bool(rows)

    async def _give_back_unheard(self) -> None:
        """Return to the line the jobs that began in the database while the connection broke."""
        for row in await self.database.rows(_UNHEARD, worker=self.heartbeat.worker, known=list(self._runs)):
            query = _GIVE_BACK_READING if row.pop("is_reading") else _GIVE_BACK_CHECK
            await self.database.rows(query, **row, seconds=0.0)

    async def _find_bots(self, addresses: Collection[ThreadAddress]) -> dict[ThreadAddress, tuple[KnownBot, bool]]:
        """Return the bot of the repositories of threads, and whether each thread is open.

        It is open if a check left something that waits there, or if a job waits or runs. Threads of a repository that
        was never checked are left out.
        """
        by_key = {_key(address): address for address in addresses}
        rows = await self.database.rows(_BOTS, **_keys(by_key)) if by_key else ()
        return {
            by_key[row["repository"], row["number"]]: (KnownBot(row["bot"], row["mention"]), row["is_open"])
            for row in rows
        }

    async def _keep_polled(self, recorded: Sequence[CheckedThread]) -> None:
        known = [(checked, self.host.last_check(checked.address)) for checked in recorded]
        new = [checked for before, checked in known if checked.polled and checked.polled != before.polled]
        if new:
            comments, polled = [checked.comment for checked in new], [checked.polled for checked in new]
            keys = _keys([_key(checked.address) for checked in new])
            await self.database.rows(_KEEP_POLLED, **keys, comments=comments, polled=polled)


def _may_need_check(delivery: Delivery, bots: Mapping[ThreadAddress, tuple[KnownBot, bool]]) -> bool:
    """Return whether a check could find anything, as far as is known of the thread."""
    address, report = delivery.address, delivery.report
    if address is None or report is None or address not in bots:
        return True
    bot, is_open = bots[address]
    return needs_check(report, bot, is_open=is_open)


def _key(address: ThreadAddress | None) -> tuple[int, int]:
    return (0, 0) if address is None else (address.repository, address.number)


def _keys(keys: Collection[tuple[int, int]]) -> dict[str, list[int]]:
    return {"repositories": [repository for repository, _ in keys], "numbers": [number for _, number in keys]}


def _thread_values(addresses: Sequence[ThreadAddress | None]) -> dict[str, Any]:
    from psycopg.types.json import Jsonb

    installations = [address.installation or 0 if address else 0 for address in addresses]
    texts = [
        dict(zip(("owner", "name", "told"), _read_texts(address), strict=True)) if address else {}
        for address in addresses
    ]
    return {
        **_keys([_key(address) for address in addresses]),
        "installations": installations,
        "addresses": list(map(Jsonb, texts)),
    }


def _address(row: Mapping[str, Any]) -> ThreadAddress | None:
    """Return the address in a row. Ignores further fields, which a newer release may have written."""
    if not row["number"]:
        return None
    texts = row["address"]
    where = row["installation"] or None, row["repository"], texts["owner"], texts["name"], row["number"]
    return ThreadAddress(*where, texts.get("told", ""))


@cache
def _reader() -> "TypeAdapter[CheckedThread]":
    from pydantic import TypeAdapter

    return TypeAdapter(CheckedThread)
