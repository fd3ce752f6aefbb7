"""What killed processes leave behind: removed by whoever works next, and never what somebody works in."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bot.workspace.checkout import LASTING_SECONDS
from bot.workspace.locks import AT_ONCE
from bot.workspace.workspace import GitWorkspace
from tests import forks
from tests.workspace.ground import Repository, publish, write

TOP = str(Path(__file__).parents[2])

WORKS = """
import asyncio, sys
from pathlib import Path
from bot.workspace.local_repository import LocalRepository
from bot.workspace.workspace import GitWorkspace

async def main():
    source = await LocalRepository.open(Path(sys.argv[1]))
    workspace = GitWorkspace.on(source, Path(sys.argv[2]))
    mine = await workspace.checkout("thread", source.head)
    await workspace.fork(mine, "child-1")
    await workspace.fork(mine, "child-2", lasting=True)
    async with workspace.publisher.make_place() as place:
        (place / "clone").mkdir()
        print("at work", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


@contextmanager
def at_work(repository: Repository, data: Path) -> Iterator[None]:
    """Let another process hold a checkout, a fork and a clone; it is killed at the end."""
    with forks.script(WORKS).read_lines(str(repository.path), str(data)) as (_, printed):
        assert printed.readline() == "at work\n"
        yield


def folders(data: Path) -> list[str]:
    """The names of all checkouts, and how many clones there are."""
    clones = len(list((data / "publishing").glob("*/")))
    return [*sorted(place.name for place in (data / "checkouts").glob("*/")), f"{clones} clones"]


@pytest.mark.req("E4")
async def test_the_next_process_removes_it(workspace: GitWorkspace, repository: Repository, tmp_path: Path) -> None:
    """While the other one lives everything stays; when it was killed, its fork and clone go, what is to last stays."""
    data = tmp_path / "data"
    with at_work(repository, data):
        await workspace.checkout("mine", repository.head)
        assert folders(data) == ["child-1", "child-2", "mine", "thread", "1 clones"]
    await workspace.checkout("mine", repository.head)
    assert folders(data) == ["child-2", "mine", "thread", "0 clones"]
    assert sorted(lock.name for lock in (data / "checkouts").glob("*.lock")) == [
        "child-2.lock",
        "mine.lock",
        "thread.lock",
    ]


@pytest.mark.req("E4", "L9", "S4")
async def test_a_lasting_fork_is_found_again(workspace: GitWorkspace, repository: Repository, tmp_path: Path) -> None:
    """Whoever asks by its name within hours finds it as it was left; later it is litter like any other."""
    mine = await workspace.checkout("mine", repository.head)
    fork = await workspace.fork(mine, "child-3", lasting=True)
    (Path(fork.path) / "work.txt").write_text("done\n")
    await workspace.close()
    later = GitWorkspace.on(workspace.source, tmp_path / "data")
    mine = await later.checkout("mine", repository.head)
    found = await later.fork(mine, "child-3", lasting=True)
    assert (fork.found, found.found) == (False, True)
    assert (Path(found.path) / "work.txt").read_text() == "done\n"
    assert (await later.merge(found, mine)).merged == ("work.txt",)
    await later.close()
    stamp = Path(found.path).parent / "base"
    os.utime(stamp, (time.time() - LASTING_SECONDS - 60,) * 2)
    await workspace.checkout("mine", repository.head)
    assert not stamp.exists()


async def test_a_half_made_fork_is_litter(workspace: GitWorkspace, repository: Repository) -> None:
    """A process that was killed while it copied leaves a folder of another name."""
    half = workspace.checkouts.folder / "child-2~making" / "origin"
    half.mkdir(parents=True)
    await workspace.checkout("mine", repository.head)
    assert not half.parent.exists()


async def test_own_forks_stay(workspace: GitWorkspace, repository: Repository, tmp_path: Path) -> None:
    """What this process works in is held as well, also against another workspace in it."""
    mine = await workspace.checkout("mine", repository.head)
    fork = await workspace.fork(mine, "child-3")
    other = GitWorkspace.on(workspace.source, tmp_path / "data")
    await other.checkout("other", repository.head)
    await workspace.checkout("mine", repository.head)
    assert Path(fork.path).is_dir()
    await workspace.close()
    await other.checkout("other", repository.head)
    assert not Path(fork.path).exists()


async def test_one_sweep_is_bounded(workspace: GitWorkspace, repository: Repository) -> None:
    """A lot of litter is removed bit by bit, so that nobody waits for all of it."""
    places = [workspace.publisher.folder / f"tmp{number}" for number in range(AT_ONCE + 3)]
    for place in places:
        place.mkdir(parents=True)
    await workspace.checkout("mine", repository.head)
    assert sum(place.exists() for place in places) == 3
    await workspace.checkout("mine", repository.head)
    assert not any(place.exists() for place in places)


async def test_publishing_leaves_nothing(workspace: GitWorkspace, repository: Repository, tmp_path: Path) -> None:
    """Neither the clone nor its lock is left."""
    await publish(workspace, repository, write(src__a_dot_py="a = 2\n"))
    assert list((tmp_path / "data" / "publishing").iterdir()) == []
