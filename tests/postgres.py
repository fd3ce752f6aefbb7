"""A real PostgreSQL server for tests, started once a process by the first test that needs it.

PostgreSQL refuses to run as root, so that root runs it as the account `nobody`.
"""

import asyncio
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bot.store.postgres.database import Database
from bot.store.postgres.migrations import migrate
from tests.ports import free_port

ACCOUNT = "nobody"
TEMPLATE = "migrated"
"""The database of which those with tables are copies."""
_OTHERS = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()"""
_TABLES = """
SELECT md5(string_agg(concat(attrelid::regclass, attname, attisdropped), ',' ORDER BY attrelid, attnum)
    || (SELECT string_agg(name, ',' ORDER BY name) FROM plangate_migrations)) AS md5
FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid
WHERE relnamespace = 'public'::regnamespace"""
_CONTENTS = """
SELECT format('DELETE FROM %s', oid::regclass) FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'plangate_migrations'
UNION ALL
SELECT format('SELECT setval(%L, seqmin, false) FROM pg_sequence WHERE seqrelid = %s', seqrelid::regclass, seqrelid)
FROM pg_sequence"""


def programs() -> Path | None:
    """Return the folder of the newest server that is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).resolve().parent if on_path else None


@dataclass(slots=True)
class Server:
    """A server on a port of loopback, with its data in a temporary folder."""

    bin: Path
    folder: Path
    port: int
    is_durable: bool = False
    """Whether what it commits survives a loss of power. Tests end the server, never the kernel, which syncs later."""
    made: int = 0
    has_template: bool = False
    _tables: str = ""
    _emptied: list[str] = field(default_factory=list)

    def start(self) -> None:
        fsync = "on" if self.is_durable else "off"
        # Between two tests there is nothing to clean up, and with many databases somebody would always look.
        settings = f"-c max_connections=200 -c fsync={fsync} -c autovacuum={'on' if self.is_durable else 'off'}"
        options = f"-p {self.port} -h 127.0.0.1 -k {self.folder} {settings}"
        self._run("pg_ctl", "start", "-w", "-s", "-D", self.data, "-l", str(self.folder / "log"), "-o", options)

    def stop(self, how: str = "fast") -> None:
        """Stop the server: `fast` ends every connection, `immediate` is as a crash."""
        self._run("pg_ctl", "stop", "-w", "-s", "-m", how, "-D", self.data)

    def kill(self) -> None:
        os.kill(int((self.folder / "data" / "postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)

    @property
    def data(self) -> str:
        return str(self.folder / "data")

    def url(self, database: str) -> str:
        return f"postgresql://{ACCOUNT}@127.0.0.1:{self.port}/{database}"

    def new_database(self, template: str = "template1") -> str:
        """Create a database like another one, by default an empty one, and return its URL."""
        self.made += 1
        return self._create(f"test{self.made}", template)

    def new_migrated_database(self) -> str:
        """Create a database that has the tables of this release, and return its URL. Only the first one is migrated."""
        if not self.has_template:
            url = self._create(TEMPLATE, "template1")
            with ThreadPoolExecutor(1) as thread:  # an event loop may be running in this one
                self._tables = thread.submit(asyncio.run, _migrate(url)).result()
            self.has_template = True
        return self.new_database(TEMPLATE)

    @contextmanager
    def lend_migrated_database(self) -> Iterator[str]:
        """Lend a database that has the tables of this release and no rows, and yield its URL.

        Emptying one for the next test takes a tenth of the CPU time of making another one.
        """
        url = self._emptied.pop() if self._emptied else self.new_migrated_database()
        yield url
        if self._empty(url):
            self._emptied.append(url)

    def _empty(self, url: str) -> bool:
        """Remove what is in a database, and return False if a test has changed its tables: it is not lent again."""
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_OTHERS)
            (tables,) = connection.execute(_TABLES).fetchone() or ("",)
            statements = [row[0] for row in connection.execute(_CONTENTS)]
            connection.execute(b"SET session_replication_role = replica")  # no trigger runs, and no order matters
            connection.execute(";".join(statements).encode())
        return bool(tables == self._tables)

    def _create(self, name: str, template: str) -> str:
        import psycopg

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            # Copied files take two thirds of the CPU time that copied pages take, which come with version 15.
            strategy = " STRATEGY FILE_COPY" if connection.info.server_version >= 15_00_00 else ""
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}{strategy}".encode())
        return self.url(name)

    def initialize(self, shared: Path | None = None) -> None:
        """Make its data. Servers that share a folder copy what the first one made, in a fifth of the time."""
        self.folder.chmod(0o700)
        if os.geteuid() == 0:
            shutil.chown(self.folder, ACCOUNT)
        if shared is None:
            self._run_initdb()
            return
        with (shared / "postgres.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            made, incomplete = shared / "postgres", shared / "postgres.incomplete"
            if not made.exists():
                self._run_initdb()
                copy_tree(Path(self.data), incomplete)
                incomplete.rename(made)
                return
        copy_tree(made, Path(self.data))

    def _run_initdb(self) -> None:
        self._run("initdb", "-D", self.data, "-A", "trust", "-U", ACCOUNT, "-E", "UTF8", "--no-sync", "--locale=C")

    def _run(self, program: str, *arguments: str) -> None:
        root = {"user": ACCOUNT} if os.geteuid() == 0 else {}
        with (self.folder.parent / f"{self.folder.name}.out").open("a") as out:
            command = [str(self.bin / program), *arguments]
            subprocess.run(command, check=True, cwd="/", stdout=out, stderr=out, **root)  # type: ignore[call-overload]


def copy_tree(of: Path, to: Path) -> None:
    subprocess.run(["cp", "--archive", str(of), str(to)], check=True)


async def _migrate(url: str) -> str:
    """Make the tables of this release, and return a digest of their columns and migrations."""
    async with Database(url).open() as database:
        await migrate(database)
        (row,) = await database.rows(_TABLES)
        return str(row["md5"])


@contextmanager
def running_server(*, is_durable: bool = False, shared: Path | None = None) -> Iterator[Server]:
    """Run a server; skips where none is installed. Benchmarks ask for a durable one.

    `shared` is a folder of all processes that run the same tests.
    """
    bin_folder = programs()
    if bin_folder is None:
        pytest.skip("no PostgreSQL is installed; on Debian: sudo apt-get install postgresql")
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'plangate[cluster]'")
    port = free_port()
    above = Path(tempfile.mkdtemp(prefix="plangate-postgres-"))
    above.chmod(0o755)
    server = Server(bin_folder, above / "server", port, is_durable)
    server.folder.mkdir()
    try:
        server.initialize(shared)
        server.start()
        yield server
        server.stop("immediate")
    finally:
        shutil.rmtree(above, ignore_errors=True)
