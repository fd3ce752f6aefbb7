"""Which object a revision names: nothing is out of date, and no process is asked for what files tell."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.testing.github.bare import Bare, CommitSignature
from bot.testing.github.git_objects import read_object

BY = CommitSignature("Ada", "ada@example.org", datetime(2026, 11, 23, tzinfo=UTC))


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
