"""The thread index in one SQLite file in the data directory, shared by the processes of one machine.

SQLite is in Python's standard library, reads while another process writes, and survives a kill at any moment.
https://www.sqlite.org/wal.html
"""

import json
import logging
import os
import sqlite3
import threading
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bot.core.errors import Refused
from bot.core.names import ThreadAddress
from bot.service.overview.cost_lines import Booking
from bot.service.overview.index import MOST_ROWS, Origin, ThreadPage, ThreadQuery, ThreadRecord
from bot.service.overview.views import TaskView, ThreadSummary

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FILE: Final = "overview.sqlite3"
WAIT_SECONDS: Final = 5.0
"""How long a writer waits for another process."""

_T = TypeVar("_T")
_log: Final = logging.getLogger(__name__)
_TABLES: Final = """
CREATE TABLE threads (
  repository INTEGER NOT NULL, number INTEGER NOT NULL, installation INTEGER, owner TEXT NOT NULL, name TEXT NOT NULL,
  folded TEXT NOT NULL, stage TEXT NOT NULL, waiting_for TEXT NOT NULL, updated TEXT NOT NULL, words TEXT NOT NULL,
  chain_hash TEXT NOT NULL, summary TEXT NOT NULL, task TEXT, PRIMARY KEY (repository, number)
) WITHOUT ROWID;
CREATE INDEX by_time ON threads (updated DESC, repository, number);
CREATE INDEX by_name ON threads (folded, number);
CREATE TABLE bookings (
  repository INTEGER NOT NULL, number INTEGER NOT NULL, day TEXT NOT NULL, name TEXT NOT NULL,
  folded TEXT NOT NULL, person TEXT NOT NULL, model TEXT NOT NULL,
  cost_usd REAL NOT NULL, tokens_input INTEGER NOT NULL, tokens_output INTEGER NOT NULL
);
CREATE INDEX of_thread ON bookings (repository, number);
"""


