"""The thread index, from which lists of threads are read: one set of statements for SQLite and PostgreSQL.

The journals are the source of truth. Each record names the journal entry that it was computed from, and a process
computes every record again when it first lists the threads. So losing, damaging, or altering the index loses no fact.
"""

import json
import logging
import os
import re
import sqlite3
import threading
import zlib
from abc import ABC, abstractmethod
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, date, datetime
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from bot.core.errors import Refused
from bot.core.gate import Stage
from bot.core.names import ThreadAddress
from bot.core.thread.task import TaskHistory
from bot.service.overview.agent_tree import Booking
from bot.service.overview.views import TaskThread, ThreadSummary, WaitsFor
from bot.store.postgres.database import CONNECT_SECONDS, as_transient

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MOST_ROWS: Final = 100
"""Most threads on one page."""
USUAL_ROWS: Final = 50


class RecordOrigin(NamedTuple):
    """What a record was computed from."""

    chain_hash: str
    """The chain hash of the newest entry, which covers the whole journal."""
    repository: str
    """``owner/name`` at that time."""
    installation: int | None


@dataclass(frozen=True, slots=True)
class ThreadRecord:
    """What the index keeps of one thread."""

    address: ThreadAddress
    chain_hash: str
    summary: ThreadSummary
    bookings: tuple[Booking, ...]
    task: TaskHistory | None = None
    """The scheduled task that the thread tracks."""


@dataclass(frozen=True, slots=True)
class ThreadQuery:
    """Which threads to list. An empty filter lets every thread through."""

    repository: str = ""
    """``owner/name``, in any case."""
    stages: frozenset[Stage] = frozenset()
    waiting_for: frozenset[WaitsFor] = frozenset()
    search: str = ""
    """Words that all have to be in the title, the name, the number, or the requester's login, in any case."""
    visible: Collection[int] | None = None
    """The numeric ids of the repositories that the viewer may see; None for all."""
    limit: int = USUAL_ROWS
    after: str = ""
    """`ThreadPage.next` of the page before; "" for the first page."""


@dataclass(frozen=True, slots=True)
class ThreadPage:
    """One page of threads, the ones that changed last first."""

    threads: tuple[ThreadSummary, ...]
    total: int
    """Number of threads on all pages."""
    next: str | None
    """The cursor of the next page; None on the last one."""


_T = TypeVar("_T")
Execute: TypeAlias = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]
"""Runs one statement in a transaction, with values for its question marks, and returns its rows."""
LONGEST_CURSOR: Final = 200
"""Maximum length of a cursor, so that none is nested deeply."""
_TABLES: Final = ("plangate_threads", "plangate_bookings")
_PUT: Final = """
INSERT INTO plangate_threads
  (repository, number, shape, installation, owner, name, folded, stage, waiting_for, updated, words, chain_hash,
   summary, task)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (repository, number) DO UPDATE SET
  shape = excluded.shape, installation = excluded.installation, owner = excluded.owner, name = excluded.name,
  folded = excluded.folded, stage = excluded.stage, waiting_for = excluded.waiting_for, updated = excluded.updated,
  words = excluded.words, chain_hash = excluded.chain_hash, summary = excluded.summary, task = excluded.task
"""
_BOOK: Final = "INSERT INTO plangate_bookings VALUES (?,?,?,?,?,?,?,?,?,?,?)"
_BOOKINGS: Final = (
    "SELECT day, name, person, model, sum(cost_usd), sum(tokens_input), sum(tokens_output) FROM plangate_bookings"
)


