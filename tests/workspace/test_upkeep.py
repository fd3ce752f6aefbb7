"""Upkeep: mirrors that were damaged heal, what nobody uses is forgotten, and what is used stays."""

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.core.errors import Conflict
from bot.workspace import locks
from bot.workspace.locks import Lock
from bot.workspace.mirror import PACKS, is_damage, remove_mirror
from bot.workspace.workspace import GitWorkspace
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
async def test_damage_heals(damage: Callable[[Path], None], workspace: GitWorkspace, repository: Repository) -> None:
    """Whatever a crash left of a mirror, the next checkouts are whole: of a commit that was there, and of a new one."""
    old = repository.head
    await workspace.checkout("before", old)
    damage(workspace.mirror.path)
    again = await workspace.checkout("again", old)
    assert (Path(again.path) / "src" / "a.py").read_text() == "a = 1\n"
    new = await workspace.checkout("new", repository.commit(new="x"))
    assert (Path(new.path) / "new").read_text() == "x"


@pytest.mark.req("G2")
async def test_published_after_damage(workspace: GitWorkspace, repository: Repository) -> None:
    """Work that was begun before its mirror was lost is published all the same."""
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
def test_what_damage_is(said: str, damaged: bool) -> None:
    """A mirror is thrown away for its own faults, not for those of the disk, the network or a history."""
    assert is_damage(said) is damaged


async def test_unused_commits_are_forgotten(workspace: GitWorkspace, repository: Repository) -> None:
    """A commit that nobody used for long loses its ref; one that is used keeps it, and a forgotten one comes back."""
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
    """The mirror of a repository that nobody works on goes; one that somebody fetches into stays."""
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
    """Many fetches leave many packs, which become few, with nothing lost; on the same day nothing is done again."""
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
    """A mirror that is held is left for another day, without a word."""
    await workspace.mirror.ensure(repository.head)
    lock = Lock(workspace.mirror.path.with_suffix(".lock"))
    lock.acquire()
    await workspace.mirror.tidy()
    assert not workspace.mirror.path.with_suffix(".tidied").exists()
    lock.release()
    await workspace.mirror.tidy()
    assert workspace.mirror.path.with_suffix(".tidied").exists()


async def test_old_checkouts_are_removed(workspace: GitWorkspace, repository: Repository) -> None:
    """A checkout that nobody used for long goes; one that was used lately, or is in use, stays."""
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
    """A discarded checkout takes its lock along, and locks of names that are no more are removed."""
    (workspace.checkouts.folder).mkdir(parents=True)
    (workspace.checkouts.folder / "child-9.lock").touch()
    main = await workspace.checkout("main", repository.head)
    fork = await workspace.fork(main, "child-1")
    await workspace.discard(fork)
    assert [lock.name for lock in workspace.checkouts.folder.glob("*.lock")] == ["main.lock"]
    again = await workspace.fork(main, "child-1")
    assert again == fork


def test_one_holder_of_a_name(tmp_path: Path) -> None:
    """A lock that is removed by its holder, again and again, never has two of them."""
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


def test_kept_as_the_disk_allows(tmp_path: Path) -> None:
    """What is missing is not old; what is old for one purpose need not be for another."""
    stamp = tmp_path / "stamp"
    stamp.touch()
    assert not locks.is_unused(stamp)
    assert locks.is_unused(stamp, seconds=-1)
    assert not locks.is_unused(tmp_path / "missing" / "stamp", seconds=-1)
