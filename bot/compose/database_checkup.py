"""Database checks of `plangate doctor`: whether it is there, new enough, migrated, and open to its account."""

from collections.abc import Iterator
from typing import Final

from bot.compose.checkup import Finding
from bot.config.settings import Settings
from bot.store.postgres.inspection import Inspection, inspect

OLDEST: Final = 13
"""The oldest server that procrastinate supports. https://procrastinate.readthedocs.io/en/stable/quickstart.html"""
_SHOWN: Final = 3


async def check_database(settings: Settings) -> tuple[Finding, ...]:
    """Check the database of the settings. Returns nothing if none is set.

    Raises Misconfigured if it cannot be used from here, and Transient if there is no connection.
    """
    if not settings.database:
        return ()
    inspection = await inspect(settings.database.reveal())
    return (_server(inspection), *_tables(inspection), *_durability(inspection))


def _server(inspection: Inspection) -> Finding:
    what = f"database: PostgreSQL {inspection.version}, database {inspection.name}, account {inspection.account}"
    return Finding(what, "" if inspection.version >= OLDEST else f"install PostgreSQL {OLDEST} or newer")


def _tables(inspection: Inspection) -> Iterator[Finding]:
    """Yield whether the account may use and create the tables of this release."""
    if inspection.denied:
        rights = ", ".join(inspection.denied[:_SHOWN])
        more = f", and {len(inspection.denied) - _SHOWN} more" if inspection.denied[_SHOWN:] else ""
        cure = f"run plangate migrate as {inspection.account}, or GRANT it all privileges on all tables and sequences"
        yield Finding(f"database: the account {inspection.account} lacks {rights}{more}", cure)
        return
    if inspection.missing and not inspection.may_create:
        grant = f"GRANT CREATE ON SCHEMA {inspection.schema or 'public'} TO {inspection.account}"
        cure = f"as the owner of the database: {grant}"
        yield Finding(f"database: the account {inspection.account} may not create tables", cure)
    elif inspection.missing:
        yield Finding(f"database: lacks {', '.join(inspection.missing)}", "run plangate migrate")
    else:
        yield Finding("database: has the tables of this release, with all privileges")
    if inspection.unfinished:
        cure = "when the last process of the release before has ended, run plangate migrate --finish"
        yield Finding(f"database: {', '.join(inspection.unfinished)} waits", cure, optional=True)


def _durability(inspection: Inspection) -> Iterator[Finding]:
    if not inspection.syncs:
        what = "database: fsync is off, so that deliveries which were acknowledged are lost with its power"
        yield Finding(what, "set fsync = on in postgresql.conf", optional=True)
