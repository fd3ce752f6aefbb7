"""The bot as a service of several processes: `serve --no-worker` on one port, workers as of several machines, and
PostgreSQL.
"""

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests import forks
from tests.postgres import Server
from tests.stories.github.service import Served
from tests.stories.ground import until

WORKERS = 2


@dataclass(slots=True)
class Cluster(Served):
    """A hub with the service on it. Each worker has a data directory of its own, as on a machine of its own."""

    server: Server = field(kw_only=True)
    database_url: str = field(kw_only=True)
    workers: dict[int, forks.Fork] = field(default_factory=dict)
    webs: dict[int, forks.Fork] = field(default_factory=dict)
    """The processes that take deliveries, all on one port."""
    niceness: int = 0
    """How far workers stand back behind all else on this machine."""

    def start(self) -> None:
        """Migrate the database, and start all processes."""
        self.run("migrate")
        self.start_web()
        for number in range(WORKERS):
            self.start_worker(number)

    def run(self, command: str) -> None:
        """Run a command to its end, as an operator does."""
        ended = forks.plangate().run(command, env=self.environment())
        assert ended.returncode == 0, ended.stderr

    def start_web(self, number: int = 0) -> None:
        """Start a process that takes deliveries, and return when it listens."""
        name = f"web-{number}"
        with self._log(name) as log:
            begins, written = log.tell(), log.fileno()
            self.webs[number] = forks.plangate().start(
                *self.command(), env=self.environment(), stdout=written, stderr=written
            )
        file = self.home / name
        until(lambda: b"listening" in file.read_bytes()[begins:], "the service listens")
        until(lambda: self.state() is not None, "the service answers")

    def end_web(self, number: int = 0, signal_: int = signal.SIGKILL) -> int:
        """Send a signal to a process that takes deliveries, and wait for its end."""
        web = self.webs.pop(number)
        web.send_signal(signal_)
        return web.wait(60)

    def start_worker(self, number: int) -> None:
        """Start a worker."""
        own = self.environment() | {"PLANGATE_DATA_DIR": str(self.home / f"data-{number}")}
        with self._log(f"worker-{number}") as log:
            command, written = ("worker", "--sessions", "2"), log.fileno()
            worker = forks.plangate().start(*command, env=own, stdout=written, stderr=written)
        os.setpriority(os.PRIO_PROCESS, worker.pid, os.getpriority(os.PRIO_PROCESS, 0) + self.niceness)
        self.workers[number] = worker

    def end_worker(self, number: int, signal_: int) -> int:
        """Send a signal to a worker, and wait for its end."""
        worker = self.workers.pop(number)
        worker.send_signal(signal_)
        return worker.wait(60)

    def stop(self) -> None:
        """End all processes at once."""
        for process in (*self.workers.values(), *self.webs.values()):
            process.kill()
            process.wait(20)

    def command(self) -> tuple[str, ...]:
        return "serve", "--no-worker", "--port", str(self.port)

    def log(self) -> str:
        """Return the end of what each process printed."""
        names = (*(f"web-{number}" for number in self.webs), *(f"worker-{number}" for number in range(WORKERS)))
        return "\n".join(self._read(name) for name in names)

    def environment(self) -> dict[str, str]:
        """Return the variables that an operator sets, the same everywhere."""
        return Served.environment(self) | {"PLANGATE_DATABASE_URL": self.database_url}

    def _read(self, name: str) -> str:
        file: Path = self.home / name
        return f"-- {name}\n{file.read_text()[-2500:]}" if file.exists() else ""

    def _log(self, name: str) -> IO[bytes]:
        self.home.mkdir(parents=True, exist_ok=True)
        return (self.home / name).open("ab")
