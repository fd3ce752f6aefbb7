"""The journal on git: what an attacker, a crash, a lost answer and a second process can and cannot do to it."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.core.errors import Conflict, Refused, Transient
from bot.core.names import RepositoryId, ThreadNumber
from bot.ports import Clock
from bot.store.git_journal import GitJournal, read_archive
from bot.store.sealing import StateKey, place, seal
from bot.store.thread_refs import ThreadRefs
from tests import forks
from tests.store.conftest import Repository

ONE, TWO = ThreadNumber(1), ThreadNumber(2)
KEY = StateKey(b"k" * 32)


@pytest.fixture
def journal_on(refs_on: Callable[[str], ThreadRefs], clock: Clock) -> Callable[[str], GitJournal]:
    """Opens the journal as a new process on the named machine does."""
    return lambda machine: GitJournal(refs_on(machine), RepositoryId(9), key=KEY, clock=clock)


@pytest.fixture
def journal(journal_on: Callable[[str], GitJournal]) -> GitJournal:
    return journal_on("a")


async def test_what_the_repository_sees(journal: GitJournal, repository: Repository, clock: Clock) -> None:
    """An append is one commit on the thread's ref that adds one file, sealed; nothing else in the repository moves."""
    before = repository.git("for-each-ref")
    await journal.append(ONE, 0, [("said", {"text": "a secret plan"}), ("said", {"text": "more"})])
    await journal.append(ONE, 2, [("said", {"text": "again"})])
    ref = "refs/plangate/threads/1"
    assert set(repository.git("for-each-ref").splitlines()) - set(before.splitlines()) == {
        f"{repository.git('rev-parse', ref)} commit\t{ref}"
    }
    assert repository.git("log", "--format=%s %cn %ct", ref).splitlines() == [
        f"journal {n} Plangate {int(clock.now().timestamp())}" for n in (3, 2)
    ]
    files = repository.files()
    assert list(files) == ["journal/00000001", "journal/00000003"]
    assert not any(b"said" in content or b"secret" in content for content in files.values())


@pytest.mark.req("A4", "PR6")
async def test_a_copy_of_the_ref(journal: GitJournal, repository: Repository, tmp_path: Path) -> None:
    """Files that git gives out of the ref are the journal, to whoever has the key; under other names they are none."""
    await journal.append(ONE, 0, [("said", {"text": "one"}), ("said", {"text": "two"})])
    await journal.append(ONE, 2, [("said", {"text": "three"})])
    folder = tmp_path / "9/1/journal"
    folder.mkdir(parents=True)
    for name, content in repository.files().items():
        (folder.parent / name).write_bytes(content)
    assert read_archive(folder, KEY) == await journal.read(ONE)
    with pytest.raises(Refused, match="another key wrote it"):
        read_archive(folder, StateKey(b"K" * 32))
    with pytest.raises(Refused, match="REPOSITORY-ID/THREAD/journal"):
        read_archive(tmp_path, KEY)
    first = folder / "00000001"
    kept = first.read_bytes()
    first.unlink()
    with pytest.raises(Refused, match="thread 1, line 1"):
        read_archive(folder, KEY)
    (folder / "00000002").write_bytes(kept)
    with pytest.raises(Refused, match="moved it"):
        read_archive(folder, KEY)


@pytest.mark.req("A4")
async def test_another_key(journal: GitJournal, refs_on: Callable[[str], ThreadRefs], clock: Clock) -> None:
    """A journal read with another key, or as another repository's, is Refused and never reads as empty."""
    await journal.append(ONE, 0, [("a", {})])
    with pytest.raises(Refused):
        await GitJournal(refs_on("b"), RepositoryId(9), key=StateKey(b"K" * 32), clock=clock).read(ONE)
    with pytest.raises(Refused):
        await GitJournal(refs_on("c"), RepositoryId(8), key=KEY, clock=clock).read(ONE)
    with pytest.raises(Refused):
        await GitJournal(refs_on("d"), RepositoryId(8), key=KEY, clock=clock).append(ONE, 0, [("b", {})])


