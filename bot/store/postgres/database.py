"""The database of the service: a pool of connections that outlives restarts of the server (D2).

psycopg is imported when a database is opened, because it belongs to the extra ``plangate[cluster]``.
"""

import asyncio
import logging
import select
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bot.core.errors import Misconfigured, Transient

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

VARIABLE: Final = "PLANGATE_DATABASE_URL"
WAIT_SECONDS: Final = 5.0
"""Seconds that a query waits for a connection. GitHub gives up on a delivery after 10."""
CONNECT_SECONDS: Final = 5
RETRY_SECONDS: Final = 0.15
"""Seconds between two attempts to connect while the server is away. Waiting queries run soon after it is back."""
LARGEST_POOL: Final = 10


@dataclass(slots=True)
class Database:
    """One database, by its URL. Every method raises Transient while the server cannot be reached."""

    url: str = field(repr=False)
    wait_seconds: float = WAIT_SECONDS
    pool: "AsyncConnectionPool[AsyncConnection[dict[str, Any]]]" = field(init=False, repr=False)
    _retries: "set[asyncio.Task[None]]" = field(init=False, repr=False, default_factory=set)

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Database"]:
        """Hold the pool open during the block. The server may be away, at the start or later: each query tries again.

        Raises Misconfigured if the driver is not installed or the URL cannot be read.
        """
        logging.getLogger("psycopg.pool").setLevel(logging.ERROR)  # each query that waits in vain reports it already
        self.pool = self._make_pool()
        await self.pool.open()
        try:
            yield self
        finally:
            for retry in self._retries:
                retry.cancel()
            await self.pool.close()

    async def rows(self, query: str, **values: object) -> list[dict[str, Any]]:
        """Run one statement in a transaction of its own, and return its rows."""
        async with self.connection() as connection:
            return await run(connection, query, **values)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator["AsyncConnection[dict[str, Any]]"]:
        """Yield a connection on which each statement is a transaction of its own."""
        with as_transient():
            async with self.pool.connection() as connection:
                yield connection

    def _make_pool(self) -> "AsyncConnectionPool[AsyncConnection[dict[str, Any]]]":
        check_url(self.url)
        from psycopg import AsyncConnection
        from psycopg.rows import dict_row
        from psycopg_pool import AsyncConnectionPool

        return AsyncConnectionPool(
            self.url,
            connection_class=AsyncConnection[dict[str, Any]],
            kwargs={
                "row_factory": dict_row,
                "connect_timeout": CONNECT_SECONDS,
                "application_name": "plangate",
                "autocommit": True,
            },
            min_size=2,
            max_size=LARGEST_POOL,
            timeout=self.wait_seconds,
            reconnect_timeout=RETRY_SECONDS,
            reconnect_failed=self._retry_soon,
            check=_check_connection,
            open=False,
        )

    async def _retry_soon(self, _: object) -> None:
        """Start `_retry` unless it runs, because the pool itself waits longer and longer, and then gives up."""
        if not self._retries:
            retry = asyncio.create_task(self._retry())
            self._retries.add(retry)
            retry.add_done_callback(self._retries.discard)

    async def _retry(self) -> None:
        """Request a connection until there is one. Each request makes the pool try to connect."""
        from psycopg_pool import PoolTimeout

        while True:
            await asyncio.sleep(RETRY_SECONDS)
            with suppress(PoolTimeout):
                async with self.pool.connection(timeout=RETRY_SECONDS):
                    return


async def run(connection: "AsyncConnection[dict[str, Any]]", query: str, **values: object) -> list[dict[str, Any]]:
    """Run one statement on a connection, and return its rows."""
    cursor = await connection.execute(query.encode(), values or None)
    return await cursor.fetchall() if cursor.description else []


async def _check_connection(connection: "AsyncConnection[dict[str, Any]]") -> None:
    """Raise an error if the server has closed the connection, so that the pool replaces it.

    A server that closes a connection sends something, at least the end of the stream. So the server is queried only if
    something has arrived here. A query before each query would double the cost.
    """
    from psycopg_pool import AsyncConnectionPool

    arrived = select.poll()
    arrived.register(connection.fileno(), select.POLLIN)
    if arrived.poll(0):
        await AsyncConnectionPool.check_connection(connection)


@contextmanager
def as_transient() -> Iterator[None]:
    """Raise Transient for an error that means the server is away, starting, or too busy."""
    from psycopg import InterfaceError, OperationalError
    from psycopg_pool import PoolClosed, PoolTimeout

    try:
        yield
    except (OperationalError, InterfaceError, PoolTimeout, PoolClosed) as error:
        raise Transient(
            "the database cannot be reached", where=VARIABLE, fix=f"check that it runs ({type(error).__name__})"
        ) from error


def check_url(url: str) -> None:
    """Raise Misconfigured if the extra with the driver is not installed, or if the URL cannot be read."""
    try:
        import psycopg_pool  # noqa: F401
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        raise Misconfigured(
            f"{error.name or 'libpq'} is not installed", where=VARIABLE, fix="pip install 'plangate[cluster]'"
        ) from None
    try:
        conninfo_to_dict(url)
    except ProgrammingError:
        fix = "write postgresql://user:password@host/database"
        raise Misconfigured("not the URL of a PostgreSQL database", where=VARIABLE, fix=fix) from None
