"""How many processes the workspace starts: each costs CPU time, and a thousand threads share two cores."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bot.workspace.local_repository import LocalRepository
from bot.workspace.workspace import GitWorkspace
from tests.workspace.ground import Repository, approved, order, write

_listeners: list[list[str]] = []


def _hear(event: str, given: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen":
        for started in _listeners:
            started.append(" ".join(map(str, given[1])))


sys.addaudithook(_hear)


@contextmanager
def started_processes() -> Iterator[list[str]]:
    """Record the programs that this process starts, each with what it is to do: ``git push``."""
    lines: list[str] = []
    _listeners.append(lines)
    try:
        yield (kinds := [])
        kinds += [" ".join(line.split()[:2]) for line in lines]
    finally:
        _listeners.remove(lines)


async def test_first_checkout(repository: Repository, tmp_path: Path) -> None:
    """A repository's first checkout starts git to make a mirror, fetch, measure, keep the commit, and fill the tree."""
    workspace = GitWorkspace.on(await LocalRepository.open(repository.path), tmp_path / "data")
    head = repository.head
    with started_processes() as kinds:
        await workspace.checkout("main", head)
    names = [kind.removeprefix("git ") for kind in kinds]
    assert names == ["init", "fetch", "rev-parse", "ls-tree", "update-ref", "read-tree", "read-tree"]


async def test_published(workspace: GitWorkspace, repository: Repository) -> None:
    """Publishing starts git for the clone's index, the tree, the search for secrets, and the push."""
    checkout = await workspace.checkout("main", repository.head)
    write(src__a_dot_py="a = 2\n")(Path(checkout.path))
    with started_processes() as kinds:
        await workspace.publish(approved(checkout.base), checkout, order())
    names = [kind.removeprefix("git ") for kind in kinds if kind != "git version"]  # GitPython asks for that at first
    assert names == [
        *("read-tree", "ls-files", "update-index", "diff-index", "write-tree"),
        *("cat-file", "cat-file", "hash-object", "push"),
    ]
