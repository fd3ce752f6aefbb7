"""Checkouts: made whole or not at all, one process at a time, forked and merged without loss."""

import os
from pathlib import Path

import pytest

from bot.core.errors import Broken, Conflict, Refused
from bot.core.work import Checkout
from bot.ports import Access
from bot.workspace.checkout import safe_name
from bot.workspace.local_repository import LocalRepository
from bot.workspace.workspace import GitWorkspace
from tests import forks
from tests.rows import every_row
from tests.workspace.ground import Repository

TOP = str(Path(__file__).parents[2])


def tree(checkout: Checkout) -> dict[str, str]:
    """What a checkout holds, but for .git."""
    found = {}
    for folder, folders, files in os.walk(checkout.path):
        folders[:] = [name for name in folders if name != ".git"]
        for name in files:
            path = Path(folder, name)
            content = os.readlink(path) if path.is_symlink() else path.read_text()
            found[str(path.relative_to(checkout.path))] = content
    return found


async def shell(workspace: GitWorkspace, checkout: Checkout, command: str) -> str:
    """Run one command in a checkout, as an agent would."""
    host = await workspace.open(checkout, Access.WRITE)
    try:
        return (await host.call("Bash", {"command": command})).text
    finally:
        await host.close()


async def test_what_the_commit_holds(workspace: GitWorkspace, repository: Repository) -> None:
    """A checkout holds the commit, with modes and links, and git inside of it finds nothing changed."""
    (repository.path / "src" / "a.py").write_text("uncommitted")
    checkout = await workspace.checkout("main", repository.head)
    assert tree(checkout)["src/a.py"] == "a = 1\n"
    assert tree(checkout)["link"] == "src/a.py"
    assert os.access(f"{checkout.path}/run.sh", os.X_OK)
    said = await shell(workspace, checkout, "git status --porcelain; git log --oneline | wc -l; pwd")
    assert said.split("\n") == ["1", str(repository.path)]


async def test_as_it_was_left(workspace: GitWorkspace, repository: Repository) -> None:
    """A checkout that is there is given as it was left, whatever base is asked for; `fresh` nothing of it stays."""
    base = repository.head
    checkout = await workspace.checkout("main", base)
    await shell(workspace, checkout, "echo mine > mine")
    later = repository.commit(other="x")
    again = await workspace.checkout("main", later)
    assert again == checkout
    assert tree(again)["mine"] == "mine\n"
    renewed = await workspace.checkout("main", later, fresh=True)
    assert renewed.base == later
    assert "mine" not in tree(renewed)


@pytest.mark.req("G2")
async def test_own_git_directory(workspace: GitWorkspace, repository: Repository) -> None:
    """What an agent plants in its checkout's git directory is in no other checkout, nor in the repository."""
    base = repository.head
    first = await workspace.checkout("one", base)
    second = await workspace.checkout("two", base)
    plant = "git config core.fsmonitor evil; mkdir -p .git/hooks; echo x > .git/hooks/post-checkout; git tag t"
    await shell(workspace, first, plant)
    for place in (Path(second.path), repository.path, workspace.mirror.path):
        config = place / "config" if place == workspace.mirror.path else place / ".git" / "config"
        assert "evil" not in config.read_text()
    assert "t" not in (await shell(workspace, second, "git tag")).split()


async def test_half_made_is_made_again(workspace: GitWorkspace, repository: Repository) -> None:
    """What a killed process left half made is not taken for whole."""
    half = workspace.checkouts.folder / "main~making" / "tree"
    half.mkdir(parents=True)
    (half / "junk").write_text("junk")
    bare = workspace.checkouts.folder / "main" / "tree"
    bare.mkdir(parents=True)
    checkout = await workspace.checkout("main", repository.head)
    assert "junk" not in tree(checkout)
    assert tree(checkout)["src/a.py"] == "a = 1\n"