@pytest.mark.req("A4")
async def test_copied_from_another_thread(
    journal: GitJournal, journal_on: Callable[[str], GitJournal], repository: Repository
) -> None:
    """A thread's ref that is copied over another's is Refused there, by who knew the ref and by who did not."""
    await journal.append(ONE, 0, [("approved", {})])
    await journal.append(TWO, 0, [("requested", {})])
    repository.git("update-ref", "refs/plangate/threads/2", "refs/plangate/threads/1")
    for reader in (journal, journal_on("b")):
        with pytest.raises(Refused):
            await reader.read(TWO)


def _changed(files: dict[str, bytes]) -> dict[str, bytes]:
    content = files["journal/00000002"]
    return files | {"journal/00000002": content[:-1] + bytes([content[-1] ^ 1])}


def _without(name: str) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    return lambda files: {path: content for path, content in files.items() if path != name}


def _swapped(files: dict[str, bytes]) -> dict[str, bytes]:
    return files | {"journal/00000001": files["journal/00000002"], "journal/00000002": files["journal/00000001"]}


def _doubled(files: dict[str, bytes]) -> dict[str, bytes]:
    return files | {"journal/00000004": files["journal/00000003"]}


def _plain(files: dict[str, bytes]) -> dict[str, bytes]:
    return files | {"journal/00000004": b'{"n":4,"kind":"approved"}'}


def _sealed_by_the_key(files: dict[str, bytes]) -> dict[str, bytes]:
    where = place(RepositoryId(9), ONE, "journal/00000004")
    return files | {"journal/00000004": seal(b'{"n":4,"kind":"approved"}', KEY.encryption, where)}


@pytest.mark.req("A4")
@pytest.mark.parametrize(
    "spoil",
    (_changed, _without("journal/00000002"), _without("journal/00000001"), _swapped, _doubled, _plain,
     _sealed_by_the_key),
)  # fmt: skip
async def test_tampered_ref(
    journal: GitJournal,
    journal_on: Callable[[str], GitJournal],
    repository: Repository,
    *,
    spoil: Callable[[dict[str, bytes]], dict[str, bytes]],
) -> None:
    """Whatever a writer of the repository does to the files, a reader is told, and nobody can append behind it."""
    for n in range(3):
        await journal.append(ONE, n, [("moved", {"n_": n})])
    repository.put(spoil(repository.files()))
    for reader in (journal, journal_on("b")):
        with pytest.raises(Refused):
            await reader.read(ONE)
        with pytest.raises((Refused, Conflict)):
            await reader.append(ONE, 3, [("moved", {})])


async def test_rolled_back_ref(
    journal: GitJournal, journal_on: Callable[[str], GitJournal], repository: Repository
) -> None:
    """A ref that is set back to an earlier commit reads as it was then: no chain sees that (A4 anchors the head)."""
    await journal.append(ONE, 0, [("a", {})])
    await journal.append(ONE, 1, [("b", {})])
    repository.git("update-ref", "refs/plangate/threads/1", "refs/plangate/threads/1~1")
    assert [entry.kind for entry in await journal_on("b").read(ONE)] == ["a"]
    assert [entry.kind for entry in await journal.read(ONE)] == ["a"]


async def test_files_of_others(journal: GitJournal, repository: Repository) -> None:
    """Files of the ref that are no journal are kept and do not count."""
    await journal.append(ONE, 0, [("a", {})])
    repository.put(repository.files() | {"transcripts/s/00000001-00000001": b"x", "other": b"y"})
    assert await journal.append(ONE, 1, [("b", {})]) == 2
    assert len(await journal.read(ONE)) == 2
    assert {"other", "transcripts/s/00000001-00000001"} <= set(repository.files())


