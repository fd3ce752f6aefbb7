"""Transcripts in git refs: what is saved is read whole, in its place, also beside the session that writes."""

import base64
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import pytest

from bot.core.errors import Conflict, Refused, Transient
from bot.core.names import RepositoryId, SessionId, ThreadNumber
from bot.core.transcript import Line, LineKind
from bot.ports import Clock
from bot.store.git_journal import GitJournal
from bot.store.sealing import StateKey
from bot.store.thread_refs import ThreadRefs
from bot.store.transcripts import SpooledTranscripts, read_spool_file
from tests import forks
from tests.store.conftest import Repository

ONE, NINE = ThreadNumber(1), RepositoryId(9)
S = SessionId("s-1")
KEY = StateKey(b"k" * 32)

Open: TypeAlias = Callable[[str], SpooledTranscripts]


@pytest.fixture
def open_on(refs_on: Callable[[str], ThreadRefs], tmp_path: Path) -> Open:
    """Opens the thread's transcripts as a new process on the named machine does."""
    return lambda machine: SpooledTranscripts(refs_on(machine), NINE, ONE, key=KEY, spool=tmp_path / machine / "spool")


def line(text: str) -> Line:
    return Line(LineKind.NOTE, datetime(2026, 11, 20, tzinfo=UTC), {"text": text})


def texts(transcripts: SpooledTranscripts, session: SessionId = S) -> list[str]:
    return [each.body["text"] for each in transcripts.load(session)]


def spool_file(tmp_path: Path, machine: str = "a", session: str = S) -> Path:
    return tmp_path / machine / "spool" / "9" / "1" / session


@pytest.mark.req("L9")
async def test_nothing_in_the_clear(open_on: Open, repository: Repository, tmp_path: Path) -> None:
    """Neither spool nor ref holds a word of a transcript; the ref has one file a save and session."""
    transcripts = open_on("a")
    transcripts.append(S, [line("a secret thought")])
    transcripts.append(S, [line("another")])
    await transcripts.save()
    transcripts.append(S, [line("a third")])
    await transcripts.save()
    files = repository.files()
    assert list(files) == ["transcripts/s-1/00000001-00000002", "transcripts/s-1/00000003-00000003"]
    for content in (*files.values(), spool_file(tmp_path).read_bytes()):
        assert b"secret" not in content
        assert b"text" not in content


@pytest.mark.req("L9")
def test_torn_append_is_dropped_whole(open_on: Open, tmp_path: Path) -> None:
    """Of an append of two lines that was torn neither is there; the next append goes behind what is whole."""
    transcripts = open_on("a")
    transcripts.append(S, [line("one")])
    transcripts.append(S, [line("call"), line("result")])
    file = spool_file(tmp_path)
    file.write_bytes(file.read_bytes()[:-10])
    second = open_on("a")
    assert texts(second) == ["one"]
    second.append(S, [line("call again"), line("result again")])
    assert texts(open_on("a")) == ["one", "call again", "result again"]


WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from bot.core.transcript import Line, LineKind
from bot.store.sealing import StateKey
from bot.store.thread_refs import Remote, ThreadRefs
from bot.store.transcripts import SpooledTranscripts

remote, data = sys.argv[1:]
refs = ThreadRefs(Remote(remote), Path(data, "scratch.git"), None)
transcripts = SpooledTranscripts(refs, 9, 1, key=StateKey(b"k" * 32), spool=Path(data, "spool"))
count = len(transcripts.load("s-1")) // 2
while True:
    bodies = [{"text": f"{what} {count}" + "x" * 5000} for what in ("call", "result")]
    pair = [Line(LineKind.NOTE, datetime.now(UTC), body) for body in bodies]
    transcripts.append("s-1", pair)
    count += 1
    print(count, flush=True)