class FileIndex:
    """The ThreadIndex port on a file. A file that is damaged, or of another version, is replaced by an empty one."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._alone = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def put(self, record: ThreadRecord) -> None:
        """Store the record of a thread in place of any older one."""
        row, key = _row(record), (record.address.repository, record.address.number)

        def store(database: sqlite3.Connection) -> None:
            marks = ",".join("?" * len(row))
            database.execute(f"INSERT OR REPLACE INTO threads VALUES ({marks})", row)  # noqa: S608 - marks alone
            database.execute("DELETE FROM bookings WHERE (repository, number) = (?, ?)", key)
            rows = [(*key, each.day.isoformat(), *_amounts(each)) for each in record.bookings]
            database.executemany("INSERT INTO bookings VALUES (?,?,?,?,?,?,?,?,?,?)", rows)

        self._run(store)

    def keep_only(self, repository: int, numbers: Collection[int]) -> None:
        """Delete the records of a repository's other threads: their journals are gone."""
        gone = [(repository, number) for number in self.origins(repository) if number not in set(numbers)]
        if gone:
            self._run(lambda database: _delete(database, gone))

    def clear(self) -> None:
        """Delete every record."""
        self._run(lambda database: [database.execute(f"DELETE FROM {table}") for table in ("threads", "bookings")])  # noqa: S608

    def origins(self, repository: int) -> Mapping[int, Origin]:
        """Return what the records of a repository were computed from, by thread number."""
        rows = self._select(
            "SELECT number, chain_hash, owner || '/' || name, installation FROM threads WHERE repository = ?",
            repository,
        )
        return {number: Origin(*origin) for number, *origin in rows}

    def find(self, repository: str, number: int) -> ThreadAddress | None:
        """Return the address of a thread of the repository ``owner/name``; None if there is no record of it.

        If a repository took the name of another one, the thread that changed last is meant.
        """
        rows = self._select(
            "SELECT installation, repository, owner, name, number FROM threads WHERE folded = ? AND number = ?"
            " ORDER BY updated DESC LIMIT 1",
            repository.casefold(),
            number,
        )
        return ThreadAddress(*rows[0]) if rows else None

    def page(self, query: ThreadQuery) -> ThreadPage:
        """Return a page of threads. Raises Refused if the cursor is none of ours."""
        where, values = _filters(query)
        ((total,),) = self._select(f"SELECT count(*) FROM threads WHERE {where}", *values)  # noqa: S608 - fixed texts
        if query.after:
            updated, repository, number = _decode_cursor(query.after)
            where += " AND (updated < ? OR (updated = ? AND (repository, number) > (?, ?)))"
            values += [updated, updated, repository, number]
        limit = max(1, min(query.limit, MOST_ROWS))
        order = "ORDER BY updated DESC, repository, number LIMIT ?"
        select = f"SELECT updated, repository, number, summary FROM threads WHERE {where} {order}"  # noqa: S608
        rows = self._select(select, *values, limit + 1)
        following = _encode_cursor(rows[limit - 1][:3]) if len(rows) > limit else None
        return ThreadPage(tuple(_summaries().validate_json(row[3]) for row in rows[:limit]), total, following)

    def all_threads(self) -> Sequence[ThreadSummary]:
        """Return every thread, the ones that changed last first."""
        rows = self._select("SELECT summary FROM threads ORDER BY updated DESC, repository, number")
        return tuple(_summaries().validate_json(row[0]) for row in rows)

    def revision(self) -> object:
        """Return a value that differs once any process has changed the index.

        https://www.sqlite.org/pragma.html#pragma_data_version
        """
        ((others,),) = self._select("PRAGMA data_version")
        return id(self._connection), others, self._connection.total_changes if self._connection else 0

    def bookings(self, since: date | None, visible: Collection[str] | None) -> Iterable[Booking]:
        """Return what the threads cost since a day, added up as far as day, repository, person, and model agree."""
        where, values = _visible(visible)
        rows = self._select(
            "SELECT day, name, person, model, total(cost_usd), sum(tokens_input), sum(tokens_output) FROM bookings"  # noqa: S608
            f" WHERE day >= ? AND {where} GROUP BY day, name, person, model",
            (since or date.min).isoformat(),
            *values,
        )
        return [Booking(date.fromisoformat(day), *rest) for day, *rest in rows]

    def tasks(self, visible: Collection[str] | None) -> Sequence[TaskView]:
        """Return the scheduled tasks, by repository and name."""
        where, values = _visible(visible)
        rows = self._select(f"SELECT task FROM threads WHERE task IS NOT NULL AND {where}", *values)  # noqa: S608
        found = [_tasks().validate_json(row[0]) for row in rows]
        return sorted(found, key=lambda each: (each.repository.casefold(), each.task))

    def _select(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return self._run(lambda database: database.execute(statement, values).fetchall())

    def _run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Return what some work on the database returns, in a transaction. Replaces a damaged file once."""
        with self._alone:
            try:
                return self._transact(work)
            except sqlite3.OperationalError:  # it is locked, or the disk is full: the file is whole
                raise
            except sqlite3.DatabaseError as error:
                _log.warning("%s is replaced by an empty index: %s", self._file, error)
                self._discard()
                return self._transact(work)

    def _transact(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        with self._open() as database:
            return work(database)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection in a transaction, which is committed unless the body raises."""
        if self._connection is None or not self._file.exists():
            self._close()
            self._connection = _connect(self._file)
        with self._connection:
            yield self._connection

    def _discard(self) -> None:
        self._close()
        for suffix in ("", "-wal", "-shm"):
            self._file.with_name(f"{self._file.name}{suffix}").unlink(missing_ok=True)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _connect(file: Path) -> sqlite3.Connection:
    """Return a connection to the file, with our tables. A file of another version is emptied."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    database = sqlite3.connect(file, timeout=WAIT_SECONDS, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")  # a power failure may lose the newest records, which come again
        database.execute("BEGIN IMMEDIATE")
        if database.execute("PRAGMA user_version").fetchone()[0] != _version():
            for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                database.execute(f'DROP TABLE "{table}"')
            for statement in filter(str.strip, _TABLES.split(";")):
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {_version()}")
        database.commit()
    except BaseException:
        database.close()
        raise
    return database


def _row(record: ThreadRecord) -> tuple[object, ...]:
    """Return the columns of a record, in the order of the table."""
    address, summary, name = record.address, record.summary, record.summary.repository
    words = f"{summary.title}\n{name}#{address.number}\n{summary.requester}".casefold()
    return (
        address.repository,
        address.number,
        address.installation,
        address.owner,
        address.name,
        name.casefold(),
        str(summary.stage),
        str(summary.waiting_for),
        summary.updated.astimezone(UTC).isoformat(timespec="microseconds"),
        words,
        record.chain_hash,
        _summaries().dump_json(summary).decode(),
        _tasks().dump_json(record.task).decode() if record.task is not None else None,
    )


def _amounts(booking: Booking) -> tuple[str, str, str, str, float, int, int]:
    name = booking.repository
    return (
        name,
        name.casefold(),
        booking.person,
        booking.model,
        booking.cost_usd,
        booking.tokens_input,
        booking.tokens_output,
    )


def _delete(database: sqlite3.Connection, threads: Sequence[tuple[int, int]]) -> None:
    for table in ("threads", "bookings"):
        database.executemany(f"DELETE FROM {table} WHERE (repository, number) = (?, ?)", threads)  # noqa: S608


def _filters(query: ThreadQuery) -> tuple[str, list[object]]:
    """Return the condition of a query, and its values."""
    where, values = _visible(query.visible)
    if query.repository:
        where += " AND folded = ?"
        values.append(query.repository.casefold())
    for column, wanted in (("stage", query.stages), ("waiting_for", query.waiting_for)):
        if wanted:
            where += f" AND {column} IN ({','.join('?' * len(wanted))})"
            values += sorted(map(str, wanted))
    for word in query.search.casefold().split():
        where += " AND instr(words, ?)"
        values.append(word)
    return where, values


def _visible(visible: Collection[str] | None) -> tuple[str, list[object]]:
    """Return the condition that a row belongs to one of these repositories. JSON takes any number of them."""
    if visible is None:
        return "true", []
    return "folded IN (SELECT value FROM json_each(?))", [json.dumps([each.casefold() for each in visible])]


def _encode_cursor(place: Sequence[object]) -> str:
    return urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def _decode_cursor(text: str) -> tuple[str, int, int]:
    """Return where a page begins. Raises Refused for a text that `_encode_cursor` did not make."""
    try:
        updated, repository, number = json.loads(urlsafe_b64decode(f"{text}==="))
        at = datetime.fromisoformat(updated).astimezone(UTC)
    except (ValueError, TypeError) as error:
        raise Refused("this is no cursor of a page", where="after", fix="use `next` of the page before") from error
    if not all(isinstance(each, int) and abs(each) < 2**63 for each in (repository, number)):
        raise Refused("this is no cursor of a page", where="after", fix="use `next` of the page before")
    return at.isoformat(timespec="microseconds"), repository, number


@cache
def _version() -> int:
    """Return a number that changes with the tables and with the shape of what they hold."""
    shape = json.dumps([_TABLES, _summaries().json_schema(), _tasks().json_schema()], sort_keys=True)
    return zlib.crc32(shape.encode()) & 0x7FFF_FFFF


@cache
def _summaries() -> "TypeAdapter[ThreadSummary]":
    from pydantic import TypeAdapter

    return TypeAdapter(ThreadSummary)


@cache
def _tasks() -> "TypeAdapter[TaskView]":
    from pydantic import TypeAdapter

    return TypeAdapter(TaskView)
