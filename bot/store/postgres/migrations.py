"""Numbered migrations of the database, and the facts that `plangate doctor` reads of it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from bot.core.errors import Misconfigured, Transient
from bot.store.postgres.database import CONNECT_SECONDS, VARIABLE, Database, check_url, run

if TYPE_CHECKING:
    from psycopg import AsyncConnection

# Rules of the files in `sql/`
# - `plangate migrate` runs before the new release starts. Every file must work with workers of the previous release, so
#   that old and new workers run side by side: add tables, columns with defaults, and functions with a new name.
#   tests/store/test_migrations.py refuses statements that remove anything.
# - What only the new release allows (dropping, renaming) has ``_post_`` in its file's name, and is applied by `plangate
#   migrate --finish` once the last old worker has ended. A new database has no old workers.
# - Each file is applied once, in a transaction of its own; one process migrates at a time.

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
        """Whether it must wait until no worker of the previous release runs."""
        return "_post_" in self.name


async def migrate(database: Database, *, finish: bool = False) -> tuple[str, ...]:
    """Apply the missing migrations in order, and return their names. With `finish`, also those that had to wait."""
    async with database.connection() as connection, _hold_lock(connection):
        await run(connection, _TABLE)
        missing, applied = await _unapplied_migrations(connection), list[str]()
        is_new = missing == list(_own_migrations())
        for migration in missing:
            if migration.waits and not (finish or is_new):
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


async def _unapplied_migrations(connection: "AsyncConnection[dict[str, Any]]") -> list[Migration]:
    applied = {row["name"] for row in await run(connection, "SELECT name FROM plangate_migrations")}
    return [migration for migration in _own_migrations() if migration.name not in applied]


def _own_migrations() -> Iterator[Migration]:
    files = (resources.files("bot.store.postgres") / "sql").iterdir()
    for file in sorted(files, key=lambda file: str(file.name)):
        if file.name.endswith(".sql"):
            yield Migration(file.name, file.read_text(encoding="utf-8"))


# --- What `plangate doctor` reads of the database --------------------------------------------------------------------

_SERVER: Final = """
SELECT current_setting('server_version_num')::int / 10000 AS version, current_database() AS name,
    current_user AS account, current_schema() AS schema, current_setting('fsync') = 'on' AS syncs,
    coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may_create
"""
_DENIED: Final = r"""
SELECT wanted.privilege || ' on ' || c.relname AS privilege
FROM pg_class c CROSS JOIN LATERAL unnest(
    CASE c.relkind WHEN 'S' THEN ARRAY['USAGE'] ELSE ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'] END
) AS wanted (privilege)
WHERE c.relkind IN ('r', 'S') AND pg_table_is_visible(c.oid) AND c.relname ~ '^plangate_'
    AND NOT CASE c.relkind WHEN 'S' THEN has_sequence_privilege(c.oid, wanted.privilege)
        ELSE has_table_privilege(c.oid, wanted.privilege) END
ORDER BY c.relname, wanted.privilege
"""


@dataclass(frozen=True, slots=True)
class Inspection:
    """The facts of a database that `plangate doctor` judges. Reading them changes nothing."""

    version: int
    """The major version of the server."""
    name: str
    account: str
    schema: str | None
    """Where `plangate migrate` creates tables; None if the account's search path leads nowhere."""
    syncs: bool
    """Whether what is committed survives a loss of power."""
    may_create: bool
    """Whether the account may create tables."""
    denied: tuple[str, ...]
    """The privileges on existing tables that the account lacks, such as ``INSERT on plangate_deliveries``."""
    missing: tuple[str, ...]
    """The migrations that this release needs and that were not applied. Not known, and empty, if some are denied."""
    unfinished: tuple[str, ...]
    """The migrations that wait for `plangate migrate --finish`."""


async def inspect(url: str) -> Inspection:
    """Return the facts of the database at a URL.

    Raises Misconfigured as `check_url` does, and Transient with the server's reason if there is no connection.
    """
    check_url(url)
    from psycopg import AsyncConnection, OperationalError
    from psycopg.rows import dict_row

    try:
        connection = await AsyncConnection.connect(
            url, autocommit=True, connect_timeout=CONNECT_SECONDS, row_factory=dict_row
        )
    except OperationalError as error:
        raise Transient(
            f"no connection: {_reason(str(error))}", where=VARIABLE, fix=f"check {VARIABLE}, and that the server runs"
        ) from None
    async with connection:
        return await _inspect(connection)


async def _inspect(connection: "AsyncConnection[dict[str, Any]]") -> Inspection:
    (server,) = await run(connection, _SERVER)
    denied = tuple(row["privilege"] for row in await run(connection, _DENIED))
    every, missing = list(_own_migrations()), [] if denied else await missing_migrations(connection)
    return Inspection(
        **server,
        denied=denied,
        missing=tuple(migration.name for migration in missing if not migration.waits),
        unfinished=tuple(migration.name for migration in missing if migration.waits and len(missing) < len(every)),
    )


def _reason(message: str) -> str:
    """Return the server's own words, or those of the system, from a message of libpq about one or more addresses."""
    lines = message.strip().splitlines() or [""]
    return next((line.rpartition("failed: ")[2] for line in lines if "failed: " in line), lines[0])