class ThreadIndex(ABC):
    """Records of threads in a database. Rows that another version stored in another shape are computed again.

    Every method blocks, and may be called from any thread and any process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: Any = None

    def close(self) -> None:
        """Close the connection, if there is one. The next call opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    @abstractmethod
    def _run(self, work: Callable[[Execute], _T]) -> _T:
        """Return what some work on the database returns, in a transaction."""

    def put(self, record: ThreadRecord) -> None:
        """Store the record of a thread in place of any older one."""
        row, key = _row(record), (record.address.repository, record.address.number)

        def store(execute: Execute) -> None:
            execute(_PUT, row)
            execute("DELETE FROM plangate_bookings WHERE (repository, number) = (?, ?)", key)
            for booking in record.bookings:
                day, name, *amounts = astuple(booking)
                execute(_BOOK, (*key, _shape_digest(), day.isoformat(), name, name.casefold(), *amounts))

        self._run(store)

    def keep_only(self, repository: int, numbers: Collection[int]) -> None:
        """Delete the records of a repository's other threads: their journals are gone."""
        gone = [(repository, number) for number in self.origins(repository).keys() - set(numbers)]
        self._delete("(repository, number) = (?, ?)", gone)

    def keep_served(self, repositories: Collection[int], unread: Collection[int | None]) -> Collection[int]:
        """Delete the records of all repositories but these and those of the `unread` installations.

        Returns the repositories whose records were deleted.
        """
        known = self._run(lambda execute: execute("SELECT DISTINCT repository, installation FROM plangate_threads", ()))
        gone = {repository for repository, by in known if repository not in repositories and by not in unread}
        self._delete("repository = ?", [(repository,) for repository in gone])
        return gone

    def clear(self) -> None:
        """Delete every record."""
        self._run(lambda execute: [execute(f"DELETE FROM {table}", ()) for table in _TABLES])  # noqa: S608

    def origins(self, repository: int) -> Mapping[int, RecordOrigin]:
        """Return what the records of a repository were computed from, by thread number."""
        rows = self._select("number, chain_hash, owner || '/' || name, installation", "repository = ?", repository)
        return {number: RecordOrigin(*origin) for number, *origin in rows}

    def find(self, repository: str, number: int, visible: Collection[int] | None = None) -> ThreadAddress | None:
        """Return the address of a thread of the repository ``owner/name``; None if there is no record of it.

        Only the visible repositories count (None: all). If several have had the name, returns the thread that changed
        last.
        """
        where, values = self._visible(visible)
        where += " AND folded = ? AND number = ? ORDER BY updated DESC LIMIT 1"
        values += [_fold(repository), number]
        rows = self._select("installation, repository, owner, name, number", where, *values)
        return ThreadAddress(*rows[0]) if rows else None

    def page(self, query: ThreadQuery) -> ThreadPage:
        """Return a page of threads. Raises Refused for a cursor that no page returned."""
        where, values = self._filters(query)
        ((total,),) = self._select("count(*)", where, *values)
        if query.after:
            updated, repository, number = _decode_cursor(query.after)
            where += " AND (updated < ? OR (updated = ? AND (repository, number) > (?, ?)))"
            values += [updated, updated, repository, number]
        limit = max(1, min(query.limit, MOST_ROWS))
        where += " ORDER BY updated DESC, repository, number LIMIT ?"
        rows = self._select("updated, repository, number, summary", where, *values, limit + 1)
        following = _encode_cursor(rows[limit - 1][:3]) if len(rows) > limit else None
        return ThreadPage(tuple(_codec(ThreadSummary).validate_json(row[3]) for row in rows[:limit]), total, following)

    def bookings(self, since: date | None, visible: Collection[int] | None) -> Iterable[Booking]:
        """Return what the threads cost since a day, added up by day, repository, person, and model."""
        where, values = self._visible(visible)
        statement = f"{_BOOKINGS} WHERE shape = ? AND day >= ? AND {where} GROUP BY day, name, person, model"
        parameters = _shape_digest(), (since or date.min).isoformat(), *values
        rows = self._run(lambda execute: execute(statement, parameters))
        return [Booking(date.fromisoformat(day), *rest) for day, *rest in rows]

    def tasks(self, visible: Collection[int] | None = None) -> Sequence[tuple[int, TaskThread]]:
        """Return the scheduled tasks, each with its repository's numeric id, by name of the repository and the task."""
        where, values = self._visible(visible)
        rows = self._select("repository, summary, task", f"{where} AND task IS NOT NULL", *values)
        threads, histories = _codec(ThreadSummary), _codec(TaskHistory)
        tasks = [(row[0], TaskThread(threads.validate_json(row[1]), histories.validate_json(row[2]))) for row in rows]
        return sorted(tasks, key=lambda row: (row[1].thread.repository.casefold(), row[1].history.task))

    def _select(self, columns: str, where: str, *values: object) -> list[tuple[Any, ...]]:
        statement = f"SELECT {columns} FROM plangate_threads WHERE shape = ? AND {where}"  # noqa: S608 - our own texts
        return self._run(lambda execute: execute(statement, (_shape_digest(), *values)))

    def _delete(self, where: str, keys: Sequence[tuple[int, ...]]) -> None:
        """Delete the rows that a condition with a key selects, for each of the keys."""

        def delete(execute: Execute) -> None:
            for table, key in product(_TABLES, keys):
                execute(f"DELETE FROM {table} WHERE {where}", key)  # noqa: S608

        if keys:
            self._run(delete)

    def _filters(self, query: ThreadQuery) -> tuple[str, list[object]]:
        """Return the condition of a query, and its values."""
        where, values = self._visible(query.visible)
        if query.repository:
            where += " AND folded = ?"
            values.append(_fold(query.repository))
        for column, choices in (("stage", query.stages), ("waiting_for", query.waiting_for)):
            if choices:
                where += f" AND {column} IN ({','.join('?' * len(choices))})"
                values += sorted(map(str, choices))
        for word in _fold(query.search).split():
            where += " AND words LIKE ? ESCAPE '!'"
            values.append("%" + re.sub("([!%_])", r"!\1", word) + "%")
        return where, values

    def _visible(self, visible: Collection[int] | None) -> tuple[str, list[object]]:
        """Return the condition that a row belongs to one of these repositories, any number of them.

        Both databases read the names in a JSON object with `json_each`.
        """
        if visible is None:
            return "true", []
        names = "SELECT CAST(key AS bigint) FROM json_each(?)"
        return f"repository IN ({names})", [json.dumps(dict.fromkeys(visible))]


