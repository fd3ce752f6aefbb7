"""Numbered migrations of the database: procrastinate's own, and the files in `sql/`.

Rules
- `plangate migrate` runs before the new release starts. Every file must work with the workers of the release before,
  so that old and new ones run side by side: add tables, columns with defaults, and functions with a new name.
  tests/store/test_migration_rules.py refuses statements that take something away.
- What only the new release allows (dropping, renaming) has ``_post_`` in its file's name, and is applied by
  `plangate migrate --finish` once the last old worker has ended. procrastinate names its files in the same way.
- Each file is applied once, in a transaction of its own; one process migrates at a time.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from bot.core.errors import Misconfigured
from bot.store.postgres.database import VARIABLE, Database, run

if TYPE_CHECKING:
    from psycopg import AsyncConnection

_LOCK: Final = "SELECT pg_advisory_lock(hashtext('plangate migrate'))"
_UNLOCK: Final = "SELECT pg_advisory_unlock_all()"
_RECORD: Final = "INSERT INTO plangate_migrations (name) VALUES (%(name)s)"
_TABLE: Final = """CREATE TABLE IF NOT EXISTS plangate_migrations (
    name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now()
)"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of SQL."""

    name: str
    sql: str

    @property
    def waits(self) -> bool:
        """Whether workers of the release before could not go on after it."""
        return "_post_" in self.name


async def migrate(database: Database, *, finish: bool = False) -> tuple[str, ...]:
    """Apply what is missing, in order, and return the names. With `finish`, also what had to wait for old workers."""
    async with database.connection() as connection, _hold_lock(connection):
        await run(connection, _TABLE)
        applied = await _install_procrastinate(connection)
        for migration in await _unapplied_migrations(connection):
            if migration.waits and not finish:
                continue
            async with connection.transaction():
                await run(connection, migration.sql)
                await run(connection, _RECORD, name=migration.name)
            applied.append(migration.name)
    return tuple(applied)


@asynccontextmanager
async def _hold_lock(connection: "AsyncConnection[dict[str, Any]]") -> AsyncIterator[None]:
    """Keep other processes from migrating."""
    await run(connection, _LOCK)
    try:
        yield
    finally:
        await run(connection, _UNLOCK)


async def require_current(database: Database) -> None:
    """Raise Misconfigured if a migration is missing that this release needs. Newer ones do no harm."""
    async with database.connection() as connection:
        missing = await missing_migrations(connection)
    if lacking := [migration.name for migration in missing if not migration.waits]:
        raise Misconfigured(f"the database lacks {', '.join(lacking)}", where=VARIABLE, fix="run plangate migrate")


async def missing_migrations(connection: "AsyncConnection[dict[str, Any]]") -> list[Migration]:
    """Return the migrations that were not applied, in order."""
    has_table = await run(connection, "SELECT to_regclass('plangate_migrations') IS NOT NULL AS yes")
    return await _unapplied_migrations(connection) if has_table[0]["yes"] else list(_own_migrations())


async def _install_procrastinate(connection: "AsyncConnection[dict[str, Any]]") -> list[str]:
    """Install procrastinate's tables into a new database. Its schema includes all migrations that it ships with."""
    if (await run(connection, "SELECT to_regclass('procrastinate_jobs') IS NOT NULL AS yes"))[0]["yes"]:
        return []
    from procrastinate.schema import SchemaManager

    async with connection.transaction():
        await run(connection, SchemaManager.get_schema())
        for migration in _procrastinate_migrations():
            await run(connection, _RECORD, name=migration.name)
    return ["procrastinate"]


async def _unapplied_migrations(connection: "AsyncConnection[dict[str, Any]]") -> list[Migration]:
    applied = {row["name"] for row in await run(connection, "SELECT name FROM plangate_migrations")}
    return [
        migration for migration in (*_procrastinate_migrations(), *_own_migrations()) if migration.name not in applied
    ]


def _procrastinate_migrations() -> Iterator[Migration]:
    return _files("procrastinate.sql", "migrations", prefix="procrastinate/")


def _own_migrations() -> Iterator[Migration]:
    return _files("bot.store.postgres", "sql")


def _files(package: str, folder: str, *, prefix: str = "") -> Iterator[Migration]:
    files: Sequence[Any] = [*(resources.files(package) / folder).iterdir()]
    for file in sorted(files, key=lambda file: str(file.name)):
        if file.name.endswith(".sql"):
            yield Migration(prefix + file.name, file.read_text(encoding="utf-8"))
