"""A dashboard and an API over journals in memory, for this machine alone, and a proxy that cuts connections."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

import requests
from fastapi import FastAPI

from bot.clock import SystemClock
from bot.config.settings import GitHubSettings, Secret, Settings
from bot.core.moves import Entry
from bot.ports import Clock
from bot.service.viewers import SignIn
from bot.testing.host import host_application
from tests.webhooks.api_ground import World
from webhooks.dashboard.service_pages import add_dashboard


@dataclass(slots=True)
class JournalSite:
    """What is served. Entries are appended in the server's event loop, as a look of the same process does."""

    world: World
    base: str = ""
    waiting: dict[int, list[Entry]] = field(default_factory=dict)
    """Entries of each thread that `append` adds next."""

    def append(self, number: int, count: int = 1) -> None:
        """Append the next entries of a thread, and return once they are durable."""
        assert requests.post(f"{self.base}/append/{number}/{count}", timeout=20).status_code == 200

    def get(self, path: str) -> str:
        answer = requests.get(self.base + path, timeout=20)
        assert answer.status_code == 200, (path, answer.text)
        return answer.text


@contextmanager
def journal_site(
    folder: Path, threads: Sequence[Sequence[Entry]] = (), *, clock: Clock | None = None
) -> Iterator[JournalSite]:
    """Serve the dashboard and the API of a service without an App. Each thread waits for its first entry."""
    world = World(folder, token="")
    site = JournalSite(world, waiting={number: [*entries] for number, entries in enumerate(threads, start=1)})
    github = replace(GitHubSettings(), token=Secret("t" * 40))
    sign_in = SignIn(Settings(data_dir=folder, github=github), clock or SystemClock(), world.recorder.redactor)
    app = FastAPI(docs_url=None)

    @app.post("/append/{number}/{count}")
    async def append(number: int, count: int) -> None:
        next_ones, site.waiting[number] = site.waiting[number][:count], site.waiting[number][count:]
        await world.append(number, next_ones)

    world.routes(app)
    add_dashboard(app, reading=world.overview, sign_in=sign_in, streams=world.streams)
    with host_application(app) as base:
        site.base = base
        yield site


class CuttingProxy:
    """Passes bytes to a server on this machine until `cut` breaks every connection."""

    def __init__(self, base: str) -> None:
        self._port = urlsplit(base).port or 0
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Break every connection."""
        for each in tuple(self._open):
            self._break(each)

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _break(self, each: socket.socket) -> None:
        self._open.discard(each)
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                self._open |= {near, far}
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(65_536):
                target.sendall(piece)
        self._break(source)
        self._break(target)
        source.close()
