"""Git as a child process: how it fails, what it pushes and when, what it keeps, and commits as loose objects."""

import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from bot.core.errors import Transient
from bot.core.names import RepositoryId, ThreadNumber
from bot.ports import Clock
from bot.store.git_journal import GitJournal
from bot.store.plumbing import GitResult, LooseObjects, Plumbing, TreeFile, start_bare_repository
from bot.store.sealing import StateKey
from bot.store.thread_refs import CAPACITY, LARGEST, PAUSES, BlobCache, Remote, ThreadRefs, Tip
from tests.store.conftest import Repository, StandingClock


def test_failure_names_the_reason(repository: Repository) -> None:
    """A command that fails is Transient with git's own reason."""
    with pytest.raises(Transient, match=r"git rev-parse failed .*: fatal: Needed a single revision"):
        Plumbing(repository.path, dict).ask("rev-parse", "--verify", "refs/heads/none")


@pytest.mark.parametrize(
    ("err", "reason"),
    (
        (b"remote: hello\nfatal: it broke\nhint: fix it\n", "fatal: it broke"),
        (b"warning: something\nlast words\n\n", "last words"),
        (b"fatal: \x1b[31mred\x07\xff", "fatal: [31mred\ufffd"),
        (b"fatal: " + b"x" * 1000, "fatal: " + "x" * 293),
        (b"", "exit code 128"),
    ),
)
def test_reason(err: bytes, reason: str) -> None:
    """The reason is the line that tells most, printable and short."""
    assert GitResult(128, b"", err).reason == reason


