"""The thread index in the database of a service on several machines, which all of its processes share."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from bot.service.overview.thread_index import Execute, ThreadIndex
from bot.store.postgres.database import CONNECT_SECONDS, as_transient

if TYPE_CHECKING:
    from psycopg import Connection

_T = TypeVar("_T")


@dataclass(slots=True)
class PostgresIndex(ThreadIndex):
    """A ThreadIndex in PostgreSQL. Every method raises Transient while the server cannot be reached."""

    url: str = field(repr=False)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    _connection: "Connection[tuple[Any, ...]] | None" = field(init=False, default=None)

    contains = "strpos(words, ?) > 0"
    elements = "SELECT jsonb_array_elements_text(?::jsonb)::bigint"

    def close(self) -> None:
        """Close the connection, if there is one. The next call opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _run(self, work: Callable[[Execute], _T]) -> _T:
        """Return what some work on the database returns, in a transaction. A broken connection is made again once."""
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
                self.url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="plangate overview"
            )
        connection = self._connection

        def execute(statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
            cursor = connection.execute(statement.replace("?", "%s").encode(), values)
            return cursor.fetchall() if cursor.description else []

        with connection.transaction():
            return work(execute)
