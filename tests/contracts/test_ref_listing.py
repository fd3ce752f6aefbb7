"""Listings that follow each other closely share one running helper of git, against a real server over HTTP."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bot.core.errors import Transient
from bot.store.plumbing import Plumbing
from bot.store.ref_listing import RefListing
from bot.store.thread_refs import Remote
from bot.testing.github.bare import Bare
from tests.contracts.smart_http import Site
from tests.stories.ground import until


@dataclass
class Ground:
    """A listing of the server's refs, and what it asks the server."""

    site: Site
    remote: Remote
    folder: Path
    keep_seconds: float = 30.0
    listing: RefListing = field(init=False)

    def __post_init__(self) -> None:
        git = Plumbing(self.folder / "scratch.git", self.remote.environment)
        self.listing = RefListing(git, self.remote.normalize(), "git upload-pack", self.keep_seconds)

    def asked(self) -> list[str]:
        """List what the server was asked since the last call: the methods' parts of the addresses."""
        paths = [path.partition("?")[0].rpartition("/")[2] for path, _ in self.site.seen]
        self.site.seen.clear()
        return paths

    def processes(self) -> list[int]:
        """List the processes that git runs for the server."""
        found, server = [], self.site.url("").encode()
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if server in place.read_bytes():
                    found.append(int(place.parent.name))
            except OSError:
                continue
        return found


Make = Callable[..., Ground]
ALONE, KEPT = ["refs", "git-upload-pack"], ["git-upload-pack"]


@pytest.fixture
def make(site: Site, http: Remote, tmp_path: Path) -> Iterator[Make]:
    made: list[Ground] = []

    def ground(keep_seconds: float = 30.0) -> Ground:
        made.append(Ground(site, http, tmp_path, keep_seconds))
        return made[-1]

    yield ground
    for each in made:
        each.listing.close()
        assert each.processes() == []


@pytest.mark.req("E2")
def test_a_series_costs_one_request_each(make: Make, repository: Path) -> None:
    """The first listing starts one process, and keeps it; each further one is one request, and sees what changed."""
    ground, bare = make(), Bare(repository)
    heads = ground.listing.list("refs/heads/")
    assert heads == {name: at for name, at in bare.refs().items() if name.startswith("refs/heads/")}
    assert ground.asked() == ALONE
    helper = ground.processes()
    assert ground.listing.list("refs/heads/") == heads
    assert ground.asked() == KEPT
    bare.move("refs/heads/more", heads["refs/heads/master"])
    assert ground.listing.list("refs/heads/m", "HEAD").keys() == {"HEAD", "refs/heads/master", "refs/heads/more"}
    assert ground.listing.list("refs/none/") == {}
    assert ground.asked() == KEPT * 2
    assert ground.processes() == helper


def test_what_no_longer_answers_is_replaced(make: Make) -> None:
    """A helper that was killed, or that the server failed, costs a new one."""
    ground = make()
    heads = ground.listing.list("refs/heads/")
    assert ground.listing.list("refs/heads/") == heads
    for number in ground.processes():
        os.kill(number, signal.SIGKILL)
    ground.asked()
    assert ground.listing.list("refs/heads/") == heads
    assert ground.asked() == ALONE
    assert ground.listing.list("refs/heads/") == heads
    ground.site.broken = 1
    assert ground.listing.list("refs/heads/") == heads
    assert ground.asked() == KEPT * 2 + ALONE


def test_a_failure_is_told_with_a_kept_helper(make: Make) -> None:
    """The error is git's reason."""
    ground = make()
    ground.listing.list("refs/heads/")
    ground.site.broken = 2
    with pytest.raises(Transient, match="502"):
        ground.listing.list("refs/heads/")
    assert ground.site.broken == 0


def test_a_server_that_is_down_is_asked_once_a_listing(make: Make) -> None:
    """Only a helper that answered is kept."""
    ground = make()
    ground.site.broken = 2
    for left in (1, 0):
        with pytest.raises(Transient, match="502"):
            ground.listing.list("refs/heads/")
        assert ground.site.broken == left
        assert ground.processes() == []
    ground.listing.list("refs/heads/")
    assert ground.processes() != []


def test_a_listing_that_takes_too_long_is_ended(make: Make) -> None:
    """After the time limit of a git command, the listing ends with its helper."""
    ground = make()
    ground.listing.git = replace(ground.listing.git, seconds=0.0)
    with pytest.raises(Transient, match="git took too long"):
        ground.listing.list("refs/heads/")
    assert ground.processes() == []


def test_an_unused_helper_ends_by_itself(make: Make) -> None:
    """Nothing runs on for a repository in which nothing happens."""
    ground = make(0.3)
    begun = time.monotonic()
    while not ground.processes() and time.monotonic() - begun < 20:
        ground.listing.list("refs/heads/")
    assert ground.processes() != []
    until(lambda: ground.processes() == [], "the helper ends")