def test_takes_too_long(repository: Repository, tmp_path: Path) -> None:
    """A command that takes too long is Transient, and everything that it started is ended."""
    program, note = tmp_path / "hangs", tmp_path / "pid"
    program.write_text(f"#!/bin/sh\necho $$ > {note}.new\nmv {note}.new {note}\nexec sleep 600\n")
    program.chmod(0o755)
    with pytest.raises(Transient, match="too long"):
        Plumbing(repository.path, dict, seconds=1.0).ask("ls-remote", f"--upload-pack={program}", str(repository.path))
    pid = int(note.read_text())
    while alive(pid):  # until it has ended, or this test has run into its time limit
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def in_a_child(code: str, **environment: str) -> str:
    """Run code that has `Plumbing` and `Path` in a process with this environment, and give what it printed."""
    lines = f"from pathlib import Path; from bot.store.plumbing import Plumbing; {code}"
    ran = subprocess.run([sys.executable, "-c", lines], env=environment, capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr


def test_no_git() -> None:
    """A machine without git is told so."""
    told = in_a_child('Plumbing(Path("/"), dict).run("version")', PATH=os.devnull)
    assert "Misconfigured: git is not installed" in told
    assert "install git" in told


@pytest.mark.req("G1")
def test_own_configuration(repository: Repository, tmp_path: Path) -> None:
    """Nothing of the process's own environment and of its owner's configuration reaches git."""
    (tmp_path / ".gitconfig").write_text("[user]\nname = owner\n")
    told = in_a_child(
        f'print(Plumbing(Path("{repository.path}"), dict).run("config", "user.name"))',
        PATH=os.environ["PATH"],
        HOME=str(tmp_path),
        GIT_CONFIG_GLOBAL=str(tmp_path / ".gitconfig"),
        GIT_TRACE=str(tmp_path / "leaked"),
        GIT_DIR=str(tmp_path),
    )
    assert told.strip() == "GitResult(code=1, out=b'', err=b'')"
    assert not (tmp_path / "leaked").exists()


@pytest.mark.req("G1")
def test_no_hooks(repository: Repository) -> None:
    """Hooks of the repository do not run."""
    assert Plumbing(repository.path, dict).ask("config", "core.hooksPath").strip() == os.devnull.encode()


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


ONE = ThreadNumber(1)


async def test_the_journal_of_another_check_needs_no_process_of_git(
    refs_on: Callable[[str], ThreadRefs], clock: Clock, tmp_path: Path
) -> None:
    """A thread that did not move is read from memory, even without the scratch repository."""
    refs = refs_on("a")
    first, second = (GitJournal(refs, RepositoryId(9), key=StateKey(b"k" * 32), clock=clock) for _ in range(2))
    await write_and_read(first, second)
    shutil.rmtree(tmp_path / "a")
    third = GitJournal(refs, RepositoryId(9), key=StateKey(b"k" * 32), clock=clock)
    assert [entry.kind for entry in await third.cached_entries(ONE)] == ["said"]


async def write_and_read(writing: GitJournal, reading: GitJournal) -> None:
    """Write an entry, and read it with another journal."""
    await writing.append(ONE, 0, [("said", {"text": "a plan"})])
    assert len(await reading.read(ONE)) == 1


def test_what_was_used_longest_ago_is_forgotten_first() -> None:
    """Memory is bounded, and blobs that are too large are not kept at all."""
    cache, count = BlobCache(), CAPACITY // LARGEST
    cache.keep({str(number): b"." * LARGEST for number in range(count)} | {"large": b"." * (LARGEST + 1)})
    assert cache.find(("0", "large")).keys() == {"0"}
    cache.keep({"newest": b".", "0": b"."})
    assert cache.find(("0", "1", "2", "newest")).keys() == {"0", "2", "newest"}
    assert cache.find(("0",)) == {"0": b"." * LARGEST}


def test_each_blob_is_returned_in_its_place(refs_on: Callable[[str], ThreadRefs]) -> None:
    """Whether it was kept, or is asked for twice."""
    refs = refs_on("a")
    tip = refs.commit(ONE, lambda tip: {} if tip.files else {"a": b"1", "b": b"2", "c": b"3"}, "first")
    one, two, three = (tip.files[name] for name in "abc")
    assert refs.read([two]) == [b"2"]
    assert refs.read([one, two, three, one]) == [b"1", b"2", b"3", b"1"]
    assert refs.read([]) == []


PERSON = "A <a@b>"
PATHS = ("a.txt", "a/b", "a0", "journal/00000001", "journal/00000002", "transcripts/s-1/1-2", "\udcff odd\n")


@pytest.fixture
def made(tmp_path: Path) -> Plumbing:
    """An empty repository."""
    start_bare_repository(tmp_path / "made.git")
    return Plumbing(tmp_path / "made.git", dict)


def git_tree(git: Plumbing, entries: dict[str, TreeFile]) -> str:
    """Return the id of the tree that git itself makes of these entries."""
    lines = b"".join(
        f"{entry.mode} {entry.id}\t{path}\0".encode("utf-8", "surrogateescape") for path, entry in entries.items()
    )
    git.ask("update-index", "-z", "--index-info", stdin=lines)
    return git.ask("write-tree").decode().strip()


def test_git_makes_the_same_objects(made: Plumbing) -> None:
    """Blobs, trees and commits have the ids that git gives them, and git finds nothing wrong with them."""
    objects = LooseObjects(made.directory)
    blobs = {path: objects.write_blob(path.encode("utf-8", "surrogateescape") * 3) for path in PATHS}
    assert blobs["a0"] == made.ask("hash-object", "--stdin", stdin=b"a0a0a0").decode().strip()
    entries = {path: TreeFile(blob) for path, blob in blobs.items()} | {"run": TreeFile(blobs["a0"], "100755")}
    tree = objects.write_tree(entries)
    assert tree == git_tree(made, entries)
    first = objects.write_commit(tree, None, person=PERSON, when=1_700_000_000, note="first")
    second = objects.write_commit(tree, first, person=PERSON, when=1_700_000_001, note="second, é")
    objects.write_ref("refs/plangate/threads/7", second)
    assert made.ask("log", "--format=%H %an %ae %ct %s", "refs/plangate/threads/7").decode().splitlines() == [
        f"{second} A a@b 1700000001 second, é",
        f"{first} A a@b 1700000000 first",
    ]
    assert made.ask("fsck", "--strict", "--no-dangling", "--no-progress") == b""
    assert not list(made.directory.rglob("tmp_obj_*"))


def die_while_writing_a_ref(objects: LooseObjects) -> None:
    """Write a ref in a process that Linux kills when it writes the first byte to a file."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    objects.write_ref("refs/plangate/threads/8", "0" * 40)


@pytest.mark.req("E3")
def test_git_ignores_a_ref_that_a_killed_process_left_half_written(made: Plumbing, tmp_path: Path) -> None:
    """It would fail at any other name, in each fetch into the repository from then on."""
    objects = LooseObjects(made.directory)
    commit = objects.write_commit(objects.write_tree({}), None, person=PERSON, when=1_700_000_000, note="first")
    objects.write_ref("refs/plangate/threads/7", commit)
    dying = multiprocessing.get_context("fork").Process(target=die_while_writing_a_ref, args=(objects,))
    dying.start()
    dying.join()
    assert dying.exitcode == -signal.SIGXFSZ
    (left,) = {path.name for path in made.directory.glob("refs/plangate/threads/*")} - {"7"}
    assert left == "8.lock"
    start_bare_repository(tmp_path / "other.git")
    other = LooseObjects(tmp_path / "other.git")
    other.write_ref(
        "refs/heads/main", other.write_commit(other.write_tree({}), None, person=PERSON, when=2, note="two")
    )
    made.ask("fetch", "--quiet", str(tmp_path / "other.git"), "+refs/heads/main:refs/heads/main")
    listed = made.ask("for-each-ref", "--format=%(refname)").decode().split()
    assert listed == ["refs/heads/main", "refs/plangate/threads/7"]


@pytest.mark.parametrize("paths", (("a", "a/b"), ("a/b", "a"), ("a/b/c", "a/b"), ("a/b", "a/b/c")))
def test_the_later_one_of_a_file_and_a_folder_stays(made: Plumbing, paths: tuple[str, str]) -> None:
    """Whatever else somebody put where a new file goes, the new file is there."""
    objects = LooseObjects(made.directory)
    tree = objects.write_tree({path: TreeFile(objects.write_blob(path.encode())) for path in paths})
    assert made.ask("ls-tree", "-r", "--name-only", tree).decode().split() == [paths[1]]
    assert made.ask("fsck", "--strict", "--no-dangling", "--no-progress") == b""


def test_an_empty_object_is_written_again(made: Plumbing) -> None:
    """Files that a lost machine left empty are replaced; whole ones are left alone."""
    objects = LooseObjects(made.directory)
    blob = objects.write_blob(b"content")
    (path,) = (made.directory / "objects").rglob(blob[2:])
    before = path.stat().st_ino
    assert objects.write_blob(b"content") == blob
    assert path.stat().st_ino == before
    path.write_bytes(b"")
    assert objects.write_blob(b"content") == blob
    assert made.ask("cat-file", "blob", blob) == b"content"


def test_what_cannot_be_written_can_be_tried_again(made: Plumbing) -> None:
    """A commit that finds no place raises Transient, says where, and leaves no part of itself."""
    objects = LooseObjects(made.directory)
    blob = made.ask("hash-object", "--stdin", stdin=b"content").decode().strip()
    (made.directory / "objects" / blob[:2]).write_text("a file in the way")
    with pytest.raises(Transient) as told:
        objects.write_blob(b"content")
    assert told.value.where == str(made.directory / "objects" / blob[:2] / blob[2:])
    assert not list(made.directory.rglob("tmp_obj_*"))
