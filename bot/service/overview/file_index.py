"""The thread index in one SQLite file in the data directory, shared by the processes of one machine.

SQLite is in Python's standard library, reads while another process writes, and survives a kill at any moment.
https://www.sqlite.org/wal.html
"""

import logging
import os
import sqlite3
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from bot.service.overview.thread_index import Execute, ThreadIndex

FILE: Final = "overview.sqlite3"
WAIT_SECONDS: Final = 5.0
"""How long a writer waits for another process."""

_T = TypeVar("_T")
_log: Final = logging.getLogger(__name__)
_TABLES: Final = """
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
_VERSION: Final = zlib.crc32(_TABLES.encode()) & 0x7FFF_FFFF
"""Changes with the tables."""


class FileIndex(ThreadIndex):
    """A ThreadIndex in a file. A file that is damaged, or has other tables, is replaced by an empty one."""

    contains = "instr(words, ?) > 0"
    elements = "SELECT value FROM json_each(?)"

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        """Close the connection, if there is one. The next call opens it again."""
        with self._lock:
            self._close()

    def _run(self, work: Callable[[Execute], _T]) -> _T:
        """Return what some work on the database returns, in a transaction. Replaces a damaged file once."""
        with self._lock:
            try:
                return self._transact(work)
            except sqlite3.OperationalError:  # it is locked, or the disk is full: the file is whole
                raise
            except sqlite3.DatabaseError as error:
                _log.warning("%s is replaced by an empty index: %s", self._file, error)
                self._discard()
                return self._transact(work)

    def _transact(self, work: Callable[[Execute], _T]) -> _T:
        """Return what some work returns, in a transaction, which is committed unless the work raises."""
        if self._connection is None or not self._file.exists():
            self._close()
            self._connection = _connect(self._file)
        with self._connection as database:
            return work(lambda statement, values: database.execute(statement, values).fetchall())

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
        if database.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
            for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                database.execute(f'DROP TABLE "{table}"')
            for statement in filter(str.strip, _TABLES.split(";")):
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {_VERSION}")
        database.commit()
    except BaseException:
        database.close()
        raise
    return database
