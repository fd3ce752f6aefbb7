"""A real PostgreSQL server for tests, started once a process by the first test that needs it.

PostgreSQL refuses to run as root, so that root runs it as the account `nobody`.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.store.postgres.database import Database
from bot.store.postgres.migrations import migrate
from tests.ports import free_port

ACCOUNT = "nobody"
TEMPLATE = "migrated"
"""The database of which those with tables are copies."""


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

    def start(self) -> None:
        """Start the server, and return when it answers."""
        fsync = "on" if self.is_durable else "off"
        options = f"-p {self.port} -h 127.0.0.1 -k {self.folder} -c max_connections=200 -c fsync={fsync}"
        self._run("pg_ctl", "start", "-w", "-s", "-D", self.data, "-l", str(self.folder / "log"), "-o", options)

    def stop(self, how: str = "fast") -> None:
        """Stop the server: `fast` ends every connection, `immediate` is as a crash."""
        self._run("pg_ctl", "stop", "-w", "-s", "-m", how, "-D", self.data)

    def kill(self) -> None:
        """Kill -9 the server."""
        os.kill(int((self.folder / "data" / "postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)

    @property
    def data(self) -> str:
        """Where its data is."""
        return str(self.folder / "data")

    def url(self, database: str) -> str:
        """Return the URL of a database."""
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
                thread.submit(asyncio.run, _migrate(url)).result()
            self.has_template = True
        return self.new_database(TEMPLATE)

    def _create(self, name: str, template: str) -> str:
        import psycopg

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
        return self.url(name)

    def initialize(self) -> None:
        """Make the folder for its data."""
        self.folder.chmod(0o700)
        if os.geteuid() == 0:
            shutil.chown(self.folder, ACCOUNT)
        self._run("initdb", "-D", self.data, "-A", "trust", "-U", ACCOUNT, "-E", "UTF8", "--no-sync", "--locale=C")

    def _run(self, program: str, *arguments: str) -> None:
        root = {"user": ACCOUNT} if os.geteuid() == 0 else {}
        with (self.folder.parent / f"{self.folder.name}.out").open("a") as out:
            command = [str(self.bin / program), *arguments]
            subprocess.run(command, check=True, cwd="/", stdout=out, stderr=out, **root)  # type: ignore[call-overload]


async def _migrate(url: str) -> None:
    async with Database(url).open() as database:
        await migrate(database)


@contextmanager
def running_server(*, is_durable: bool = False) -> Iterator[Server]:
    """Run a server; skips where none is installed. Benchmarks ask for a durable one."""
    bin_folder = programs()
    if bin_folder is None:
        pytest.skip("no PostgreSQL is installed; on Debian: sudo apt-get install postgresql")
    for library in ("psycopg", "procrastinate"):
        pytest.importorskip(library, reason=f"{library} is not installed: pip install 'plangate[cluster]'")
    port = free_port()
    above = Path(tempfile.mkdtemp(prefix="plangate-postgres-"))
    above.chmod(0o755)
    server = Server(bin_folder, above / "server", port, is_durable)
    server.folder.mkdir()
    try:
        server.initialize()
        server.start()
        yield server
        server.stop("immediate")
    finally:
        shutil.rmtree(above, ignore_errors=True)
