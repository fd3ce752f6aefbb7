"""Threads as refs: names, programs, environments and formats that git is, and is not, given."""

import shutil
from collections.abc import Callable, Mapping
from contextlib import chdir
from pathlib import Path

import pytest

from bot.core.errors import Refused, Transient
from bot.core.names import ThreadNumber, thread_ref
from bot.ports import Clock
from bot.store.thread_refs import Remote, ThreadRefs, Tip
from tests.store.conftest import Repository

ONE, TWO = ThreadNumber(1), ThreadNumber(2)


def adding(**files: bytes) -> Callable[[Tip], Mapping[str, bytes]]:
    return lambda tip: {name: content for name, content in files.items() if name not in tip.files}


def script(tmp_path: Path, name: str) -> tuple[str, Path]:
    """Write a program that runs git's own of that name and notes each run; give its command and the note's path."""
    program, note = tmp_path / f"sandboxed {name}", tmp_path / f"{name}.ran"
    program.write_text(f'#!/bin/sh\necho >> {note}\nexec git {name} "$@"\n')
    program.chmod(0o755)
    return f"'{program}'", note


def runs(note: Path) -> int:
    return len(note.read_text()) if note.exists() else 0


def test_files_are_added(refs_on: Callable[[str], ThreadRefs]) -> None:
    """Each commit adds its files to those before; another machine reads them all."""
    refs = refs_on("a")
    assert refs.last_seen(ONE) == Tip()
    first = refs.commit(ONE, adding(a=b"1", b=b""), "first")
    second = refs.commit(ONE, adding(c=b"\x00\xff\n" * 1000), "second")
    assert (list(first.files), list(second.files)) == (["a", "b"], ["a", "b", "c"])
    seen = refs_on("b").read_tip(ONE)
    assert seen == second
    assert refs_on("b").read([seen.files[name] for name in "cab"]) == [b"\x00\xff\n" * 1000, b"1", b""]


def test_when_it_moved(refs_on: Callable[[str], ThreadRefs], clock: Clock) -> None:
    """What moved a thread says when; a thread that is not there never moved."""
    refs_on("a").commit(ONE, adding(a=b"1"), "first")
    assert refs_on("b").last_write_time(ONE) == clock.now()
    assert refs_on("b").last_write_time(ThreadNumber(2)).year == 1970


def test_nothing_to_add(refs_on: Callable[[str], ThreadRefs]) -> None:
    """A change without files commits nothing."""
    refs = refs_on("a")
    tip = refs.commit(ONE, adding(a=b"1"), "first")
    assert refs.commit(ONE, adding(a=b"1"), "again") == tip
    assert refs_on("b").read_tip(ONE) == tip


def test_change_is_asked_again(refs_on: Callable[[str], ThreadRefs]) -> None:
    """Of two that add at one tip the second is asked again on the newer one; both files are there."""
    first, second = refs_on("a"), refs_on("b")
    second.read_tip(ONE)
    first.commit(ONE, adding(a=b"1"), "first")
    tips = []

    def change(tip: Tip) -> Mapping[str, bytes]:
        tips.append(sorted(tip.files))
        return {"b": b"2"}

    assert sorted(second.commit(ONE, change, "second").files) == ["a", "b"]
    assert tips == [[], ["a"]]


@pytest.mark.req("G3")
def test_never_forces(refs_on: Callable[[str], ThreadRefs], repository: Repository) -> None:
    """Whatever moved the ref, a commit stands on the tip that is there: the repository may refuse all forced pushes."""
    repository.git("config", "receive.denyNonFastForwards", "true")
    repository.git("config", "receive.denyDeletes", "true")
    refs = refs_on("a")
    refs.commit(ONE, adding(a=b"1"), "first")
    repository.put({"z": b"another history"})
    assert sorted(refs.commit(ONE, adding(b=b"2"), "second").files) == ["b", "z"]
    assert repository.git("rev-list", "--count", "refs/plangate/threads/1") == "2"


