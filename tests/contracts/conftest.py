"""Where the contract suites of journal and transcripts run: a real repository, by path and over real HTTP."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.ports import Clock
from bot.store.thread_refs import Remote, ThreadRefs
from bot.workspace.remote import RemoteRepository
from tests.contracts.smart_http import Site, served

TOKEN = "ghs_of_the_contracts"


class StandingClock:
    """A clock that stands where it is put."""

    def __init__(self) -> None:
        self.at = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)
        self.waited: list[float] = []

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """Note how long somebody wants to wait, and let them go on."""
        self.waited.append(seconds)


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture(scope="session")
def remote_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bare repository with one commit, which is only ever copied."""
    bare = tmp_path_factory.mktemp("remote") / "remote.git"
    subprocess.run(["git", "init", "--quiet", "--bare", "--template=", bare], check=True)
    subprocess.run(["git", "-C", bare, "config", "receive.autogc", "false"], check=True)
    first = b"commit refs/heads/master\ncommitter A <a@b> 0 +0000\ndata 5\nfirst\nM 100644 inline README\ndata 2\nhi\n"
    subprocess.run(["git", "-C", bare, "fast-import", "--quiet"], input=first, check=True)
    return bare


@pytest.fixture
def repository(tmp_path: Path, remote_template: Path) -> Path:
    """A bare repository with one commit."""
    return Path(shutil.copytree(remote_template, tmp_path / "remote.git"))


@pytest.fixture
def site(repository: Path) -> Iterator[Site]:
    """A real server that has it, for those who have the token."""
    with served(repository.parent, TOKEN) as site:
        yield site


@pytest.fixture
def http(repository: Path, site: Site) -> Remote:
    """That repository on the server."""
    source = RemoteRepository(site.url(repository.name), lambda: TOKEN)
    return Remote(source.location, environment=source.environment)


@pytest.fixture
def path(repository: Path) -> Remote:
    """That repository on this machine."""
    return Remote(str(repository))


@pytest.fixture
def refs_of(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Callable[[str, str], ThreadRefs]:
    """Return the threads as one machine sees them: ("path" or "http", the machine's name)."""

    def refs(way: str, machine: str) -> ThreadRefs:
        return ThreadRefs(request.getfixturevalue(way), tmp_path / machine / "scratch.git", clock)

    return refs
