"""Commits that are written as loose objects: the same, byte for byte, as git's own, and whole."""

import multiprocessing
import resource
import signal
from pathlib import Path

import pytest

from bot.core.errors import Transient
from bot.store.plumbing import LooseObjects, Plumbing, TreeFile, start_bare_repository

PERSON = "A <a@b>"
PATHS = ("a.txt", "a/b", "a0", "journal/00000001", "journal/00000002", "transcripts/s-1/1-2", "\udcff odd\n")


@pytest.fixture
def repository(tmp_path: Path) -> Plumbing:
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


def test_git_makes_the_same_objects(repository: Plumbing) -> None:
    """Blobs, trees and commits have the ids that git gives them, and git finds nothing wrong with them."""
    objects = LooseObjects(repository.directory)
    blobs = {path: objects.write_blob(path.encode("utf-8", "surrogateescape") * 3) for path in PATHS}
    assert blobs["a0"] == repository.ask("hash-object", "--stdin", stdin=b"a0a0a0").decode().strip()
    entries = {path: TreeFile(blob) for path, blob in blobs.items()} | {"run": TreeFile(blobs["a0"], "100755")}
    tree = objects.write_tree(entries)
    assert tree == git_tree(repository, entries)
    first = objects.write_commit(tree, None, person=PERSON, when=1_700_000_000, note="first")
    second = objects.write_commit(tree, first, person=PERSON, when=1_700_000_001, note="second, é")
    objects.write_ref("refs/plangate/threads/7", second)
    assert repository.ask("log", "--format=%H %an %ae %ct %s", "refs/plangate/threads/7").decode().splitlines() == [
        f"{second} A a@b 1700000001 second, é",
        f"{first} A a@b 1700000000 first",
    ]
    assert repository.ask("fsck", "--strict", "--no-dangling", "--no-progress") == b""
    assert not list(repository.directory.rglob("tmp_obj_*"))


def die_while_writing_a_ref(objects: LooseObjects) -> None:
    """Write a ref in a process that Linux kills when it writes the first byte to a file."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    objects.write_ref("refs/plangate/threads/8", "0" * 40)


@pytest.mark.req("E3")
def test_git_ignores_a_ref_that_a_killed_process_left_half_written(repository: Plumbing, tmp_path: Path) -> None:
    """It would fail at any other name, in each fetch into the repository from then on."""
    objects = LooseObjects(repository.directory)
    commit = objects.write_commit(objects.write_tree({}), None, person=PERSON, when=1_700_000_000, note="first")
    objects.write_ref("refs/plangate/threads/7", commit)
    dying = multiprocessing.get_context("fork").Process(target=die_while_writing_a_ref, args=(objects,))
    dying.start()
    dying.join()
    assert dying.exitcode == -signal.SIGXFSZ
    (left,) = {path.name for path in repository.directory.glob("refs/plangate/threads/*")} - {"7"}
    assert left == "8.lock"
    start_bare_repository(tmp_path / "other.git")
    other = LooseObjects(tmp_path / "other.git")
    other.write_ref(
        "refs/heads/main", other.write_commit(other.write_tree({}), None, person=PERSON, when=2, note="two")
    )
    repository.ask("fetch", "--quiet", str(tmp_path / "other.git"), "+refs/heads/main:refs/heads/main")
    listed = repository.ask("for-each-ref", "--format=%(refname)").decode().split()
    assert listed == ["refs/heads/main", "refs/plangate/threads/7"]


@pytest.mark.parametrize("paths", (("a", "a/b"), ("a/b", "a"), ("a/b/c", "a/b"), ("a/b", "a/b/c")))
def test_the_later_one_of_a_file_and_a_folder_stays(repository: Plumbing, paths: tuple[str, str]) -> None:
    """Whatever else somebody put where a new file goes, the new file is there."""
    objects = LooseObjects(repository.directory)
    tree = objects.write_tree({path: TreeFile(objects.write_blob(path.encode())) for path in paths})
    assert repository.ask("ls-tree", "-r", "--name-only", tree).decode().split() == [paths[1]]
    assert repository.ask("fsck", "--strict", "--no-dangling", "--no-progress") == b""


def test_an_empty_object_is_written_again(repository: Plumbing) -> None:
    """Files that a lost machine left empty are replaced; whole ones are left alone."""
    objects = LooseObjects(repository.directory)
    blob = objects.write_blob(b"content")
    (path,) = (repository.directory / "objects").rglob(blob[2:])
    before = path.stat().st_ino
    assert objects.write_blob(b"content") == blob
    assert path.stat().st_ino == before
    path.write_bytes(b"")
    assert objects.write_blob(b"content") == blob
    assert repository.ask("cat-file", "blob", blob) == b"content"


def test_what_cannot_be_written_can_be_tried_again(repository: Plumbing) -> None:
    """A commit that finds no place raises Transient, says where, and leaves no part of itself."""
    objects = LooseObjects(repository.directory)
    blob = repository.ask("hash-object", "--stdin", stdin=b"content").decode().strip()
    (repository.directory / "objects" / blob[:2]).write_text("a file in the way")
    with pytest.raises(Transient) as told:
        objects.write_blob(b"content")
    assert told.value.where == str(repository.directory / "objects" / blob[:2] / blob[2:])
    assert not list(repository.directory.rglob("tmp_obj_*"))
