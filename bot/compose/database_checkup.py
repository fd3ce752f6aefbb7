"""Database checks of `plangate doctor`: whether it is there, new enough, migrated, and open to its account."""

from collections.abc import Iterator
from typing import Final

from bot.compose.checkup import CheckupResult
from bot.config.settings import Settings
from bot.store.postgres.inspection import Inspection, inspect

OLDEST: Final = 13
"""The oldest server that procrastinate supports. https://procrastinate.readthedocs.io/en/stable/quickstart.html"""
_SHOWN: Final = 3


async def check_database(settings: Settings) -> tuple[CheckupResult, ...]:
    """Check the database of the settings. Returns nothing if none is set.

    Raises Misconfigured if it cannot be used from here, and Transient if there is no connection.
    """
    if not settings.database:
        return ()
    found = await inspect(settings.database.reveal())
    return (_server(found), *_tables(found), *_durability(found))


def _server(found: Inspection) -> CheckupResult:
    what = f"database: PostgreSQL {found.version}, database {found.name}, account {found.account}"
    return CheckupResult(what, "" if found.version >= OLDEST else f"install PostgreSQL {OLDEST} or newer")


def _tables(found: Inspection) -> Iterator[CheckupResult]:
    if found.denied:
        shown = ", ".join(found.denied[:_SHOWN])
        more = f", and {len(found.denied) - _SHOWN} more" if found.denied[_SHOWN:] else ""
        cure = f"run plangate migrate as {found.account}, or GRANT it all privileges on all tables and sequences"
        yield CheckupResult(f"database: the account {found.account} lacks {shown}{more}", cure)
        return
    if found.missing and not found.may_create:
        cure = f"as the owner of the database: GRANT CREATE ON SCHEMA {found.schema or 'public'} TO {found.account}"
        yield CheckupResult(f"database: the account {found.account} may not create tables", cure)
    elif found.missing:
        yield CheckupResult(f"database: lacks {', '.join(found.missing)}", "run plangate migrate")
    else:
        yield CheckupResult("database: has the tables of this release, with all privileges")
    if found.unfinished:
        cure = "when the last process of the release before has ended, run plangate migrate --finish"
        yield CheckupResult(f"database: {', '.join(found.unfinished)} waits", cure, optional=True)


def _durability(found: Inspection) -> Iterator[CheckupResult]:
    if not found.syncs:
        what = "database: fsync is off, so that deliveries which were acknowledged are lost with its power"
        yield CheckupResult(what, "set fsync = on in postgresql.conf", optional=True)
