"""Opens the database that the settings name, for the commands that are about it."""

from bot.config.settings import Settings
from bot.core.errors import Misconfigured
from bot.store.postgres.database import VARIABLE, Database
from bot.store.postgres.migrations import migrate, require_current


def database_of(settings: Settings) -> Database:
    """Return the database of the settings, not yet opened. Raises Misconfigured if none is set."""
    if not settings.database:
        raise Misconfigured("no database", where=VARIABLE, fix="set it to the URL of a PostgreSQL database")
    return Database(settings.database.reveal())


async def migrate_database(settings: Settings, *, finish: bool = False) -> tuple[str, ...]:
    """Apply the migrations that the database lacks, and return their names."""
    async with database_of(settings).open() as database:
        return await migrate(database, finish=finish)


async def require_database(settings: Settings) -> None:
    """Raise Misconfigured or Transient if the database of the settings cannot be used. Without one, do nothing."""
    if settings.database:
        async with database_of(settings).open() as database:
            await require_current(database)
