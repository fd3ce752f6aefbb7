"""Finds what no webhook reported (W3): what changed in each repository since a cursor, and which deliveries failed."""

import asyncio
import hashlib
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from uuid import uuid4

from bot.core.errors import PlangateError, Transient
from bot.core.names import ThreadAddress
from bot.disk import sync_folder
from bot.github import activity
from bot.github.activity import CHANGED
from bot.github.app import KnownGuids, redeliver_failed
from bot.github.client import AT_ONCE, GitHubClient
from bot.github.responses import RateLimited
from bot.github.turns import MARKS
from bot.logs import say
from bot.service.connections import ServedRepository
from bot.service.github_host import GitHubHost
from bot.service.inbox import MISSED, Delivery
from bot.service.queue.queue_port import JobStore, Outcome

# --- Times up to which GitHub was read, in a file ---------------------------------------------------------------------
# `save` returns once the file is on disk, and a kill never leaves half of it.

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class Cursors:
    """Times by name. An unreadable file counts as empty, so GitHub is read again."""

    file: Path
    _times: dict[str, datetime] | None = field(default=None)

    def get(self, name: str) -> datetime | None:
        """Return the time with that name, if there is one."""
        return self._load_once().get(name)

    def set(self, name: str, at: datetime) -> None:
        """Set a time. It survives a crash once it is saved."""
        self._load_once()[name] = at

    def delete_before(self, at: datetime) -> None:
        """Remove the times before that one."""
        self._times = {name: time for name, time in self._load_once().items() if time >= at}

    def save(self) -> None:
        """Write the file. If it raises OSError, the old file remains."""
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self.file.with_name(f".{self.file.name}.{uuid4().hex}")
        try:
            with fresh.open("x") as out:
                json.dump({name: at.isoformat() for name, at in self._load_once().items()}, out)
                out.flush()
                os.fsync(out.fileno())
            fresh.replace(self.file)
        finally:
            fresh.unlink(missing_ok=True)
        sync_folder(self.file.parent)

    def _load_once(self) -> dict[str, datetime]:
        if self._times is None:
            self._times = self._read()
        return self._times

    def _read(self) -> dict[str, datetime]:
        from pydantic import TypeAdapter

        try:
            return TypeAdapter(dict[str, datetime]).validate_json(self.file.read_bytes())
        except FileNotFoundError:
            return {}
        except ValueError:
            _log.warning("%s cannot be read; what happened lately is read again", self.file)
            return {}


# --- Reading what no webhook reported (W3) ----------------------------------------------------------------------------
# Rules
# - A cursor advances only when everything found before it is on disk.
# - It advances to a moment before the reading began, so that changes within one second, and changes that GitHub showed
#   late, are read again.
# - A repository or installation that cannot be read does not stop the others, and its cursor stays.
# - One request at a time, and none if GitHub's limits leave no more than the work itself may need (E2).

FIRST_SPAN: Final = timedelta(days=1)
"""How far back a repository is read for the first time. People who asked during setup, or before the disk was lost,
still wait for an answer; older requests were abandoned or repeated."""
OVERLAP: Final = timedelta(minutes=5)
MOST_HALVED: Final = 20
"""Maximum number of batches that are retried in halves: enough to isolate three bad ones, without a storm during an
outage."""

_DELIVERIES: Final = "deliveries"

PassOn = Callable[[ThreadAddress, frozenset[str]], Awaitable[None]]
"""Stores a thread and the keys of possible turns there. They are on disk when it returns."""


@dataclass(slots=True)
class ReadingTotals:
    """Totals of one reading."""

    repositories: int = 0
    changed: int = 0
    found: int = 0
    """Threads with something that addresses the bot and that no check has seen."""
    unread: int = 0
    """Repositories or installations that could not be read."""


