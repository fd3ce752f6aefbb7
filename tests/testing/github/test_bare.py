"""Bare repositories of the simulated GitHub: what is written and told without git is what git would make and tell."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.testing.github.bare import Bare, CommitSignature, GitRefusedError
from bot.testing.github.git_objects import ABSENT, CommitText, LeftToGitError, read_object, write_commit, write_ref

BY = CommitSignature("Ada", "ada@example.com", datetime(2026, 1, 2, tzinfo=UTC))


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    made = Bare(tmp_path / "bare.git")
    made.create("main")
    return made


def commit(bare: Bare, name: str, parent: str | None = None) -> str:
    return bare.commit(parent, {name: "text\n"}, message="Add a file", by=BY)


def test_a_ref_names_what_it_points_to_now(bare: Bare) -> None:
    first = commit(bare, "a.txt")
    bare.move("refs/heads/main", first)
    assert bare.resolve("refs/heads/main") == bare.resolve("main") == first
    assert bare.resolve("refs/heads/main:b.txt", "blob") is None
    second = commit(bare, "b.txt", first)
    bare.move("refs/heads/main", second)
    assert bare.resolve("refs/heads/main") == second
    assert bare.resolve("refs/heads/main^") == first
    assert bare.resolve("refs/heads/main:b.txt", "blob") == bare.resolve(f"{first}:a.txt", "blob")
    assert bare.resolve("refs/heads/main:b.txt", "tree") is None
    for absent in ("refs/heads/other", "refs/heads/other:b.txt", "", ":b.txt", "--all", "refs/heads/main~5"):
        assert bare.resolve(absent) is None


def test_a_commit_that_comes_later_is_found(bare: Bare, tmp_path: Path) -> None:
    other = Bare(tmp_path / "other.git")
    other.create("main")
    made = commit(other, "a.txt")
    assert bare.resolve(made) is None
    assert bare.resolve(f"{made}:a.txt", "blob") is None
    assert commit(bare, "a.txt") == made
    assert bare.resolve(made) == made
    assert bare.resolve(f"{made}:a.txt", "blob") == other.resolve(f"{made}:a.txt", "blob") is not None


def test_what_is_known_is_found_without_git(bare: Bare, monkeypatch: pytest.MonkeyPatch) -> None:
    made = commit(bare, "a.txt")
    bare.move("refs/heads/main", made)
    asked = ("refs/heads/main:a.txt", f"{made}:none.txt", "refs/heads/other")
    found = [bare.resolve(each, "blob") for each in asked]
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FileNotFoundError):
        bare.run("version")
    assert [bare.resolve(each, "blob") for each in asked] == found == [found[0], None, None]


@pytest.mark.parametrize("packing", ((), ("repack", "-adq", "--depth=50", "--window=50")))
def test_the_type_of_an_object_is_what_git_says(bare: Bare, packing: tuple[str, ...]) -> None:
    first = bare.commit(None, {"a.txt": "text\n" * 1_000}, message="Add", by=BY, branch="main")
    bare.commit(first, {"a.txt": "text\n" * 1_000 + "end\n"}, message="End", by=BY, branch="main")
    bare.run("tag", "--annotate", "--message=One", "one", first, environment=BY.variables())
    if packing:
        bare.run(*packing)
    said = bare.text("cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)")
    for ident, kind in map(str.split, said.splitlines()):
        assert bare.kind(ident) == kind
        assert read_object(bare.folder / "objects", ident)[0] == ("" if packing else kind)


FIRST = {"README.md": "# Hi\n", "src/a.py": "a\n", "src/b.py": "b\n", "src.txt": "x", "docs/deep/x": "1" * 5000}
CHANGES: tuple[Mapping[str, str | bytes | None], ...] = (
    {}, {"new/folder/file": b"\0\1\2", "src/a.py": "changed\n"}, {"docs/deep/x": None},
    {"docs": None, "src/b.py": None}, {"src": "a file now"}, {"README.md/x": "in a folder now"},
    {"README.md/x": None, "missing": None, "none/here": None},
    {"with blank.txt": "x", ".github/workflows/ci.yml": "on: push\n", "a-b": "", "a.b": ""}, dict.fromkeys(FIRST),
)  # fmt: skip

SIGNED = (
    "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"
    "author Ada <ada@example.org> 1700000000 +0530\n"
    "committer  <bot@example.org> 1700000001 -0130\n"
    "gpgsig -----BEGIN PGP SIGNATURE-----\n \n tree author\n -----END PGP SIGNATURE-----\n"
    "\nSubject\n\nauthor of the body\n\n"
)
FORM = "%T%x00%P%x00%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%B"


def test_commits_are_those_of_git(bare: Bare) -> None:
    first = bare.commit(None, FIRST, message="Initial commit\n", by=BY, branch="main")
    assert first == bare.import_commit(None, FIRST, message="Initial commit\n", by=BY, branch="")
    for number, files in enumerate(CHANGES):
        written = write_commit(bare.folder / "objects", first, files, persons=BY.lines(), message="Change\n")
        assert written == bare.import_commit(first, files, message="Change\n", by=BY, branch=f"b{number}"), files
    assert bare.run("fsck", "--strict", "--no-dangling") == b""
    assert bare.resolve("main") == first


@pytest.mark.parametrize("path", ("ä", "a//b", "../a", "a/./b", ".git/config", "a/.GIT/x", "git~1", "a\\b", "a ", "a."))
def test_odd_names_are_left_to_git(bare: Bare, path: str) -> None:
    with pytest.raises(LeftToGitError):
        write_commit(bare.folder / "objects", None, {path: "x"}, persons=BY.lines(), message="m")


def test_a_ref_moves_from_where_it_was_expected(bare: Bare) -> None:
    first = bare.commit(None, FIRST, message="1\n", by=BY, branch="main")
    second = bare.commit(first, {"x": "x"}, message="2\n", by=BY, branch="main")
    assert bare.refs() == {"refs/heads/main": second}
    bare.move("refs/heads/main", first, second)
    tree = str(bare.resolve(first, "tree"))
    for ref, after, before in (
        ("refs/heads/main", second, second),
        ("refs/heads/main/below", second, None),
        ("refs/heads/a..b", second, None),
        ("refs/heads/x.lock", second, None),
    ):
        assert not write_ref(bare.folder, ref, after, before=before and (before,))
        with pytest.raises(GitRefusedError):
            bare.move(ref, after, before)
    for ref, after in (("refs/heads/tree", tree), ("refs/tags/nothing", "1" * 40)):
        with pytest.raises(GitRefusedError):
            bare.move(ref, after)
    with pytest.raises(GitRefusedError):
        bare.commit(first, {"y": "y"}, message="3\n", by=BY, branch="main/below")
    assert bare.refs() == {"refs/heads/main": first}


def test_git_moves_packed_refs(bare: Bare) -> None:
    first = bare.commit(None, FIRST, message="1\n", by=BY, branch="main")
    tree = str(bare.resolve("main", "tree"))
    bare.pack_refs({"refs/tags/v1": tree, "refs/heads/old": first})
    bare.move("refs/heads/old", bare.commit(first, {"x": "x"}, message="2\n", by=BY), first)
    assert bare.resolve("old^") == first
    bare.move("refs/heads/old", ABSENT)
    assert bare.refs() == {"refs/heads/main": first, "refs/tags/v1": tree}
    assert (bare.resolve("old"), bare.resolve("v1", "tree")) == (None, tree)


@pytest.mark.parametrize("is_in_files", (True, False), ids=("in files", "asked of git"))
def test_a_commit_says_what_git_says_of_it(bare: Bare, *, is_in_files: bool) -> None:
    bare.run("hash-object", "-t", "tree", "-w", "--stdin")
    first, text = "", SIGNED
    for number in range(3):
        ident = bare.run("hash-object", "-t", "commit", "-w", "--stdin", stdin=text.encode()).decode().strip()
        bare.move(f"refs/heads/{number}", ident)
        parents = f"parent {first or ident}\nparent {ident}\nauthor"
        text, first = SIGNED.replace("author", parents, 1), first or ident
    if not is_in_files:
        bare.run("repack", "-a", "-d", "-q", "-f")
    for number in range(3):
        ident = bare.refs()[f"refs/heads/{number}"]
        told = bare.text("show", "--no-patch", f"--format={FORM}", ident, "--").split("\0")
        found = CommitText.parse(bare.commit_text(ident))
        assert [found.tree, " ".join(found.parents)] == told[:2]
        assert [*found.author.values(), *found.committer.values()] == told[2:8]
        assert found.message == told[8].rstrip("\n")
