"""The migrations of the database."""

import asyncio

import pytest

from bot.core.errors import Misconfigured, Transient
from bot.store.postgres.database import Database
from bot.store.postgres.migrations import migrate, require_current


async def test_a_new_database_is_migrated_once(database_url: str) -> None:
    """However many processes migrate at once; the service refuses to begin before."""
    async with Database(database_url).open() as one, Database(database_url).open() as other:
        with pytest.raises(Misconfigured, match="run plangate migrate"):
            await require_current(one)
        first, second = sorted(await asyncio.gather(migrate(one), migrate(other)), key=len, reverse=True)
        assert first[:2] == ("procrastinate", "0001_queue.sql")
        assert second == ()
        await require_current(other)


async def test_a_migration_that_old_workers_would_not_survive_waits(database_url: str) -> None:
    """Those of procrastinate, too: they are applied when the operator says that the old workers have ended."""
    async with Database(database_url).open() as database:
        await migrate(database)
        late = "procrastinate/03.04.00_50_post_add_retry_failed_job_procedure.sql"
        await database.rows("DELETE FROM plangate_migrations WHERE name = %(name)s", name=late)
        await require_current(database)
        assert await migrate(database) == ()
        assert await migrate(database, finish=True) == (late,)


async def test_a_database_that_is_away() -> None:
    """It can be opened, and each query says so."""
    pytest.importorskip("psycopg")
    async with Database("postgresql://nobody@127.0.0.1:9/away", wait_seconds=0.1).open() as database:
        with pytest.raises(Transient, match="cannot be reached"):
            await require_current(database)


async def test_not_a_url() -> None:
    """Refused with what to write."""
    pytest.importorskip("psycopg")
    with pytest.raises(Misconfigured, match="write postgresql://"):
        async with Database("somewhere").open():
            pass