@dataclass(slots=True)
class Reconciler:
    """Reads everything that a host serves."""

    host: GitHubHost
    first_span: timedelta = FIRST_SPAN
    """How far back a repository without a cursor is read."""
    cursors: Cursors = field(init=False)

    def __post_init__(self) -> None:
        self.cursors = Cursors(self.host.connections.settings.data_dir / "reconciled.json")

    async def read(self, pass_on: PassOn) -> ReadingTotals:
        """Find threads with unread turns. Raises if installations cannot be listed or a finding cannot be stored."""
        totals = ReadingTotals()
        async for installation, served in self._served_installations():
            reading = _Reading(self.host, self.cursors, installation, served, pass_on, totals, self.first_span)
            try:
                await reading.read_all()
            except _NotPassedOn as stop:
                raise stop.why from None
            except PlangateError as error:
                reading.record_failure(error)
        return totals

    async def _served_installations(self) -> AsyncIterator[tuple[int | None, AsyncIterator[ServedRepository]]]:
        """Yield the served installations, each with its repositories; only those in `host.only`, if it is set."""
        connections = self.host.connections
        for at in self.host.only:
            served = await connections.repository_by_name(at)
            yield served.installation, _single(served)
        if not self.host.only:
            for installation in await connections.installations():
                yield installation, connections.served_by(installation)

    async def redeliver(self, known: KnownGuids) -> int:
        """Request redelivery of deliveries that failed since the last call. Return how many; 0 with a plain token."""
        connections, clock = self.host.connections, self.host.clock
        if not connections.settings.github.as_app:
            return 0
        began = clock.now().astimezone(UTC)
        since = self.cursors.get(_DELIVERIES) or began - FIRST_SPAN
        with closing(connections.app()) as app:
            number = await redeliver_failed(app, known, since)
        self.cursors.set(_DELIVERIES, began - OVERLAP)
        await asyncio.to_thread(self.cursors.save)
        return number


async def _single(served: ServedRepository) -> AsyncIterator[ServedRepository]:
    yield served


class _NotPassedOn(Exception):
    """A finding could not be stored, so the reading stops."""

    def __init__(self, why: Exception) -> None:
        super().__init__()
        self.why = why


@dataclass(slots=True)
class _Reading:
    """One reading of one installation."""

    host: GitHubHost
    cursors: Cursors
    installation: int | None
    served: AsyncIterator[ServedRepository]
    pass_on: PassOn
    totals: ReadingTotals
    first_span: timedelta
    halved: int = 0
    began: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.host.clock.now().astimezone(UTC)

    async def read_all(self) -> None:
        """Read every repository of the installation, a hundred at a time."""
        async for batch in self._batches():
            self.totals.repositories += len(batch)
            for repository in await self._changed_repositories(batch):
                await self._read_repository(repository)
            await asyncio.to_thread(self.cursors.save)

    def record_failure(self, error: PlangateError) -> None:
        """Count what could not be read. The next reading starts from the same cursor."""
        self.totals.unread += 1
        _log.warning("not read: %s", error)

    @property
    def _client(self) -> GitHubClient:
        return self.host.connections.poller(self.installation)

    async def _batches(self) -> AsyncIterator[list[ServedRepository]]:
        batch: list[ServedRepository] = []
        async for repository in self.served:
            batch.append(repository)
            if len(batch) == AT_ONCE:
                yield batch
                batch = []
        if batch:
            yield batch

    async def _changed_repositories(self, batch: Sequence[ServedRepository]) -> list[activity.RepositoryActivity]:
        """Return the repositories that changed since they were read. If the query fails, retries it in halves."""
        try:
            activities = await activity.repository_activities(self._client, [served.listed.node for served in batch])
        except RateLimited:
            raise
        except PlangateError as error:
            if len(batch) > 1 and self.halved < MOST_HALVED:
                self.halved, half = self.halved + 1, len(batch) // 2
                return [
                    *await self._changed_repositories(batch[:half]),
                    *await self._changed_repositories(batch[half:]),
                ]
            self.record_failure(error)
            return []
        ids = {served.listed.node: served.id for served in batch}
        # Ignore a response about a repository other than the listed one (W4).
        return [
            found
            for found in activities
            if ids.get(found.node) == found.id and found.has_changed_since(self._cursor(found))
        ]

    def _cursor(self, repository: activity.RepositoryActivity) -> datetime:
        return self.cursors.get(str(repository.id)) or self.began - self.first_span

    async def _read_repository(self, repository: activity.RepositoryActivity) -> None:
        """Read one repository, and advance its cursor."""
        self.totals.changed += 1
        try:
            await self._read(repository, self._cursor(repository))
        except RateLimited:
            raise
        except PlangateError as error:
            self.record_failure(error)
        else:
            self.cursors.set(str(repository.id), self.began - OVERLAP)

    async def _read(self, repository: activity.RepositoryActivity, since: datetime) -> None:
        identity = await self.host.identity(self.installation, repository.id, repository.address)
        async for active in activity.active_threads(self._client, repository, since):
            number = active.thread.number
            turns = self.host.heard_turns(repository.id, number)
            keys = active.unheard_keys(identity, since, turns)
            if keys:
                at = repository.address
                self.totals.found += 1
                await self._pass_on(ThreadAddress(self.installation, repository.id, at.owner, at.name, number), keys)

    async def _pass_on(self, address: ThreadAddress, keys: frozenset[str]) -> None:
        try:
            await self.pass_on(address, keys)
        except (PlangateError, OSError) as error:
            raise _NotPassedOn(error) from error


