"""A service as a process of its own, for tests that kill it: process.py FOLDER HOW-A-CHECK-GOES [CUT-SECONDS]

Tells the port, then one line for each check that begins, ends or is cancelled. A check goes on for ever (`hangs`), ends
at once (`ends`), or waits in a thread, where no cancelling reaches it (`stuck`).
"""

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bot.compose.worker_process import forced_exit_timer
from bot.core.names import ThreadAddress
from bot.core.thread.state import ThreadState
from bot.logs import setup
from bot.service.service import Service
from tests.service.ground import Host, settings
from webhooks.app import bind_listener, run
from webhooks.client_limits import ClientLimits


def tell(line: object) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Told(Host):
    """A host that tells what it does."""

    how = "ends"

    async def check_thread(
        self, address: ThreadAddress, begin_session: Callable[[], bool] = lambda: True
    ) -> ThreadState:
        assert begin_session()
        tell(f"began {address.number}")
        try:
            if self.how == "hangs":
                await asyncio.Event().wait()
            if self.how == "stuck":
                await asyncio.to_thread(time.sleep, 600)
        except asyncio.CancelledError:
            tell(f"cancelled {address.number}")
            raise
        tell(f"ended {address.number}")
        return ThreadState()


def main(folder: str, how: str, cut: str = "600") -> None:
    setup("json")
    host = Told()
    Told.how = how
    service = Service(settings(Path(folder)), host)
    with bind_listener("127.0.0.1", 0) as listener:
        tell(listener.getsockname()[1])
        asyncio.run(run(service, listener, ClientLimits(), stopping=forced_exit_timer(float(cut)).start))
    tell("down")


if __name__ == "__main__":
    main(*sys.argv[1:])
