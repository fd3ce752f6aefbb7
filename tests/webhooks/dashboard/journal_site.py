"""A dashboard and an API over journals in memory, for this machine alone."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

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
    """What is served. Entries are appended in the server's event loop, as a check of the same process does."""

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