def _row(record: ThreadRecord) -> tuple[object, ...]:
    """Return the columns of a record, in the order of the table."""
    address, summary, name = record.address, record.summary, record.summary.repository
    searched = f"{summary.title}\n{name}#{address.number}\n{summary.requester}".casefold()
    return (
        address.repository,
        address.number,
        _shape_digest(),
        address.installation,
        address.owner,
        address.name,
        name.casefold(),
        str(summary.stage),
        str(summary.waiting_for),
        summary.updated.astimezone(UTC).isoformat(timespec="microseconds"),
        searched,
        record.chain_hash,
        _codec(ThreadSummary).dump_json(summary).decode(),
        _codec(TaskHistory).dump_json(record.task).decode() if record.task is not None else None,
    )


def _fold(text: str) -> str:
    """Return a text in the form that is compared: case-folded, and without characters that PostgreSQL cannot hold."""
    return text.replace("\0", "\ufffd").casefold()


def _encode_cursor(place: Sequence[object]) -> str:
    return urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def _decode_cursor(text: str) -> tuple[str, int, int]:
    """Return where a page begins. Raises Refused for a text that `_encode_cursor` did not make."""
    try:
        updated, repository, number = json.loads(urlsafe_b64decode(f"{text[:LONGEST_CURSOR]}==="))
        at = datetime.fromisoformat(updated).astimezone(UTC)
        if not all(isinstance(part, int) and abs(part) < 2**63 for part in (repository, number)):
            raise TypeError("a part is no number of the database")
    except (ValueError, TypeError, OverflowError) as error:  # overflow: a time at the edge of the calendar
        raise Refused("this is not the cursor of a page", where="after", fix="use `next` of the page before") from error
    return at.isoformat(timespec="microseconds"), repository, number


@cache
def _shape_digest() -> str:
    """Return a word that changes with the structure of the stored rows."""
    schemas = json.dumps([_codec(ThreadSummary).json_schema(), _codec(TaskHistory).json_schema()], sort_keys=True)
    return f"{zlib.crc32(schemas.encode()):08x}"


@cache
def _codec(kind: type[_T]) -> "TypeAdapter[_T]":
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


# --- The index in a file, shared by processes of one machine ----------------------------------------------------------
# SQLite is in Python's standard library, reads while another process writes, and survives a kill at any moment.
# https://www.sqlite.org/wal.html