async def test_repository_is_away(journal: GitJournal, repository: Repository) -> None:
    """A repository that cannot be reached is Transient for reader, writer and list, never an empty journal."""
    await journal.append(ONE, 0, [("a", {})])
    away = repository.path.rename(repository.path.with_name("away.git"))
    with pytest.raises(Transient):
        await journal.read(ONE)
    with pytest.raises(Transient):
        await journal.append(ONE, 1, [("b", {})])
    with pytest.raises(Transient):
        await journal.threads()
    away.rename(repository.path)
    assert await journal.append(ONE, 1, [("b", {})]) == 2


@pytest.mark.req("E1", "E3")
async def test_lost_answer(journal: GitJournal, repository: Repository) -> None:
    """A push that arrived though its answer did not is Transient; reading shows it, and nothing can be doubled."""
    await journal.append(ONE, 0, [("a", {})])
    lost = repository.path / "lose-one-answer"
    lost.touch()
    # receive-pack, the hook's parent, dies when the ref has moved and before it says so
    repository.hook("reference-transaction", f'[ "$1" = committed ] && rm {lost} 2>/dev/null && kill -9 $PPID; true')
    with pytest.raises(Transient, match="may have arrived") as caught:
        await journal.append(ONE, 1, [("b", {})])
    assert not isinstance(caught.value, Conflict)
    with pytest.raises(Conflict):
        await journal.append(ONE, 1, [("b", {})])
    assert [entry.kind for entry in await journal.read(ONE)] == ["a", "b"]
    assert await journal.append(ONE, 2, [("c", {})]) == 3


@pytest.mark.req("E1", "E3")
async def test_request_that_was_lost(journal: GitJournal, repository: Repository) -> None:
    """A push that died before it arrived is Transient too, and the same append succeeds afterwards."""
    await journal.append(ONE, 0, [("a", {})])
    lost = repository.path / "lose-one-request"
    lost.touch()
    repository.hook("pre-receive", f"rm {lost} 2>/dev/null && kill -9 $PPID; true")
    with pytest.raises(Transient):
        await journal.append(ONE, 1, [("b", {})])
    assert [entry.kind for entry in await journal.read(ONE)] == ["a"]
    assert await journal.append(ONE, 1, [("b", {})]) == 2


async def test_declined(journal: GitJournal, repository: Repository) -> None:
    """A repository whose rules decline the push makes it Transient with the reason; nothing is written."""
    repository.hook("pre-receive", "exit 1")
    with pytest.raises(Transient, match="declined"):
        await journal.append(ONE, 0, [("a", {})])
    assert await journal.read(ONE) == ()


@pytest.mark.req("E4")
async def test_ref_moved_for_another_reason(
    journal: GitJournal, journal_on: Callable[[str], GitJournal], repository: Repository
) -> None:
    """A ref that moved while the journal did not (a transcript was saved) is built upon: no Conflict, nothing lost."""
    await journal.append(ONE, 0, [("a", {})])
    repository.put(repository.files() | {"transcripts/s/00000001-00000001": b"x"})
    assert await journal.append(ONE, 1, [("b", {})]) == 2
    assert len(repository.files()) == 3
    assert len(await journal_on("b").read(ONE)) == 2


async def test_scratch_is_a_cache(journal: GitJournal, tmp_path: Path) -> None:
    """Whoever deletes the scratch repository while it is in use costs one Transient at most, and no entry."""
    await journal.append(ONE, 0, [("a", {})])
    shutil.rmtree(tmp_path / "a")
    with pytest.raises(Transient):
        await journal.append(ONE, 1, [("b", {})])
    assert await journal.append(ONE, 1, [("b", {})]) == 2
    assert len(await journal.read(ONE)) == 2