def test_only_numbers_are_threads(refs_on: Callable[[str], ThreadRefs], repository: Repository) -> None:
    """Refs that are not named as a thread is are not listed."""
    for name in ("7", "07", "x", "7x", "8/9", "-1", "10", "0", "9" * 30):
        repository.git("update-ref", f"refs/plangate/threads/{name}", "refs/heads/master")
    repository.git("update-ref", "refs/heads/refs/plangate/threads/55", "refs/heads/master")
    assert refs_on("a").threads() == (0, 7, 10)


def test_a_ref_that_ends_alike(refs_on: Callable[[str], ThreadRefs], repository: Repository) -> None:
    """A branch whose name ends as a thread's ref does is not taken for it."""
    repository.git("update-ref", "refs/heads/refs/plangate/threads/1", "refs/heads/master")
    assert refs_on("a").read_tip(ONE) == Tip()


@pytest.mark.parametrize("number", (-1, 10**18))
def test_no_thread_number(refs_on: Callable[[str], ThreadRefs], number: int) -> None:
    """What no thread can be numbered is refused."""
    with pytest.raises(Refused):
        refs_on("a").read_tip(ThreadNumber(number))


@pytest.mark.req("G1")
def test_remote_that_is_an_option(tmp_path: Path, clock: Clock) -> None:
    """A location that git would take for an option is refused."""
    with pytest.raises(Refused):
        ThreadRefs(Remote("--upload-pack=touch /tmp/x"), tmp_path / "scratch.git", clock)


@pytest.mark.req("G1")
def test_remote_that_is_a_program(tmp_path: Path, clock: Clock) -> None:
    """A location that names a program to run (git-remote-ext) is not followed."""
    with pytest.raises(Refused, match="not an http"):
        ThreadRefs(Remote(f"ext::touch {tmp_path}/ran://"), tmp_path / "scratch.git", clock)
    with pytest.raises(Transient):
        ThreadRefs(Remote(f"ext::touch {tmp_path}/ran"), tmp_path / "scratch.git", clock).read_tip(ONE)
    assert not (tmp_path / "ran").exists()


def test_relative_path(repository: Repository, clock: Clock) -> None:
    """A path is taken from where the program stands when it is given."""
    with chdir(repository.path.parent):
        refs = ThreadRefs(Remote(repository.path.name), Path("scratch.git"), clock)
    with chdir("/"):
        assert refs.read_tip(ONE) == Tip()


@pytest.mark.req("G1")
def test_sandboxed_programs(tmp_path: Path, repository: Repository, clock: Clock) -> None:
    """What runs inside a repository given as path is what the caller passed, for reading and for writing."""
    upload, read = script(tmp_path, "upload-pack")
    receive, written = script(tmp_path, "receive-pack")
    remote = Remote(str(repository.path), upload_pack=upload, receive_pack=receive)
    refs = ThreadRefs(remote, tmp_path / "a" / "scratch.git", clock)
    refs.read_tip(ONE)
    assert (runs(read), runs(written)) == (1, 0)
    refs.commit(ONE, adding(a=b"1"), "first")
    assert (runs(read), runs(written)) == (1, 1)
    other = ThreadRefs(remote, tmp_path / "b" / "scratch.git", clock)
    assert other.threads() == (ONE,)
    assert runs(read) == 2
    assert list(other.read_tip(ONE).files) == ["a"]
    assert runs(read) == 4  # one to ask, one to fetch


@pytest.mark.req("G1")
def test_environment(tmp_path: Path, repository: Repository, clock: Clock) -> None:
    """Git gets the variables that the caller names, asked for at each command."""
    asked = iter(range(1000))
    remote = Remote(
        str(repository.path), environment=lambda: {"GIT_TRACE_PACKET": str(tmp_path / f"trace{next(asked)}")}
    )
    refs = ThreadRefs(remote, tmp_path / "a" / "scratch.git", clock)
    refs.read_tip(ONE)
    refs.commit(ONE, adding(a=b"1"), "first")
    assert (tmp_path / "trace0").exists()
    assert (tmp_path / "trace1").exists()
    assert not (tmp_path / "trace2").exists()  # the list, and the push: an append starts no other process


