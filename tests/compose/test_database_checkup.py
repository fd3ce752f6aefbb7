"""What the doctor learns of the database of several workers, with the cure of each thing that is missing."""

import asyncio
from collections.abc import Iterator
from importlib import resources

import pytest

from bot.cli.doctor import _database
from bot.compose.checkup import Finding
from bot.config.settings import Secret, Settings
from bot.store.postgres.database import Database
from bot.store.postgres.migrations import migrate
from tests.postgres import Server, running_server

OWNER = "nobody"
OURS = sorted(each.name for each in (resources.files("bot.store.postgres") / "sql").iterdir())


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Server]:
    """A server of which the doctor has nothing to say: it syncs what it commits."""
    shared = None if worker_id == "master" else tmp_path_factory.getbasetemp().parent
    with running_server(is_durable=True, shared=shared) as server:
        yield server


def found(url: str) -> list[Finding]:
    """Return what the doctor finds about a database."""
    return list(_database(Settings(database=Secret(url))))


def bad(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(each.what, each.cure) for each in findings if not each.good]


async def execute(url: str, *statements: str, migrated: bool = True) -> None:
    """Migrate a database, and run some statements in it."""
    async with Database(url).open() as database:
        if migrated:
            await migrate(database)
        for each in statements:
            await database.rows(each)


def test_none_is_set() -> None:
    """Then there is nothing to say."""
    assert found("") == []


async def test_all_is_well(database_url: str) -> None:
    """The server, its database, and the account are named; the password is not."""
    await execute(database_url)
    server, tables = await in_thread(database_url)
    assert server.good
    assert server.what.endswith(f"database {database_url.rpartition('/')[2]}, account {OWNER}")
    assert (tables.good, tables.what) == (True, "database: has the tables of this release, with all privileges")


async def test_before_migrate(database_url: str) -> None:
    """An empty database, or one of the release before."""
    ((what, cure),) = bad(await in_thread(database_url))
    needed = [name for name in OURS if "_post_" not in name]
    assert (what, cure) == (f"database: lacks {', '.join(needed)}", "run plangate migrate")
    newest = needed[-1]
    await execute(database_url, f"DELETE FROM plangate_migrations WHERE name = '{newest}'")  # noqa: S608
    assert bad(await in_thread(database_url)) == [(f"database: lacks {newest}", "run plangate migrate")]


async def test_after_a_newer_migrate(database_url: str) -> None:
    """Newer migrations do no harm; what waits for old workers is no failure."""
    late = next(name for name in OURS if "_post_" in name)
    statements = ("INSERT INTO plangate_migrations VALUES ('9999_next.sql')",)
    delete = f"DELETE FROM plangate_migrations WHERE name = '{late}'"  # noqa: S608
    await execute(database_url, *statements, delete)
    findings = await in_thread(database_url)
    assert [(each.what, each.optional) for each in findings if not each.good] == [(f"database: {late} waits", True)]


async def test_an_account_without_privileges(postgres: Server, database_url: str) -> None:
    """What it lacks is named, before anything fails because of it."""
    name = database_url.rpartition("/")[2]
    url = database_url.replace(f"{OWNER}@", f"guest_{name}@")
    await execute(database_url, f"CREATE ROLE guest_{name} LOGIN", migrated=False)
    ((what, cure),) = bad(await in_thread(url))
    assert what == f"database: the account guest_{name} may not create tables"
    assert cure == f"as the owner of the database: GRANT CREATE ON SCHEMA public TO guest_{name}"
    await execute(database_url, f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest_{name}")
    ((what, cure),) = bad(await in_thread(url))
    assert what.startswith(f"database: the account guest_{name} lacks DELETE on plangate_bookings, INSERT on")
    assert f"run plangate migrate as guest_{name}, or GRANT" in cure
    everything = "GRANT ALL ON ALL {} IN SCHEMA public TO guest_" + name
    await execute(database_url, everything.format("TABLES"), everything.format("SEQUENCES"))
    assert bad(await in_thread(url)) == []


@pytest.mark.parametrize(
    ("url", "reason"),
    (
        ("postgresql://somebody:hidden@127.0.0.1:9/away", "Connection refused"),
        ("postgresql://nobody:hidden@127.0.0.1:{port}/none", 'database "none" does not exist'),
        ("postgresql://stranger:hidden@127.0.0.1:{port}/postgres", 'role "stranger" does not exist'),
        ("postgresql://somebody:hidden@no-such-host.invalid/away", "no-such-host.invalid"),
    ),
)
async def test_no_connection(postgres: Server, url: str, reason: str) -> None:
    """The server's own reason, or the system's, without the password, and what to check."""
    (only,) = await in_thread(url.format(port=postgres.port))
    assert (only.good, only.exit_code) == (False, 5)
    assert reason in only.what
    assert "PLANGATE_DATABASE_URL" in only.cure
    assert "hidden" not in only.what + only.cure


def test_not_a_url() -> None:
    """Refused with what to write."""
    pytest.importorskip("psycopg")
    (only,) = found("somewhere")
    assert (only.what, only.exit_code) == ("database: not the URL of a PostgreSQL database", 2)
    assert only.cure == "write postgresql://user:password@host/database"


async def in_thread(url: str) -> list[Finding]:
    """Return what the doctor finds, which runs an event loop of its own."""
    return await asyncio.to_thread(found, url)