async def test_locks_of_the_dead(journal: GitJournal, journal_on: Callable[[str], GitJournal], tmp_path: Path) -> None:
    """A lock file that a killed process left in the scratch repository stops nobody."""
    await journal.append(ONE, 0, [("a", {})])
    lock = tmp_path / "a" / "scratch.git" / "refs" / "plangate" / "threads" / "1.lock"
    lock.touch()
    assert await journal.append(ONE, 1, [("b", {})]) == 2
    lock.touch()
    await journal_on("b").append(ONE, 2, [("c", {})])
    assert len(await journal.read(ONE)) == 3


def started(program: str, name: str, repository: Repository, scratch: Path) -> subprocess.Popen[str]:
    """Start a process that has the journal in this repository by way of that scratch repository."""
    return subprocess.Popen(
        [sys.executable, "-c", program, name, str(repository.path), str(scratch)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


OPENING = """
import asyncio, sys
from datetime import UTC, datetime
from pathlib import Path
from bot.core.errors import Conflict
from bot.store.git_journal import GitJournal
from bot.store.sealing import StateKey
from bot.store.thread_refs import Remote, ThreadRefs

class Clock:
    def now(self): return datetime.now(UTC)
    async def sleep(self, seconds): await asyncio.sleep(0.01)

name, remote, scratch = sys.argv[1:]
journal = GitJournal(ThreadRefs(Remote(remote), Path(scratch), Clock()), 9, key=StateKey(b"k" * 32), clock=Clock())
"""

RACER = (
    OPENING
    + """
async def attempt(position):
    try:
        await journal.append(1, position, [("won", {"by": name, "at_": position})])
    except Conflict:
        return "late"
    return "won"

for line in sys.stdin:
    print(asyncio.run(attempt(int(line))), flush=True)
"""
)


@pytest.mark.long
@pytest.mark.req("E4")
@pytest.mark.parametrize("shared", (True, False), ids=("one data directory", "two machines"))
async def test_race_of_processes(journal: GitJournal, repository: Repository, tmp_path: Path, *, shared: bool) -> None:
    """Of two processes that append at one position, in 20 rounds exactly one wins each, and the other is told."""
    scratches = [tmp_path / ("shared" if shared else name) / "scratch.git" for name in ("left", "right")]
    racers = [
        started(RACER, name, repository, scratch) for name, scratch in zip(("left", "right"), scratches, strict=True)
    ]
    winners = []
    for position in range(20):
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write(f"{position}\n")
            racer.stdin.flush()
        told = [racer.stdout.readline().strip() for racer in racers if racer.stdout is not None]
        assert sorted(told) == ["late", "won"]
        winners.append(("left", "right")[told.index("won")])
    for racer in racers:
        racer.communicate()
    assert [entry.body for entry in await journal.read(ONE)] == [
        {"by": winner, "at_": position} for position, winner in enumerate(winners)
    ]


WRITER = (
    OPENING
    + """
from bot.core.errors import Conflict

async def write():
    position = len(await journal.read(1))
    while True:
        try:
            position = await journal.append(1, position, [("wrote", {"i": position})])
        except Conflict:  # the push of a writer that was killed came through just now
            position = len(await journal.read(1))
        else:
            print(position, flush=True)

asyncio.run(write())
"""
)


@pytest.mark.req("E3")
async def test_killed_at_any_point(journal: GitJournal, repository: Repository, tmp_path: Path) -> None:
    """However often a writer is killed with -9, every append that returned is there, and the next writer goes on."""
    acknowledged = 0
    for appends in (1, 2, 3, 5):
        writer = forks.script(WRITER).read_lines("writer", str(repository.path), str(tmp_path / "w" / "scratch.git"))
        with writer as (_, printed):
            for _ in range(appends):
                acknowledged = int(printed.readline())
        # git, which the kill does not reach, may still be at work for the writer: at most one more entry
        entries = await journal.read(ONE)
        assert [entry.body for entry in entries] == [{"i": i} for i in range(len(entries))]
        assert len(entries) >= acknowledged