KILLED = """
import asyncio, os, sys
from pathlib import Path
from bot.workspace.local_repository import LocalRepository
from bot.workspace.workspace import GitWorkspace

async def main():
    source = await LocalRepository.open(Path(sys.argv[1]))
    workspace = GitWorkspace.on(source, Path(sys.argv[2]))
    await workspace.checkout("main", source.head)
    print("taken", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.req("E4")
async def test_two_processes(repository: Repository, workspace: GitWorkspace, tmp_path: Path) -> None:
    """A name that another process works with is a Conflict; when that process is killed, it is free."""
    with forks.script(KILLED).read_lines(str(repository.path), str(tmp_path / "data")) as (_, printed):
        assert printed.readline() == "taken\n"
        with pytest.raises(Conflict):
            await workspace.checkout("main", repository.head)
        await workspace.checkout("another", repository.head)
    assert (await workspace.checkout("main", repository.head)).base == repository.head


async def test_fork_and_merge(workspace: GitWorkspace, repository: Repository) -> None:
    """A fork starts as its parent stands; what it changes comes back, and what its parent did meanwhile stays."""
    parent = await workspace.checkout("main", repository.head)
    await shell(workspace, parent, "echo parent > p; rm src/b.py")
    fork = await workspace.fork(parent, "child")
    assert tree(fork) == tree(parent)
    await shell(workspace, fork, "echo child > c; echo 'a = 2' > src/a.py; rm README.md; chmod -x run.sh")
    await shell(workspace, parent, "echo meanwhile > m")
    merge = await workspace.merge(fork, parent)
    assert set(merge.merged) == {"c", "src/a.py", "README.md", "run.sh"}
    assert merge.conflicts == {}
    held = tree(parent)
    assert (held["p"], held["c"], held["m"], held["src/a.py"]) == ("parent\n", "child\n", "meanwhile\n", "a = 2\n")
    assert "README.md" not in held
    assert "src/b.py" not in held


@pytest.mark.req("S4")
async def test_merge_conflict(workspace: GitWorkspace, repository: Repository) -> None:
    """Where both changed the same line the parent's side stays, and the fork's is reported."""
    parent = await workspace.checkout("main", repository.head)
    fork = await workspace.fork(parent, "child")
    await shell(workspace, fork, "echo 'a = 3' > src/a.py")
    await shell(workspace, parent, "echo 'a = 4' > src/a.py")
    merge = await workspace.merge(fork, parent)
    assert "a = 3" in merge.conflicts["src/a.py"]
    assert tree(parent)["src/a.py"] == "a = 4\n"


@pytest.mark.req("S4")
async def test_what_nobody_may_read_is_merged(workspace: GitWorkspace, repository: Repository) -> None:
    """Files and folders of a fork from which its work took every right come back with all else."""
    parent = await workspace.checkout("main", repository.head)
    fork = await workspace.fork(parent, "child")
    await shell(workspace, fork, "mkdir shut; echo in > shut/f; echo c > c; chmod 000 shut c src/a.py; echo d > d")
    merge = await workspace.merge(fork, parent)
    assert (set(merge.merged), merge.conflicts) == ({"c", "d", "shut/f"}, {})
    held = tree(parent)
    assert (held["shut/f"], held["c"]) == ("in\n", "c\n")


async def test_merge_of_no_fork(workspace: GitWorkspace, repository: Repository) -> None:
    """Only a fork has something to be merged from."""
    one, two = [await workspace.checkout(name, repository.head) for name in ("one", "two")]
    with pytest.raises(Refused, match="not a fork"):
        await workspace.merge(one, two)


async def test_discard(workspace: GitWorkspace, repository: Repository) -> None:
    """Nothing is left of a discarded checkout, however its modes were set; its name is free again."""
    checkout = await workspace.checkout("main", repository.head)
    host = await workspace.open(checkout, Access.WRITE)
    await host.call("Bash", {"command": "mkdir -p d/e; touch d/e/f; chmod 000 d/e d"})
    await workspace.discard(checkout)
    assert not Path(checkout.path).exists()
    assert (await host.call("LS", {"path": "."})).is_error
    await workspace.discard(checkout)
    assert "d" not in tree(await workspace.checkout("main", repository.head))


async def test_foreign_path(workspace: GitWorkspace, tmp_path: Path) -> None:
    """A path that is no checkout is never mounted, published or removed."""
    stranger = Checkout(str(tmp_path / "tree"), "/workspace", (await LocalRepository.open(tmp_path / "repo")).head)
    with pytest.raises(Broken):
        await workspace.discard(stranger)
    with pytest.raises(Broken):
        await workspace.open(stranger, Access.WRITE)


@every_row("name", ("../x", "a/b", "", "A", ".x", "-x", "x" * 65, "a~making", "a\nb"))
def test_strange_name(name: str) -> None:
    """Any name of a checkout becomes a plain file name of its own."""
    safe = safe_name(name)
    assert safe.startswith("x-")
    assert safe.replace("-", "").isalnum()