def test_empty_repository(repository: Repository, refs_on: Callable[[str], ThreadRefs]) -> None:
    """A repository without any commit can keep threads."""
    repository.git("update-ref", "-d", "refs/heads/master")
    refs = refs_on("a")
    assert list(refs.commit(ONE, adding(a=b"1"), "first").files) == ["a"]


def test_missing_blob(refs_on: Callable[[str], ThreadRefs]) -> None:
    """A blob that is not at hand is Transient."""
    refs = refs_on("a")
    refs.commit(ONE, adding(a=b"1"), "first")
    with pytest.raises(Transient, match="missing"):
        refs.read(["1" * 40])


def test_scratch_is_gone(refs_on: Callable[[str], ThreadRefs], tmp_path: Path) -> None:
    """A reader whose scratch repository was deleted is told once, and reads after its next check."""
    refs_on("a").commit(ONE, adding(a=b"1"), "first")
    refs = refs_on("b")
    tip = refs.read_tip(ONE)
    shutil.rmtree(tmp_path / "b")
    with pytest.raises(Transient):
        refs.read(list(tip.files.values()))
    assert refs.read(list(refs.read_tip(ONE).files.values())) == [b"1"]


def test_scratch_of_a_writer_is_gone(refs_on: Callable[[str], ThreadRefs], tmp_path: Path) -> None:
    """A writer whose scratch repository was deleted is told once, and writes after its next check."""
    refs = refs_on("a")
    refs.commit(ONE, adding(a=b"1"), "first")
    shutil.rmtree(tmp_path / "a")
    with pytest.raises(Transient):
        refs.commit(ONE, adding(b=b"2"), "second")
    assert sorted(refs.commit(ONE, adding(b=b"2"), "second").files) == ["a", "b"]
    assert refs_on("b").read(list(refs_on("b").read_tip(ONE).files.values())) == [b"1", b"2"]


@pytest.mark.req("E3")
@pytest.mark.parametrize("damage", ("ref", "object", "missing"))
def test_a_damaged_scratch_is_made_anew(refs_on: Callable[[str], ThreadRefs], tmp_path: Path, damage: str) -> None:
    """A machine that lost its power may leave empty files, also of threads that nobody looks at now."""
    here, elsewhere = refs_on("a"), refs_on("b")
    commit = str(here.commit(ONE, adding(a=b"1"), "first").commit)
    (scratch,) = (tmp_path / "a").glob("*.git")
    stored = scratch / "objects" / commit[:2] / commit[2:]
    if damage == "missing":
        stored.unlink()
    else:
        stored.chmod(0o600)
        (scratch / thread_ref(ONE) if damage == "ref" else stored).write_bytes(b"")
    elsewhere.commit(TWO, adding(b=b"2"), "second")
    with pytest.raises(Transient):
        here.read_tip(TWO)
    assert here.read(list(here.read_tip(TWO).files.values())) == [b"2"]
    assert here.read(list(here.read_tip(ONE).files.values())) == [b"1"]


def test_what_else_is_in_a_ref_stays(repository: Repository, refs_on: Callable[[str], ThreadRefs]) -> None:
    """A program, a link and a file in place of a folder that somebody pushed break no append, and keep their modes."""
    refs = refs_on("a")
    commit = refs.commit(ONE, adding(a=b"1"), "first").commit
    blob = repository.git("rev-parse", f"{commit}:a")
    names = {"a": "100644", "journal": "100644", "link": "120000", "run": "100755"}
    listed = "".join(f"{mode} blob {blob}\t{name}\n" for name, mode in names.items())
    tree = repository.git("mktree", stdin=listed)
    theirs = repository.git(
        "-c", "user.name=x", "-c", "user.email=x", "commit-tree", "-p", str(commit), "-m", "theirs", tree
    )
    repository.git("update-ref", thread_ref(ONE), theirs)
    refs.read_tip(ONE)
    ours = refs.commit(ONE, lambda _: {"journal/1": b"2"}, "second").commit
    rows = repository.git("ls-tree", "-r", str(ours)).splitlines()
    assert [row.split()[::3] for row in rows] == [
        ["100644", "a"],
        ["100644", "journal/1"],
        ["120000", "link"],
        ["100755", "run"],
    ]
