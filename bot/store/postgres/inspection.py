"""What `plangate doctor` needs to know of the database, read without changing anything."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bot.core.errors import Transient
from bot.store.postgres.database import CONNECT_SECONDS, VARIABLE, check_url, run
from bot.store.postgres.migrations import missing_migrations

if TYPE_CHECKING:
    from psycopg import AsyncConnection

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
WHERE c.relkind IN ('r', 'S') AND pg_table_is_visible(c.oid) AND c.relname ~ '^(plangate|procrastinate)_'
    AND NOT CASE c.relkind WHEN 'S' THEN has_sequence_privilege(c.oid, wanted.privilege)
        ELSE has_table_privilege(c.oid, wanted.privilege) END
ORDER BY c.relname, wanted.privilege
"""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a database says about itself."""

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
    """Those that wait for `plangate migrate --finish`."""


async def inspect(url: str) -> Inspection:
    """Return what the database says.

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
    missing = [] if denied else await missing_migrations(connection)
    return Inspection(
        **server,
        denied=denied,
        missing=tuple(migration.name for migration in missing if not migration.waits),
        unfinished=tuple(migration.name for migration in missing if migration.waits),
    )


def _reason(message: str) -> str:
    """Return the server's own words, or those of the system, from a message of libpq about one or more addresses."""
    lines = message.strip().splitlines() or [""]
    return next((line.rpartition("failed: ")[2] for line in lines if "failed: " in line), lines[0])
