"""What threads cost on a server that holds many refs, and one that fails for a moment."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from bot.core import errors
from bot.core.errors import Transient
from bot.core.names import ThreadNumber
from bot.store.ref_listing import RefListing
from bot.store.thread_refs import Remote, ThreadRefs
from bot.testing.github.bare import Bare
from tests.contracts.conftest import StandingClock
from tests.contracts.smart_http import Site

ONE = ThreadNumber(1)
MANY = 3_000
SLACK = 100
"""Bytes by which the same answers differ, as the server cuts them into packets."""


def hold_pulls(repository: Path) -> None:
    """Have a repository hold the refs of many pull requests, which GitHub hides from pushes."""
    bare = Bare(repository)
    commit = bare.refs()["refs/heads/master"]
    bare.pack_refs({f"refs/pull/{number}/head": commit for number in range(MANY)})
    bare.run("config", "receive.hideRefs", "refs/pull")


@pytest.mark.req("E2")
def test_other_refs_cost_nothing(
    refs_of: Callable[[str, str], ThreadRefs], repository: Path, site: Site, clock: StandingClock
) -> None:
    """Listing, reading and pushing threads costs no more beside 3,000 pull requests than beside none."""

    def cost(machine: str) -> int:
        refs, before = refs_of("http", machine), site.sent
        assert refs.threads() == (ONE,)
        assert refs.read_tip(ONE).files
        assert refs.since(clock.now() - timedelta(days=1)) == (ONE,)
        refs.commit(ThreadNumber(7), lambda tip: {} if tip.files else {"b": b"2"}, "another")
        Bare(repository).run("update-ref", "-d", "refs/plangate/threads/7")
        return site.sent - before

    refs_of("http", "first").commit(ONE, lambda tip: {} if tip.files else {"a": b"1"}, "first")
    alone = cost("alone")
    hold_pulls(repository)
    assert alone < 10_000
    assert abs(cost("beside them") - alone) < SLACK


@pytest.mark.parametrize("way", ("path", "http"))
def test_only_what_was_asked_for(request: pytest.FixtureRequest, repository: Path, tmp_path: Path, way: str) -> None:
    """The server sends the refs that begin so, by either way, and no other."""
    bare = Bare(repository)
    commit = bare.refs()["refs/heads/master"]
    bare.pack_refs({f"refs/plangate/threads/{number}": commit for number in (1, 2, 10)})
    remote = request.getfixturevalue(way)
    git = ThreadRefs(remote, tmp_path / "scratch.git", StandingClock()).git
    listing = RefListing(git, remote.normalize(), "git upload-pack")
    listed = listing.list("refs/plangate/threads/1", "HEAD")
    assert listed == dict.fromkeys(("HEAD", "refs/plangate/threads/1", "refs/plangate/threads/10"), commit)
    assert listing.list("refs/none/") == {}
    listing.close()


@pytest.mark.req("E2", "PR3")
def test_a_server_that_fails_for_a_moment(
    refs_of: Callable[[str, str], ThreadRefs], site: Site, clock: StandingClock
) -> None:
    """A listing or fetch that was answered with 502 is tried again after seconds, and the reader never knows."""
    refs_of("http", "first").commit(ONE, lambda tip: {} if tip.files else {"a": b"1"}, "first")
    refs = refs_of("http", "other")
    site.broken = 2
    assert refs.threads() == (ONE,)
    assert clock.waited == [*errors.PAUSES]
    site.heard = lambda body: setattr(site, "broken", int(b"command=fetch" in body and not clock.waited[2:]))
    assert list(refs.read_tip(ONE).files) == ["a"]
    assert clock.waited == [*errors.PAUSES, errors.PAUSES[0]]


@pytest.mark.req("E2")
def test_a_server_that_stays_away(refs_of: Callable[[str, str], ThreadRefs], site: Site, clock: StandingClock) -> None:
    """After a few tries the reader is told; a refusal is told at once."""
    refs = refs_of("http", "a")
    site.broken = 100
    with pytest.raises(Transient, match="502"):
        refs.read_tip(ONE)
    assert (100 - site.broken, clock.waited) == (3, [*errors.PAUSES])
    site.broken = 0
    site.tokens.clear()
    with pytest.raises(Transient, match="refs cannot be listed"):
        refs.read_tip(ONE)
    assert len(clock.waited) == 2


def test_a_server_of_the_old_protocol(tmp_path: Path, repository: Path, clock: StandingClock) -> None:
    """A server that does not know the protocol's version 2 is told apart from one without threads."""
    program = tmp_path / "old"
    program.write_text('#!/bin/sh\nunset GIT_PROTOCOL\nexec git upload-pack "$@"\n')
    program.chmod(0o755)
    refs = ThreadRefs(Remote(str(repository), upload_pack=str(program)), tmp_path / "scratch.git", clock)
    with pytest.raises(Transient, match="refs cannot be listed"):
        refs.read_tip(ONE)
