"""The journal in git refs: its chain, who may write it, and every journal of a repository in turn (RC8)."""

import gc
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.errors import Conflict, Refused, Transient
from bot.core.names import RepositoryId, ThreadNumber
from bot.ports import Clock, Entry
from bot.store.git_journal import GitJournal, read_archive
from bot.store.sealing import RESERVED, Chain, StateKey, place, seal
from bot.store.thread_refs import ThreadRefs
from tests import forks
from tests.rows import every_row
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


AT = datetime(2026, 11, 20, 8, 30, 0, 123456, tzinfo=UTC)
CHAIN = Chain(RepositoryId(7), ThreadNumber(5), b"k" * 32)
LINES = CHAIN.extend((), AT, [("a", {"x": 1}), ("b", {"x": 2}), ("c", {"x": 3})])


def test_format() -> None:
    """A line is one JSON object: n, at, kind, the body, prev, mac; the first prev is 64 zeros (a known answer)."""
    first, second = CHAIN.extend((), AT, [("a", {"x": "é"}), ("b", {})])
    assert first.decode() == (
        '{"n":1,"at":"2026-11-20T08:30:00.123456+00:00","kind":"a","x":"é","prev":"' + "0" * 64 + '",'
        '"mac":"2fa83ac0df0c5e1bd1b1e5e78e187838ac9d4489229e52112015091588c1e36a"}'
    )
    assert second.decode().startswith(
        '{"n":2,"at":"2026-11-20T08:30:00.123456+00:00","kind":"b","prev":"09036bf79dd1dcf605559ae533019a728c4abc7ae4a3342d740c20a2bab098f2"'
    )


def test_in_pieces() -> None:
    """Extending in two steps gives the same lines as extending in one."""
    head = CHAIN.extend((), AT, [("a", {"x": 1})])
    assert head + CHAIN.extend(head, AT, [("b", {"x": 2}), ("c", {"x": 3})]) == LINES


def test_time_is_utc() -> None:
    """A time of another zone is stored, and read back, as the same moment in UTC."""
    lines = CHAIN.extend((), AT.astimezone(timezone(timedelta(hours=5))), [("a", {})])
    assert CHAIN.verify(lines) == (Entry(1, AT, "a", {}),)
    assert b"+00:00" in lines[0]


@pytest.mark.req("A4")
@every_row(
    ("lines", "line"),
    (
        ((LINES[0], LINES[2]), 2),
        (LINES[1:], 1),
        ((LINES[1], LINES[0], LINES[2]), 1),
        ((LINES[0], LINES[0], LINES[1]), 2),
        ((LINES[0], LINES[1].replace(b'"x":2', b'"x":9'), LINES[2]), 2),
        ((LINES[0], LINES[1].replace(b'"n":2', b'"n":3'), LINES[2]), 2),
        ((*LINES[:2], LINES[2][:-1]), 3),
        ((*LINES, b""), 4),
        ((*LINES, b"{}"), 4),
        ((*LINES, b'{"n":4,"at":"2026-11-20T08:30:00+00:00","kind":"a","prev":"","mac":""}'), 4),
        ((LINES[0][:-1] + b" }", *LINES[1:]), 1),
        ((b" " + LINES[0], *LINES[1:]), 1),
    ),
)  # fmt: skip
def test_tampered(lines: tuple[bytes, ...], line: int) -> None:
    """Any change is Refused, naming the first line that is not as it was written."""
    with pytest.raises(Refused, match=f"line {line}\\b"):
        CHAIN.verify(lines)


@pytest.mark.req("A4")
@pytest.mark.parametrize(
    "other",
    (
        Chain(RepositoryId(8), ThreadNumber(5), b"k" * 32),
        Chain(RepositoryId(7), ThreadNumber(6), b"k" * 32),
        Chain(RepositoryId(7), ThreadNumber(5), b"K" * 32),
    ),
    ids=("repository", "thread", "key"),
)
def test_carried_elsewhere(other: Chain) -> None:
    """Lines of another repository, thread or key do not verify."""
    with pytest.raises(Refused, match="line 1"):
        other.verify(LINES)