FILE: Final = "overview.sqlite3"
WAIT_SECONDS: Final = 5.0
"""How long a writer waits for another process."""


_log: Final = logging.getLogger(__name__)
_FILE_SCHEMA: Final = """
CREATE TABLE plangate_threads (
  repository INTEGER NOT NULL, number INTEGER NOT NULL, shape TEXT NOT NULL, installation INTEGER,
  owner TEXT NOT NULL, name TEXT NOT NULL, folded TEXT NOT NULL, stage TEXT NOT NULL, waiting_for TEXT NOT NULL,
  updated TEXT NOT NULL, words TEXT NOT NULL, chain_hash TEXT NOT NULL, summary TEXT NOT NULL, task TEXT,
  PRIMARY KEY (repository, number)
) WITHOUT ROWID;
CREATE INDEX by_time ON plangate_threads (updated DESC, repository, number);
CREATE INDEX by_name ON plangate_threads (folded, number);
CREATE TABLE plangate_bookings (
  repository INTEGER NOT NULL, number INTEGER NOT NULL, shape TEXT NOT NULL, day TEXT NOT NULL, name TEXT NOT NULL,
  folded TEXT NOT NULL, person TEXT NOT NULL, model TEXT NOT NULL,
  cost_usd REAL NOT NULL, tokens_input INTEGER NOT NULL, tokens_output INTEGER NOT NULL
);
CREATE INDEX of_thread ON plangate_bookings (repository, number);
"""
_VERSION: Final = zlib.crc32(_FILE_SCHEMA.encode()) & 0x7FFF_FFFF
"""A number that changes with the schema."""


class FileIndex(ThreadIndex):
    """A ThreadIndex in a file. A file that is damaged, or has other tables, is replaced by an empty one."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def _run(self, work: Callable[[Execute], _T]) -> _T:
        with self._lock:
            try:
                return self._transact(work)
            except sqlite3.OperationalError:  # it is locked, or the disk is full: the file is whole
                raise
            except sqlite3.DatabaseError as error:
                _log.warning("%s is replaced by an empty index: %s", self._file, error)
                self._close()
                for suffix in ("", "-wal", "-shm"):
                    self._file.with_name(f"{self._file.name}{suffix}").unlink(missing_ok=True)
                return self._transact(work)

    def _transact(self, work: Callable[[Execute], _T]) -> _T:
        if self._connection is None or not self._file.exists():
            self._close()
            self._connection = _connect(self._file)
        with self._connection as database:
            return work(lambda statement, values: database.execute(statement, values).fetchall())


def _connect(file: Path) -> sqlite3.Connection:
    """Return a connection to the file, with our tables. A file of another version is emptied."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    database = sqlite3.connect(file, timeout=WAIT_SECONDS, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")  # a power failure may lose the newest records, which come again
        database.execute("BEGIN IMMEDIATE")
        if database.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
            for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                database.execute(f'DROP TABLE "{table}"')
            for statement in filter(str.strip, _FILE_SCHEMA.split(";")):
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {_VERSION}")
        database.commit()
    except BaseException:
        database.close()
        raise
    return database


# --- The index in PostgreSQL, shared by all processes -----------------------------------------------------------------


class PostgresIndex(ThreadIndex):
    """A ThreadIndex in PostgreSQL. Every method raises Transient while the server cannot be reached."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    def _run(self, work: Callable[[Execute], _T]) -> _T:
        with self._lock, as_transient():
            from psycopg import InterfaceError, OperationalError

            was_open = self._connection is not None
            try:
                return self._transact(work)
            except (OperationalError, InterfaceError):
                self._connection = None
                if not was_open:
                    raise
                return self._transact(work)

    def _transact(self, work: Callable[[Execute], _T]) -> _T:
        import psycopg

        if self._connection is None:
            self._connection = psycopg.connect(
                self._url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="plangate overview"
            )
        connection = self._connection

        def execute(statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
            cursor = connection.execute(statement.replace("?", "%s").encode(), values)
            return cursor.fetchall() if cursor.description else []

        with connection.transaction():
            return work(execute)
