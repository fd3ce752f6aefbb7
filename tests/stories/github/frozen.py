"""Workers on PostgreSQL as threads of this process, which can be frozen: nothing of their event loop goes on.

A frozen worker is what SIGSTOP makes of a process, except that steps that were handed to a thread end. One that is
never thawed is a dead one to all others.
"""

import asyncio
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from bot.compose.github import HostSetup
from bot.config.settings import ServiceSettings, Settings
from bot.service.queue.heartbeat import Pace
from bot.service.queue.postgres_store import PostgresStore
from bot.service.queue.queue import Queue
from bot.service.worker import Worker
from bot.store.postgres.database import Database

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
        """Let it go on as if no time had passed."""
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
