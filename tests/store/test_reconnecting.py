"""A server that is back is noticed at once, however long it was away."""

import asyncio

import pytest

from bot.core.errors import Transient
from bot.store.postgres.database import RETRY_SECONDS, Database
from tests.postgres import Server

AWAY_SECONDS = 10 * RETRY_SECONDS
"""The pool of the driver alone would now wait for longer than a query does."""


@pytest.mark.req("D2")
async def test_a_query_right_after_an_outage_is_answered(database_url: str, postgres: Server) -> None:
    """It waits for less than a second: the service goes on connecting at an even pace."""
    async with Database(database_url, wait_seconds=6 * RETRY_SECONDS).open() as database:
        await database.rows("SELECT 1 AS one")
        postgres.stop("immediate")
        try:
            with pytest.raises(Transient):
                await database.rows("SELECT 1 AS one")
            await asyncio.sleep(AWAY_SECONDS)
        finally:
            postgres.start()
        assert await database.rows("SELECT 1 AS one") == [{"one": 1}]


@pytest.mark.req("D2")
async def test_nothing_goes_on_connecting_afterwards(database_url: str, postgres: Server) -> None:
    """The database was closed while the server was away."""
    before = asyncio.all_tasks()
    async with Database(database_url, wait_seconds=2 * RETRY_SECONDS).open() as database:
        postgres.stop("immediate")
        try:
            with pytest.raises(Transient):
                await database.rows("SELECT 1 AS one")
        finally:
            postgres.start()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


LAST_QUERY = "SELECT query FROM pg_stat_activity WHERE pid = %(pid)s"
PID = "SELECT pg_backend_pid() AS pid"
END = "SELECT pg_terminate_backend(%(pid)s, 5000)"


@pytest.mark.req("D2")
async def test_a_connection_is_checked_without_asking_the_server(database_url: str) -> None:
    """One that is open costs no query; one that the server closed meanwhile is replaced."""
    async with Database(database_url).open() as database, Database(database_url).open() as other:
        await database.pool.wait()
        async with database.connection() as one, database.connection() as two:
            used = [await (await each.execute(PID)).fetchone() for each in (one, two)]
        async with database.connection() as connection:
            found = await other.rows(LAST_QUERY, pid=connection.info.backend_pid)
        assert found == [{"query": PID}]
        for row in used:
            assert row is not None
            await other.rows(END, pid=row["pid"])
        assert await database.rows("SELECT 2 AS two") == [{"two": 2}]
