"""Work that is kept: what makes it again on a new disk, and what cannot be kept."""

import os
from pathlib import Path

import pytest

from bot.workspace.local_repository import LocalRepository
from bot.workspace.workspace import GitWorkspace
from tests.workspace.ground import Repository, Work, approved, begin, order, write
from tests.workspace.test_checkout import shell, tree
from tests.workspace.test_publish import REFUSED


def work(place: Path) -> None:
    """Change, add, remove, link, and turn a file's mode."""
    write(src__a_dot_py="a = 2\n", **{"new folder__ünï.txt": "x"})(place)
    (place / "README.md").unlink()
    (place / "to a").symlink_to("src/a.py")
    (place / "src" / "b.py").chmod(0o755)


async def elsewhere(repository: Repository, folder: Path) -> GitWorkspace:
    return GitWorkspace.on(await LocalRepository.open(repository.path), folder)


@pytest.mark.req("L9", "E3")
async def test_made_again(workspace: GitWorkspace, repository: Repository, tmp_path: Path) -> None:
    """On a new disk the tree is as it was, git there sees the same changes, and the same commit comes of it."""
    first = await begin(workspace, repository, work)
    kept, changed = await workspace.keep(first), await workspace.changed_paths(first)
    other = await elsewhere(repository, tmp_path / "other")
    second = await other.checkout("main", first.base, lambda: kept)
    assert tree(second) == tree(first)
    assert os.access(f"{second.path}/src/b.py", os.X_OK)
    shown = [await shell(place, at, "git status --porcelain") for place, at in ((workspace, first), (other, second))]
    assert shown[0] == shown[1] != ""
    once = await workspace.publish(approved(first.base), first, order("plangate/run-x-00000001"))
    again = await other.publish(approved(first.base), second, order("plangate/run-x-00000002"))
    assert (once.commit, once.paths) == (again.commit, again.paths)
    assert (changed, await other.changed_paths(second)) == (once.paths, once.paths)


@pytest.mark.req("L9")
async def test_the_same_twice(workspace: GitWorkspace, repository: Repository) -> None:
    """Work that did not change is kept as the same bytes, so that it is saved once."""
    first = await begin(workspace, repository, work)
    kept = await workspace.keep(first)
    assert await workspace.keep(first) == kept
    (Path(first.path) / "src" / "a.py").write_text("a = 3\n")
    assert await workspace.keep(first) != kept


@pytest.mark.req("L9")
async def test_nothing_done_yet(workspace: GitWorkspace, repository: Repository, tmp_path: Path) -> None:
    """A tree without work is kept as its base, and made again as such."""
    first = await begin(workspace, repository, lambda _: None)
    kept = await workspace.keep(first)
    second = await (await elsewhere(repository, tmp_path / "other")).checkout("main", first.base, lambda: kept)
    assert kept
    assert tree(second) == tree(first)


@pytest.mark.req("L9")
async def test_what_is_there_counts(workspace: GitWorkspace, repository: Repository) -> None:
    """A checkout that is there is given as it was left: what was kept is not even asked for."""
    first = await begin(workspace, repository, work)

    def asked() -> bytes:
        raise AssertionError("asked for what was kept")

    assert await workspace.checkout("main", first.base, asked) == first


@pytest.mark.req("G1", "L9")
@pytest.mark.parametrize("what", ("link upwards", "pipe", "large file", "repository inside", ".git as a file"))
async def test_what_may_not_be_published_is_not_kept(
    what: str, workspace: GitWorkspace, repository: Repository
) -> None:
    """What could never become a commit does not get to the thread's ref by another way."""
    spoilt: Work = REFUSED[what][0]
    assert await workspace.keep(await begin(workspace, repository, spoilt)) == b""


@pytest.mark.req("L9")
async def test_out_of_scope_is_kept(workspace: GitWorkspace, repository: Repository, tmp_path: Path) -> None:
    """What the plan does not cover is kept all the same: whether it may be published is asked then."""
    first = await begin(workspace, repository, write(elsewhere="x"))
    kept = await workspace.keep(first)
    second = await (await elsewhere(repository, tmp_path / "other")).checkout("main", first.base, lambda: kept)
    assert tree(second)["elsewhere"] == "x"
