"""Pushes of several threads: what waits goes together, each ref by itself; and when another try is made."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from bot.core.errors import Transient
from bot.core.names import ThreadNumber
from bot.store.thread_refs import PAUSES, Remote, ThreadRefs, Tip
from tests.store.conftest import Repository, StandingClock

TOGETHER = 6
PATIENCE = 60.0


def adding(name: str) -> Callable[[Tip], Mapping[str, bytes]]:
    return lambda tip: {} if name in tip.files else {name: b"x"}


def until(there: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)


@pytest.mark.req("E2", "E4")
def test_what_waits_goes_together(refs_on: Callable[[str], ThreadRefs], repository: Repository, tmp_path: Path) -> None:
    """While one push is under way others wait, and one push carries them all; one whose ref was moved is told so."""
    there, go, pushes = tmp_path / "there", tmp_path / "go", tmp_path / "pushes"
    repository.hook("pre-receive", f"echo >> {pushes}; touch {there}; while [ ! -e {go} ]; do sleep 0.01; done")
    refs = refs_on("a")
    for number in range(TOGETHER + 2):
        refs.read_tip(ThreadNumber(number))

    with ThreadPoolExecutor(TOGETHER + 1) as pool:

        def begin(number: int) -> Future[Tip]:
            return pool.submit(refs.commit, ThreadNumber(number), adding("a"), "first")

        futures = [begin(0)]
        until(there.exists)
        repository.put({"theirs": b"y"}, thread=1)
        futures += [begin(number) for number in range(1, TOGETHER + 1)]
        until(lambda: refs.pushes.waiting == TOGETHER)
        go.touch()
        tips = [future.result(PATIENCE) for future in futures]
    assert [sorted(tip.files) for tip in tips] == [["a"], ["a", "theirs"], *[["a"]] * (TOGETHER - 1)]
    assert len(pushes.read_text()) == 3  # the first, all that waited, and the one that was overtaken once more


@pytest.mark.req("E2")
def test_two_changes_of_one_thread(refs_on: Callable[[str], ThreadRefs], repository: Repository) -> None:
    """Several threads of this process that change one ref all get their change in."""
    refs = refs_on("a")
    with ThreadPoolExecutor(3) as pool:
        every = [pool.submit(refs.commit, ThreadNumber(1), adding(name), name) for name in "abc"]
        for future in every:
            future.result(PATIENCE)
    assert sorted(repository.files()) == ["a", "b", "c"]


class PatientClock(StandingClock):
    """A clock that notes how long somebody would wait."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)


@pytest.mark.req("E2")
def test_seconds_between_attempts(repository: Repository, tmp_path: Path) -> None:
    """A push that the remote could not take is tried again after seconds, more each time, and then given up."""
    clock = PatientClock()
    refs = ThreadRefs(Remote(str(repository.path)), tmp_path / "scratch.git", clock)
    refs.commit(ThreadNumber(1), adding("a"), "first")
    lock = repository.path / "refs" / "plangate" / "threads" / "1.lock"
    lock.touch()
    with pytest.raises(Transient, match="did not accept"):
        refs.commit(ThreadNumber(1), adding("b"), "second")
    assert clock.waited == [*PAUSES, 0.0]
    lock.unlink()
    assert sorted(refs.commit(ThreadNumber(1), adding("b"), "second").files) == ["a", "b"]


@pytest.mark.req("E2")
def test_rules_that_decline(repository: Repository, tmp_path: Path) -> None:
    """What the repository's rules decline is not tried again: they would decline it again."""
    clock, pushes = PatientClock(), tmp_path / "pushes"
    repository.hook("pre-receive", f"echo >> {pushes}; exit 1")
    refs = ThreadRefs(Remote(str(repository.path)), tmp_path / "scratch.git", clock)
    with pytest.raises(Transient, match="declined"):
        refs.commit(ThreadNumber(1), adding("a"), "first")
    assert (clock.waited, len(pushes.read_text())) == ([], 1)