@pytest.mark.req("A4")
def test_two_stories() -> None:
    """A line that truly was the second of another history of the thread does not follow this one's first."""
    other = CHAIN.extend((), AT, [("a", {"x": 0}), ("b", {"x": 2})])
    with pytest.raises(Refused, match="line 2"):
        CHAIN.verify((LINES[0], other[1]))


def test_cut_at_the_end() -> None:
    """A chain that lost its end verifies: a rollback is not for the chain to see (module docstring)."""
    assert [entry.kind for entry in CHAIN.verify(LINES[:2])] == ["a", "b"]


def test_key_is_not_shown() -> None:
    """Printing a chain does not print its key."""
    assert "kkk" not in repr(CHAIN)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
BODY = st.dictionaries(st.text().filter(lambda key: key not in RESERVED), JSON, max_size=4)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.text(), BODY), max_size=4))
def test_any_entries(entries: list[tuple[str, dict[str, object]]]) -> None:
    """Whatever JSON was put in comes out, and no line holds a newline."""
    lines = CHAIN.extend((), AT, entries)
    assert [(entry.kind, entry.body) for entry in CHAIN.verify(lines)] == entries
    assert not any(b"\n" in line for line in lines)


@given(st.data())
def test_any_flipped_byte(data: st.DataObject) -> None:
    """A chain with any one byte changed is Refused."""
    which = data.draw(st.integers(0, 2))
    at = data.draw(st.integers(0, len(LINES[which]) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda byte: byte != LINES[which][at]))
    changed = LINES[which][:at] + bytes([value]) + LINES[which][at + 1 :]
    with pytest.raises(Refused, match=f"line {which + 1}\\b"):
        CHAIN.verify((*LINES[:which], changed, *LINES[which + 1 :]))


pytestmark = pytest.mark.req("RC8")
LARGE = 500_000
Open = Callable[[str, StateKey], GitJournal]


@pytest.fixture
def open_on(refs_on: Callable[[str], ThreadRefs], clock: Clock) -> Open:
    """Opens the journal on a machine, with a key."""
    return lambda machine, key: GitJournal(refs_on(machine), RepositoryId(9), key=key, clock=clock)


async def test_threads_that_cannot_be_read(open_on: Open, repository: Repository, clock: Clock) -> None:
    """They are named, and stop nothing: those of another key, and those that somebody altered."""
    journal, other = open_on("a", KEY), open_on("b", StateKey(b"o" * 32))
    for thread in (1, 3):
        await journal.append(ThreadNumber(thread), 0, [("said", {"thread": thread})])
    await other.append(ThreadNumber(2), 0, [("said", {})])
    ((name, content),) = repository.files(3).items()
    repository.put({name: content[:-1] + b"x"}, 3)
    ever = datetime.fromtimestamp(0, UTC)
    found = [each async for each in open_on("c", KEY).read_each_since(ever)]
    assert [(thread, entries and len(entries)) for thread, entries in found] == [(1, 1), (2, None), (3, None)]
    assert [each async for each in journal.read_each_since(clock.now() + timedelta(seconds=1))] == []


@pytest.mark.long
async def test_only_one_journal_is_in_memory(open_on: Open, refs_on: Callable[[str], ThreadRefs], clock: Clock) -> None:
    """Ten threads take as much memory as one: neither what they say nor the list of their files is kept."""
    journal, refs = open_on("a", KEY), refs_on("files")
    for thread in range(1, 11):
        refs.commit(ThreadNumber(thread), lambda _: {f"other/{n}": b"" for n in range(2_000)}, "many files")
        await journal.append(ThreadNumber(thread), 0, [("said", {"text": f"{thread}" * LARGE})])
    reader = open_on("b", KEY)
    del journal
    tracemalloc.start()
    kept = []
    async for _, entries in reader.read_each_since(clock.now() - timedelta(days=1)):
        assert entries is not None
        del entries
        gc.collect()
        kept.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert len(kept) == 10
    assert max(kept) < 4 * LARGE
