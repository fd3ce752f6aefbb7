"""Upkeep: mirrors that were damaged heal, what nobody uses is removed, and what is used stays."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bot.core.errors import Conflict
from bot.workspace import locks
from bot.workspace.checkout import LASTING_SECONDS
from bot.workspace.locks import AT_ONCE, Lock
from bot.workspace.mirror import PACKS, is_damage, remove_mirror
from bot.workspace.workspace import GitWorkspace
from tests import forks
from tests.workspace.ground import Repository, publish, write

LONG_AGO = time.time() - 200 * 24 * 3600


def packs(mirror: Path) -> list[Path]:
    return sorted((mirror / "objects" / "pack").glob("*.pack"))


def no_packs(mirror: Path) -> None:
    """The files of all objects are gone."""
    shutil.rmtree(mirror / "objects")
    (mirror / "objects").mkdir()


def half_an_object(mirror: Path) -> None:
    """A file of objects was half written."""
    for path in [*packs(mirror), *(mirror / "objects").glob("??/*")]:
        path.chmod(0o600)
        os.truncate(path, path.stat().st_size // 2)


def no_head(mirror: Path) -> None:
    """It is no repository any more."""
    (mirror / "HEAD").unlink()


def broken_config(mirror: Path) -> None:
    """Its configuration was half written."""
    (mirror / "config").write_text("[core")


def empty_refs(mirror: Path) -> None:
    """A full disk left empty refs, and one of ours among them."""
    for ref in (mirror / "refs" / "plangate").rglob("*"):
        if ref.is_file():
            ref.write_text("")


def left_locks(mirror: Path) -> None:
    """A git that was killed left its locks and half a pack."""
    kept = mirror / "refs" / "plangate"
    for left in (mirror / "shallow.lock", mirror / "packed-refs.lock", kept / "head.lock"):
        left.touch()
    (mirror / "objects" / "pack" / "tmp_pack_x").write_bytes(b"PACK")


DAMAGES = (no_packs, half_an_object, no_head, broken_config, empty_refs, left_locks)


@pytest.mark.req("G2", "D2")
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_a_mirror_heals(damage: Callable[[Path], None], workspace: GitWorkspace, repository: Repository) -> None:
    old = repository.head
    await workspace.checkout("before", old)
    damage(workspace.mirror.path)
    again = await workspace.checkout("again", old)
    assert (Path(again.path) / "src" / "a.py").read_text() == "a = 1\n"
    new = await workspace.checkout("new", repository.commit(new="x"))
    assert (Path(new.path) / "new").read_text() == "x"


@pytest.mark.req("G2")
async def test_work_is_published_after_its_mirror_was_lost(workspace: GitWorkspace, repository: Repository) -> None:
    checkout = await workspace.checkout("main", repository.head)
    remove_mirror(workspace.mirror.path)
    assert (await publish(workspace, repository, write(new="x"))).paths == ("new",)
    assert (Path(checkout.path) / "new").exists()


@pytest.mark.parametrize(
    ("said", "damaged"),
    (
        ("fatal: bad object 0123", True),
        ("error: object file ./objects/ab/cd is empty", True),
        ("fatal: write error: No space left on device\nfatal: unable to read 12", False),
        ("fatal: couldn't find remote ref refs/heads/x", False),
        ("error: object 12: hasDotgit: contains '.git'\nfatal: fsck error in packed object", False),
        ("fatal: unable to access 'https://x/': Could not resolve host: x", False),
    ),
)
def test_a_mirror_is_damaged_by_its_own_faults_alone(said: str, damaged: bool) -> None:
    assert is_damage(said) is damaged


async def test_unused_commits_are_forgotten(workspace: GitWorkspace, repository: Repository) -> None:
    mirror, first = workspace.mirror, repository.head
    await mirror.ensure(first)
    second = repository.commit(new="x")
    await mirror.ensure(second)
    kept = mirror.path / "refs" / "plangate" / "commits"
    for ref in kept.iterdir():
        os.utime(ref, (LONG_AGO, LONG_AGO))
    await mirror.ensure(second)
    await mirror.tidy()
    assert [ref.name for ref in kept.iterdir()] == [second]
    await mirror.ensure(first)
    assert {ref.name for ref in kept.iterdir()} == {first, second}


async def test_unused_mirrors_are_removed(workspace: GitWorkspace, repository: Repository) -> None:
    mirror = workspace.mirror
    await mirror.ensure(repository.head)
    gone, held = (mirror.path.with_name(name) for name in ("gone.git", "held.git"))
    for place in (gone, held):
        shutil.copytree(mirror.path, place)
        os.utime(place, (LONG_AGO, LONG_AGO))
    lock = Lock(held.with_suffix(".lock"))
    lock.acquire()
    await mirror.tidy()
    lock.release()
    assert [place.exists() for place in (mirror.path, gone, held)] == [True, False, True]


async def test_packs_become_few(workspace: GitWorkspace, repository: Repository) -> None:
    mirror = workspace.mirror
    await mirror.ensure(repository.head)
    for number in range(PACKS + 2):
        (mirror.path / "objects" / "pack").mkdir(exist_ok=True)
        start = f"commit refs/heads/main\ncommitter P <p@example.org> {1767225600 + number} +0000\ndata 0\n"
        from_ = f"from refs/heads/main^0\nM 100644 inline f{number}\ndata 1\nx\n"
        repository.git("-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", stdin=f"{start}{from_}")
    for pack in (repository.path / ".git" / "objects" / "pack").iterdir():
        shutil.copy(pack, mirror.path / "objects" / "pack")
    head = repository.head
    await mirror.ensure(head)
    await mirror.tidy()
    assert len(packs(mirror.path)) == 1
    assert f"f{PACKS}" in await mirror.paths(head)
    await mirror.tidy()
    assert len(packs(mirror.path)) == 1


async def test_nothing_is_tidied_while_somebody_fetches(workspace: GitWorkspace, repository: Repository) -> None:
    await workspace.mirror.ensure(repository.head)
    lock = Lock(workspace.mirror.path.with_suffix(".lock"))
    lock.acquire()
    await workspace.mirror.tidy()
    assert not workspace.mirror.path.with_suffix(".tidied").exists()
    lock.release()
    await workspace.mirror.tidy()
    assert workspace.mirror.path.with_suffix(".tidied").exists()


async def test_old_checkouts_are_removed(workspace: GitWorkspace, repository: Repository) -> None:
    for name in ("old", "young", "held"):
        await workspace.checkout(name, repository.head)
    await workspace.close()
    await workspace.checkout("held", repository.head)
    for name in ("old", "held"):
        os.utime(workspace.checkouts.folder / name / "base", (LONG_AGO, LONG_AGO))
    await workspace.checkout("new", repository.head)
    names = {place.name for place in workspace.checkouts.folder.glob("*")}
    assert names >= {"young", "held", "new"}
    assert not names & {"old", "old.lock"}


async def test_no_lock_is_left(workspace: GitWorkspace, repository: Repository) -> None:
    (workspace.checkouts.folder).mkdir(parents=True)
    (workspace.checkouts.folder / "child-9.lock").touch()
    main = await workspace.checkout("main", repository.head)
    fork = await workspace.fork(main, "child-1")
    await workspace.discard(fork)
    assert [lock.name for lock in workspace.checkouts.folder.glob("*.lock")] == ["main.lock"]
    again = await workspace.fork(main, "child-1")
    assert again == fork


def test_a_lock_that_is_dropped_never_has_two_holders(tmp_path: Path) -> None:
    inside: list[int] = []
    most = [0]

    def work() -> None:
        for _ in range(150):
            lock = Lock(tmp_path / "x.lock")
            try:
                lock.acquire()
            except Conflict:
                continue
            inside.append(1)
            most[0] = max(most[0], len(inside))
            time.sleep(0)
            inside.pop()
            lock.drop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert not (tmp_path / "x.lock").exists()


def test_what_is_missing_is_not_old(tmp_path: Path) -> None:
    stamp = tmp_path / "stamp"
    stamp.touch()
    assert not locks.is_unused(stamp)
    assert locks.is_unused(stamp, seconds=-1)
    assert not locks.is_unused(tmp_path / "missing" / "stamp", seconds=-1)


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
    with forks.script(WORKS).read_lines(str(repository.path), str(data)) as (_, printed):
        assert printed.readline() == "at work\n"
        yield


def folders(data: Path) -> list[str]:
    clones = len(list((data / "publishing").glob("*/")))
    return [*sorted(place.name for place in (data / "checkouts").glob("*/")), f"{clones} clones"]


@pytest.mark.req("E4")
async def test_what_a_killed_process_left_is_removed(
    workspace: GitWorkspace, repository: Repository, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with at_work(repository, data):
        await workspace.checkout("mine", repository.head)
        assert folders(data) == ["child-1", "child-2", "mine", "thread", "1 clones"]
    await workspace.checkout("mine", repository.head)
    assert folders(data) == ["child-2", "mine", "thread", "0 clones"]
    assert sorted(lock.name for lock in (data / "checkouts").glob("*.lock")) == [
        "child-2.lock", "mine.lock", "thread.lock",
    ]  # fmt: skip


@pytest.mark.req("E4", "L9", "S4")
async def test_a_lasting_fork_is_found_again(workspace: GitWorkspace, repository: Repository, tmp_path: Path) -> None:
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
    half = workspace.checkouts.folder / "child-2~making" / "origin"
    half.mkdir(parents=True)
    await workspace.checkout("mine", repository.head)
    assert not half.parent.exists()


async def test_forks_that_are_in_use_stay(workspace: GitWorkspace, repository: Repository, tmp_path: Path) -> None:
    mine = await workspace.checkout("mine", repository.head)
    fork = await workspace.fork(mine, "child-3")
    other = GitWorkspace.on(workspace.source, tmp_path / "data")
    await other.checkout("other", repository.head)
    await workspace.checkout("mine", repository.head)
    assert Path(fork.path).is_dir()
    await workspace.close()
    await other.checkout("other", repository.head)
    assert not Path(fork.path).exists()


async def test_litter_is_removed_bit_by_bit(workspace: GitWorkspace, repository: Repository) -> None:
    places = [workspace.publisher.folder / f"tmp{number}" for number in range(AT_ONCE + 3)]
    for place in places:
        place.mkdir(parents=True)
    await workspace.checkout("mine", repository.head)
    assert sum(place.exists() for place in places) == 3
    await workspace.checkout("mine", repository.head)
    assert not any(place.exists() for place in places)


async def test_publishing_leaves_nothing(workspace: GitWorkspace, repository: Repository, tmp_path: Path) -> None:
    await publish(workspace, repository, write(src__a_dot_py="a = 2\n"))
    assert list((tmp_path / "data" / "publishing").iterdir()) == []