# --- Storing what no webhook reported (W3) ----------------------------------------------------------------------------
# Each thread that the reconciler finds becomes a stored delivery, once.


@dataclass(slots=True)
class MissedStore:
    """Stores what a reconciler finds."""

    reading: Reconciler
    store: JobStore
    receive: Callable[[Delivery], Awaitable[Outcome]]
    read_at: str | None = None
    """When everything was last read completely."""
    _woken: int = field(init=False, default=0)

    async def read_missed(self) -> bool:
        """Read GitHub once, and log how much was found."""
        began, self._woken = time.monotonic(), 0
        totals = await self.reading.read(self._store)
        if not totals.unread:
            self.read_at = datetime.now(UTC).isoformat(timespec="seconds")
        say(
            "missed",
            found=totals.found,
            woken=self._woken,
            moved=totals.changed,
            repositories=totals.repositories,
            unread=totals.unread,
            seconds=round(time.monotonic() - began, 1),
        )
        return True

    async def redeliver(self) -> bool:
        """Request redelivery of failed deliveries, and log how many."""
        say("redeliver", asked=await self.reading.redeliver(self.store.known_guids))
        return True

    async def _store(self, address: ThreadAddress, keys: frozenset[str]) -> None:
        """Store a thread that was found. The same finding becomes the same delivery."""
        outcome = await self.receive(Delivery(_guid(address, keys), MISSED, address))
        if outcome is Outcome.NO_ROOM:
            raise Transient(
                "a thread with missed deliveries cannot be stored",
                fix="see the error before this one; the next round tries again",
            )
        self._woken += outcome is not Outcome.DUPLICATE


def _guid(address: ThreadAddress, keys: frozenset[str]) -> str:
    about = "\n".join((str(address.repository), str(address.number), *sorted(keys)))
    return f"missed-{hashlib.sha256(about.encode()).hexdigest()[:48]}"


# --- What a job of the Action reads instead of deliveries -------------------------------------------------------------

UNHEARD_SPAN: Final = timedelta(days=3)
"""How far back jobs read. While nothing waits, one job a day reads, and GitHub may start it late or not at all."""


async def unreported_threads(host: GitHubHost) -> tuple[ThreadAddress, ...]:
    """Return the threads of the last days that address the bot with something that no journal holds (W3).

    Call `open_threads` first, because it reads the journals. A job keeps no cursor: a thread whose turns are all in its
    journal is left out, even if it changed.
    """
    threads: list[ThreadAddress] = []

    async def collect(address: ThreadAddress, keys: frozenset[str]) -> None:
        marked = any(key.startswith(MARKS) for key in host.heard_turns(address.repository, address.number))
        if not (marked and all(key.startswith(CHANGED) for key in keys)):
            threads.append(address)

    await Reconciler(host, UNHEARD_SPAN).read(collect)
    return tuple(threads)
