"""The bot as several processes on PostgreSQL: real ones, and workers in this process that can be frozen."""

import asyncio
import os
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Final

from bot.compose.github import HostSetup
from bot.config.settings import ServiceSettings, Settings
from bot.service.queue.heartbeat import Pace
from bot.service.queue.postgres_store import PostgresStore
from bot.service.queue.queue import Queue
from bot.service.worker import Worker
from bot.store.postgres.database import Database
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
        web = self.webs.pop(number)
        web.send_signal(signal_)
        return web.wait(60)

    def start_worker(self, number: int) -> None:
        own = self.environment() | {"PLANGATE_DATA_DIR": str(self.home / f"data-{number}")}
        with self._log(f"worker-{number}") as log:
            command, written = ("worker", "--sessions", "2"), log.fileno()
            worker = forks.plangate().start(*command, env=own, stdout=written, stderr=written)
        os.setpriority(os.PRIO_PROCESS, worker.pid, os.getpriority(os.PRIO_PROCESS, 0) + self.niceness)
        self.workers[number] = worker

    def end_worker(self, number: int, signal_: int) -> int:
        worker = self.workers.pop(number)
        worker.send_signal(signal_)
        return worker.wait(60)

    def stop(self) -> None:
        for process in (*self.workers.values(), *self.webs.values()):
            process.kill()
            process.wait(20)

    def command(self) -> tuple[str, ...]:
        return "serve", "--no-worker", "--port", str(self.port)

    def log(self) -> str:
        names = (*(f"web-{number}" for number in self.webs), *(f"worker-{number}" for number in range(WORKERS)))
        return "\n".join(self._read(name) for name in names)

    def environment(self) -> dict[str, str]:
        return Served.environment(self) | {"PLANGATE_DATABASE_URL": self.database_url}

    def _read(self, name: str) -> str:
        file: Path = self.home / name
        return f"-- {name}\n{file.read_text()[-2500:]}" if file.exists() else ""

    def _log(self, name: str) -> IO[bytes]:
        self.home.mkdir(parents=True, exist_ok=True)
        return (self.home / name).open("ab")


QUICK: Final = Pace(beat=0.2, stalled=2.0, watch=0.2, settled=1.0)
"""A worker that is silent for two seconds counts as dead."""
LIMITS: Final = ServiceSettings(sessions=2, looks=3)
END_SECONDS: Final = 60.0
CANCEL_SECONDS: Final = 0.2
"""Between two cancellations of what a dead worker left behind."""


@dataclass(slots=True)
class FrozenWorker:
    """A worker with a data directory of its own, as on a machine of its own."""

    settings: Settings
    url: str
    data: Path
    _loop: asyncio.AbstractEventLoop = field(init=False)
    _ended: asyncio.Event = field(init=False)
    _thawed: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)
    _is_dead: bool = False

    def start(self) -> None:
        """Start the worker, and return when it works."""
        self._thawed.set()
        begun = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(begun,), daemon=True)
        self._thread.start()
        assert begun.wait(END_SECONDS), "the worker did not begin"

    def freeze(self) -> None:
        """Stop everything that the worker does, wherever it is."""
        self._thawed.clear()
        self._loop.call_soon_threadsafe(self._hold)

    def kill(self) -> None:
        """Freeze the worker for good. At its end everything is cancelled where it is."""
        self._is_dead = True
        self.freeze()

    def thaw(self) -> None:
        self._thawed.set()

    def end(self) -> None:
        """Thaw the worker if it is frozen, and end it as SIGTERM does; what a dead one left behind is cancelled."""
        self.thaw()
        if not self._is_dead:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(END_SECONDS)
        assert not self._thread.is_alive(), "the worker did not end"

    def _run(self, begun: threading.Event) -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(self._work(begun))

    def _hold(self) -> None:
        self._thawed.wait()
        if self._is_dead:
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.call_later(CANCEL_SECONDS, self._hold)  # what waits for a database that is gone tries again

    async def _work(self, begun: threading.Event) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        async with HostSetup(replace(self.settings, data_dir=self.data)) as host:
            store = PostgresStore(host, Database(self.url), QUICK)
            worker = Worker(host, store, LIMITS, poll_seconds=0.1, grace_seconds=1.0)
            async with Queue(store, worker).running():
                begun.set()
                await self._ended.wait()