"""


def killed_after(appends: int, repository: Repository, data: Path) -> int:
    """Start a process that appends without end, kill it with -9, and give the number of appends that it saw return."""
    with forks.script(WRITER).read_lines(str(repository.path), str(data)) as (_, printed):
        return [int(printed.readline()) for _ in range(appends)][-1]


@pytest.mark.req("L9", "E3")
def test_killed_at_any_point(open_on: Open, repository: Repository, tmp_path: Path) -> None:
    """However often the process is killed with -9, every append that returned is there, in pairs, none twice."""
    for appends in (1, 7, 60):
        acknowledged = killed_after(appends, repository, tmp_path / "a")
        loaded = [text.rstrip("x") for text in texts(open_on("a"))]
        assert loaded == [f"{what} {n}" for n in range(len(loaded) // 2) for what in ("call", "result")]
        assert len(loaded) >= 2 * acknowledged


@pytest.mark.req("E4")
def test_second_process_on_one_disk(open_on: Open) -> None:
    """A process that goes on with a session that another one took over gets a Conflict, and nothing is mixed."""
    old, new = open_on("a"), open_on("a")
    old.append(S, [line("one")])
    assert texts(new) == ["one"]
    new.append(S, [line("two")])
    with pytest.raises(Conflict):
        old.append(S, [line("two, by the old one")])
    assert texts(open_on("a")) == ["one", "two"]


@pytest.mark.req("E4")
async def test_overtaken_on_another_disk(open_on: Open) -> None:
    """A process whose session another machine went on with cannot save over it: Conflict, and the ref is right."""
    old = open_on("a")
    old.append(S, [line("one")])
    await old.save()
    new = open_on("b")
    new.load(S)
    new.append(S, [line("two")])
    await new.save()
    old.append(S, [line("two, by the old one")])
    with pytest.raises(Conflict):
        await old.save()
    assert texts(open_on("c")) == ["one", "two"]
    assert texts(open_on("a")) == ["one", "two"]  # a new process on the old disk: what nobody saw is gone
    again = open_on("a")
    again.load(S)
    again.append(S, [line("three")])
    await again.save()
    assert texts(open_on("d")) == ["one", "two", "three"]


async def test_left_behind(open_on: Open) -> None:
    """What a dead process left of a session that others went on with does not hinder saving another session."""
    old = open_on("a")
    old.append(S, [line("one, never saved")])
    new = open_on("b")
    new.append(S, [line("one")])
    await new.save()
    later = open_on("a")
    later.append(SessionId("s-2"), [line("other")])
    await later.save()
    assert texts(open_on("c")) == ["one"]
    assert texts(open_on("c"), SessionId("s-2")) == ["other"]


async def test_left_unsaved(open_on: Open) -> None:
    """What a dead process did not come to save is saved by the next one on its disk, whatever session that works on."""
    open_on("a").append(S, [line("one")])
    later = open_on("a")
    later.append(SessionId("s-2"), [line("other")])
    await later.save()
    assert texts(open_on("b")) == ["one"]


async def test_beside_the_journal(
    open_on: Open, refs_on: Callable[[str], ThreadRefs], repository: Repository, clock: Clock
) -> None:
    """Saves and appends of one thread by two processes that take turns blindly lose nothing of each other."""
    journal = GitJournal(refs_on("j"), NINE, key=KEY, clock=clock)
    transcripts = open_on("a")
    for n in range(4):
        assert await journal.append(ONE, n, [("moved", {"i": n})]) == n + 1
        transcripts.append(S, [line(str(n))])
        await transcripts.save()
    assert [entry.body["i"] for entry in await journal.read(ONE)] == [0, 1, 2, 3]
    assert texts(open_on("b")) == ["0", "1", "2", "3"]
    assert len(repository.files()) == 8


@pytest.mark.req("E1", "E3")
async def test_lost_answer(open_on: Open, repository: Repository) -> None:
    """A save that arrived though its answer did not is Transient; the next one goes on, and nothing is doubled."""
    transcripts = open_on("a")
    transcripts.append(S, [line("one")])
    lost = repository.path / "lose-one-answer"
    lost.touch()
    repository.hook("reference-transaction", f'[ "$1" = committed ] && rm {lost} 2>/dev/null && kill -9 $PPID; true')
    with pytest.raises(Transient):
        await transcripts.save()
    transcripts.append(S, [line("two")])
    await transcripts.save()
    assert texts(open_on("b")) == ["one", "two"]
    assert len(repository.files()) == 2


FIRST, SECOND = "transcripts/s-1/00000001-00000001", "transcripts/s-1/00000002-00000002"


@pytest.mark.req("A4", "L9")
@pytest.mark.parametrize(
    "spoil",
    (
        lambda files: {SECOND: files[SECOND]},
        lambda files: {FIRST: files[SECOND], SECOND: files[FIRST]},
        lambda files: files | {SECOND: files[SECOND].replace(b"2 ", b"3 ")},
        lambda files: files | {SECOND: files[SECOND][:-5] + b"AAA=\n"},
        lambda files: files | {"transcripts/s-1/00000003-00000003": files[SECOND].replace(b"2 ", b"3 ")},
        lambda files: files | {"transcripts/s-1/00000002-00000003": files[SECOND]},
        lambda files: files | {SECOND: b""},
        lambda files: files | {"transcripts/s-1/00000001-00000002": files[FIRST] + files[SECOND]},
        lambda files: {name.replace("s-1", "s-2"): content for name, content in files.items()},
    ),
    ids=(
        "left out",
        "swapped",
        "renumbered",
        "changed",
        "replayed",
        "stretched",
        "emptied",
        "overlapping",
        "other session",
    ),
)
async def test_tampered_ref(
    open_on: Open, repository: Repository, spoil: Callable[[dict[str, bytes]], dict[str, bytes]]
) -> None:
    """Whatever a writer of the repository does to the stored records, loading them is Refused."""
    transcripts = open_on("a")
    for text in ("one", "two"):
        transcripts.append(S, [line(text)])
        await transcripts.save()
    files = spoil(repository.files())
    repository.put(files)
    session = SessionId("s-2") if all("s-2" in name for name in files) else S
    with pytest.raises(Refused):
        open_on("b").load(session)


@pytest.mark.req("A4")
async def test_another_key(open_on: Open, refs_on: Callable[[str], ThreadRefs], tmp_path: Path) -> None:
    """A transcript of another key, thread or repository is Refused, from spool and from ref."""
    transcripts = open_on("a")
    transcripts.append(S, [line("one")])
    await transcripts.save()
    other = StateKey(b"K" * 32)
    for machine in "ab":
        spool = tmp_path / machine / "spool"
        with pytest.raises(Refused):
            SpooledTranscripts(refs_on(machine), NINE, ONE, key=other, spool=spool).load(S)
    with pytest.raises(Refused):
        SpooledTranscripts(refs_on("b"), RepositoryId(8), ONE, key=KEY, spool=tmp_path / "b" / "spool").load(S)


async def test_repository_is_away(open_on: Open, repository: Repository, tmp_path: Path) -> None:
    """While the remote is away a session that is open goes on; saving is Transient, and is made up for later."""
    transcripts = open_on("a")
    transcripts.append(S, [line("one")])
    away = repository.path.rename(tmp_path / "away.git")
    transcripts.append(S, [line("two")])
    with pytest.raises(Transient):
        await transcripts.save()
    with pytest.raises(Transient):
        open_on("b").load(S)
    away.rename(repository.path)
    await transcripts.save()
    assert texts(open_on("b")) == ["one", "two"]


@pytest.mark.req("L9")
async def test_work_comes_along(open_on: Open, repository: Repository) -> None:
    """The newest work that was kept is there on another disk, sealed; what did not change is not saved again."""
    first = open_on("a")
    assert first.saved_work(S) == b""
    for work in (b"secret work", b"secret work", b"more secret work"):
        first.keep(S, work)
        assert first.saved_work(S) == work
        await first.save()
    assert open_on("b").saved_work(S) == b"more secret work"
    assert open_on("b").saved_work(SessionId("s")) == b""
    files = repository.files()
    assert list(files) == ["work/s-1/00000001", "work/s-1/00000002"]
    assert not any(b"secret" in content for content in files.values())


@pytest.mark.req("L9")
async def test_work_of_another_place(open_on: Open, repository: Repository) -> None:
    """Work that was moved to another session, or to another number, does not open."""
    first = open_on("a")
    first.keep(S, b"work")
    await first.save()
    (sealed,) = repository.files().values()
    repository.put({"work/s-2/00000001": sealed, "work/s-1/00000002": sealed})
    for session in (S, SessionId("s-2")):
        with pytest.raises(Refused):
            open_on("b").saved_work(session)


@pytest.mark.req("L9")
async def test_a_held_session_is_never_newer_than_its_work(open_on: Open, repository: Repository) -> None:
    """Of a held session only that is saved of which the work was kept, and both in one commit."""
    first = open_on("a")
    first.hold(S)
    first.append(S, [line("one")])
    first.append(SessionId("other"), [line("not held")])
    await first.save()
    assert texts(open_on("b")) == []
    assert texts(open_on("b"), SessionId("other")) == ["not held"]
    first.keep(S, b"after one")
    first.append(S, [line("two")])
    before = int(repository.git("rev-list", "--count", "refs/plangate/threads/1"))
    await first.save()
    assert int(repository.git("rev-list", "--count", "refs/plangate/threads/1")) == before + 1
    second = open_on("c")
    assert (texts(second), second.saved_work(S)) == (["one"], b"after one")
    assert texts(first) == ["one", "two"]
    await first.save()
    assert texts(open_on("d")) == ["one"]


@pytest.mark.req("L9", "E3")
async def test_a_held_session_goes_on_elsewhere(open_on: Open) -> None:
    """Another disk goes on from the last saved pair; what the first one has beyond it is overtaken."""
    first = open_on("a")
    first.hold(S)
    first.append(S, [line("one")])
    first.keep(S, b"after one")
    await first.save()
    first.append(S, [line("two, lost")])
    second = open_on("b")
    second.hold(S)
    assert texts(second) == ["one"]
    second.append(S, [line("two")])
    second.keep(S, b"after two")
    await second.save()
    third = open_on("c")
    assert (texts(third), third.saved_work(S)) == (["one", "two"], b"after two")
    assert [open_on(disk).is_behind(S) for disk in "abd"] == [True, False, True]
    assert not open_on("d").is_behind(SessionId("other"))
    first.keep(S, b"lost")
    with pytest.raises(Conflict):
        await first.save()


@pytest.mark.req("L9", "E3")
async def test_rides_on_the_journal(
    open_on: Open, refs_on: Callable[[str], ThreadRefs], clock: Clock, repository: Repository
) -> None:
    """What an entry tells of is there with it: one commit holds the entry, the lines and the work."""
    refs = refs_on("a")
    first = SpooledTranscripts(refs, NINE, ONE, key=KEY, spool=Path(repository.path.parent / "spool"))
    journal = GitJournal(refs, NINE, key=KEY, clock=clock, beside=first.unsaved_files)
    first.append(S, [line("done")])
    first.keep(S, b"work")
    await journal.append(ONE, 0, [("executed", {})])
    assert list(repository.files()) == [
        "journal/00000001",
        "transcripts/s-1/00000001-00000001",
        "work/s-1/00000001",
    ]
    assert int(repository.git("rev-list", "--count", "refs/plangate/threads/1")) == 1
    await journal.append(ONE, 1, [("told", {})])
    assert len(repository.files()) == 4
    second = open_on("b")
    assert (texts(second), second.saved_work(S)) == (["done"], b"work")


@pytest.mark.req("E4")
async def test_the_journal_rides_on_nothing_that_was_overtaken(
    open_on: Open, refs_on: Callable[[str], ThreadRefs], clock: Clock, tmp_path: Path
) -> None:
    """A process whose session another one went on with cannot journal what came of it."""
    refs = refs_on("a")
    old = SpooledTranscripts(refs, NINE, ONE, key=KEY, spool=tmp_path / "spool")
    journal = GitJournal(refs, NINE, key=KEY, clock=clock, beside=old.unsaved_files)
    old.append(S, [line("by the old one")])
    new = open_on("b")
    new.append(S, [line("by the new one")])
    await new.save()
    with pytest.raises(Conflict):
        await journal.append(ONE, 0, [("executed", {})])
    assert await journal.read(ONE) == ()


async def test_reading_beside_the_session(open_on: Open, tmp_path: Path) -> None:
    """A reader sees what is on this disk and in the ref, lists every session, and changes neither."""
    writer, reader = open_on("a"), open_on("a")
    writer.append(S, [line("one")])
    assert [each.body["text"] for each in reader.peek(S)] == ["one"]
    await writer.save()
    writer.append(S, [line("two")])
    writer.append(SessionId("s-2"), [line("other")])
    before = spool_file(tmp_path).read_bytes()
    assert [each.body["text"] for each in open_on("a").peek(S)] == ["one", "two"]
    assert open_on("a").sessions() == (S, SessionId("s-2"))
    assert open_on("b").sessions() == (S,)
    assert [each.body["text"] for each in open_on("b").peek(S)] == ["one"]
    assert open_on("b").peek(SessionId("none")) == ()
    assert spool_file(tmp_path).read_bytes() == before
    writer.append(S, [line("three")])
    with pytest.raises(Refused):
        open_on("a").peek(SessionId("../s-1"))


async def test_reading_what_was_overtaken(open_on: Open, tmp_path: Path) -> None:
    """Where ref and disk differ the ref is shown; the running session still learns of it by itself."""
    old = open_on("a")
    old.append(S, [line("one")])
    await old.save()
    new = open_on("b")
    new.load(S)
    new.append(S, [line("two")])
    await new.save()
    old.append(S, [line("two, by the old one")])
    old.append(S, [line("three, by the old one")])
    before = spool_file(tmp_path).read_bytes()
    assert [each.body["text"] for each in open_on("a").peek(S)] == ["one", "two"]
    assert spool_file(tmp_path).read_bytes() == before
    with pytest.raises(Conflict):
        await old.save()


async def test_a_record_that_is_missing(open_on: Open, tmp_path: Path) -> None:
    """A reader sees the lines before it."""
    writer = open_on("a")
    for words in ("one", "two", "three"):
        writer.append(S, [line(words)])
    first, _, third = spool_file(tmp_path).read_bytes().splitlines(keepends=True)
    spool_file(tmp_path).write_bytes(first + third)
    assert [each.body["text"] for each in open_on("a").peek(S)] == ["one"]


@pytest.mark.long
@pytest.mark.req("K9", "L9")
async def test_a_line_with_pictures(
    refs_on: Callable[[str], ThreadRefs], repository: Repository, tmp_path: Path
) -> None:
    """The most that a session is shown, 8 MB of base64, is stored in one file, and another machine goes on from it."""

    def machine(name: str) -> SpooledTranscripts:
        key, spool = StateKey(b"k" * 32), tmp_path / name / "spool"
        return SpooledTranscripts(refs_on(name), RepositoryId(9), ThreadNumber(1), key=key, spool=spool)

    session, data = SessionId("s-1"), base64.b64encode(random.Random(1).randbytes(6_000_000)).decode()
    transcripts = machine("a")
    transcripts.append(session, [Line(LineKind.NOTE, datetime(2026, 11, 20, tzinfo=UTC), {"data": data})])
    await transcripts.save()
    assert max(map(len, repository.files().values())) < 8_100_000
    (line,) = machine("b").load(session)
    assert line.body == {"data": data}


@pytest.mark.req("L9")
async def test_sessions_of_a_thread_that_is_no_more_are_set_aside(open_on: Open, tmp_path: Path) -> None:
    """They are neither read nor pushed, and kept: each time under another name, and readable there."""
    for text in ("old", "older"):
        gone = open_on("a")
        gone.append(S, [line(text)])
        gone.set_aside()
        assert texts(gone) == []
    transcripts = open_on("a")
    transcripts.append(S, [line("new")])
    await transcripts.save()
    assert texts(open_on("b")) == ["new"]
    kept = [spool_file(tmp_path).parent.with_name(f"1.aside-{number}") / S for number in (1, 2)]
    assert [read_spool_file(file, KEY)[0].body["text"] for file in kept] == ["old", "older"]


def test_nothing_to_set_aside(open_on: Open, tmp_path: Path) -> None:
    """A thread that was never here leaves no trace."""
    open_on("a").set_aside()
    assert not (tmp_path / "a" / "spool").exists()
