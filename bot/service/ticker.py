"""The ticker: wakes threads that no delivery names (W3).

GitHub sends no webhook for reactions, and sends each webhook only once.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from bot.clock import SystemClock
from bot.core.names import ThreadAddress
from bot.logs import failure, say
from bot.ports import Clock
from bot.service.github_host import GitHubHost
from bot.service.queue.queue import Queue
from bot.service.reconcile import MissedStore

RECONCILE_SECONDS: Final = 300.0
MAINTAIN_SECONDS: Final = 60.0
CHECK_SECONDS: Final = 3600.0
"""Seconds between two searches for red checks that no delivery reported."""
REDELIVER_SECONDS: Final = 600.0
Maintain = Callable[[Callable[[ThreadAddress], None]], Awaitable[None]]
"""Takes in scheduled tasks that are due, or red checks, and wakes the threads that have work because of it."""
Action = Callable[[], Awaitable[bool]]
"""Does some periodic work once. Returns False if GitHub was not asked."""
AGAIN_SECONDS: Final = 15.0
"""Pause after a failure, if it is shorter than the usual one."""
SHORTEST_POLL: Final = 0.05
LEAST_PAUSE: Final = 0.5
"""Minimum pause after an action, as a fraction of its interval, so that a slow GitHub is not asked without a break."""
LEAD_SECONDS: Final = 2.0
"""Seconds until a process asks again whether the periodic work is now its own."""


@dataclass(slots=True)
class Ticker:
    """Wakes threads at intervals.

    It polls for reactions. At the start and at each reconciliation, it wakes every open thread that does not rest. It
    also reads what no webhook reported, runs the scheduled tasks that are due (MT10), and finds red checks (MT9).
    """

    host: GitHubHost
    queue: Queue
    poll_seconds: float
    clock: Clock = field(default_factory=SystemClock)
    missed: MissedStore | None = None
    missed_seconds: float = RECONCILE_SECONDS
    maintain: Maintain | None = None
    """None where this process runs no scheduled tasks."""
    find_red_checks: Maintain | None = None
    """None where this process does not search for red checks."""
    github: str = "unknown"
    """Result of the latest request to GitHub: unknown, ok, or failing."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Tick while the context is open."""
        ticking = [asyncio.create_task(self._repeat(*work)) for work in self._periodic_work()]
        try:
            yield
        finally:
            for task in ticking:
                task.cancel()
            await asyncio.wait(ticking)

    def _periodic_work(self) -> Iterator[tuple[float, str, Action]]:
        """Yield each kind of work with its interval in seconds and its name in the log."""
        yield max(self.poll_seconds, SHORTEST_POLL), "poll", self._poll
        yield RECONCILE_SECONDS, "reconcile", self._reconcile
        if self.missed is not None:
            yield max(self.missed_seconds, SHORTEST_POLL), "missed", self.missed.read_missed
            yield REDELIVER_SECONDS, "redeliver", self.missed.redeliver
        if self.maintain is not None:
            yield MAINTAIN_SECONDS, "maintenance", partial(self._wake_what_has_work, self.maintain)
        if self.find_red_checks is not None:
            yield CHECK_SECONDS, "checks", partial(self._wake_what_has_work, self.find_red_checks)

    async def _repeat(self, seconds: float, what: str, action: Action) -> None:
        """Begin an action every `seconds` seconds. The pause after a long action is shorter."""
        while True:
            if not self.queue.leads:
                await self.clock.sleep(LEAD_SECONDS)
                continue
            began, pause = self.clock.monotonic(), seconds
            try:
                if await action():
                    self.github = "ok"
            except Exception as error:  # noqa: BLE001 - the outermost shell: the next tick tries again
                self.github = "failing"
                failure(what, error)
                pause = min(seconds, AGAIN_SECONDS)
            await self.clock.sleep(max(pause - (self.clock.monotonic() - began), pause * LEAST_PAUSE))

    async def _poll(self) -> bool:
        """Wake the threads that changed. Return False if there was nothing to poll."""
        watched = await self.queue.store.threads_to_poll()
        if watched:
            for address in await self.host.changed_threads(watched):
                self.queue.wake(address)
        return bool(watched)

    async def _reconcile(self) -> bool:
        """Wake every open thread that does not rest."""
        say("reconcile", open=await self.queue.wake_all(rests=self.host.rests))
        return True

    async def _wake_what_has_work(self, maintain: Maintain) -> bool:
        """Take in scheduled tasks or red checks. Their sessions run in checks of the worker, like all others."""
        await maintain(self.queue.wake)
        return True
