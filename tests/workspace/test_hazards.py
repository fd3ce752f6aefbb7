"""Repositories that would keep git busy for ever: each is refused, says what is wrong, and costs little (X4)."""

import os
import subprocess
from pathlib import Path

import pytest

from bot.core.errors import Misconfigured, Refused
from bot.core.names import CommitId
from bot.workspace import local_repository, mirror, run
from bot.workspace.checkout import start_repository
from bot.workspace.export import Export, UntrustedTree
from bot.workspace.local_repository import LocalRepository
from bot.workspace.workspace import GitWorkspace
from tests.workspace.ground import Repository, begin, make_repository

pytestmark = [pytest.mark.req("X4"), pytest.mark.timeout(60)]

PIPES = (
    ".gitignore",
    ".gitattributes",
    "nested/.git/HEAD",
    ".git/commondir",
    ".git/config",
    ".git/index",
    ".git/info/exclude",
    ".git/objects/info/alternates",
    ".git/packed-refs",
    ".git/refs/heads/other",
    ".git/shallow",
)


def put_pipe(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@pytest.mark.parametrize("name", PIPES)
async def test_pipe(repository: Repository, name: str) -> None:
    """A pipe where git expects a file is named; nobody waits for a writer."""
    if name.startswith("nested"):
        make_repository(repository.path / "nested")
    put_pipe(repository.path / name)
    with pytest.raises(Misconfigured, match="pipe or a device") as caught:
        await LocalRepository.open(repository.path)
    assert caught.value.where == str(repository.path / name)


@pytest.mark.parametrize("name", ("CLAUDE.md", "CODEOWNERS", ".github/CODEOWNERS", ".plangate/agents/x.md", "src/a.py"))
async def test_pipe_that_nobody_reads(repository: Repository, name: str) -> None:
    """Any other pipe of the work tree is none of the work."""
    put_pipe(repository.path / name)
    assert (await LocalRepository.open(repository.path)).head == repository.head


def commit_bomb(repository: Repository, leaf: str, width: int, depth: int) -> None:
    """Commit trees that each hold the one below so many times, as deep as is said; the work tree stays as it is."""
    tree = leaf
    for _ in range(depth):
        listed = "".join(f"040000 tree {tree}\td{number}\n" for number in range(width))
        command = ["git", "mktree"]
        done = subprocess.run(command, cwd=repository.path, input=listed.encode(), check=True, capture_output=True)
        tree = done.stdout.decode().strip()
    commit = repository.git("commit-tree", tree, "-m", "bomb")
    repository.git("update-ref", "HEAD", commit)


def files(repository: Repository) -> str:
    return repository.git("rev-parse", "HEAD:src")


def nothing(repository: Repository) -> str:
    return repository.git("hash-object", "-t", "tree", "-w", "/dev/null")


@pytest.mark.parametrize("leaf", (files, nothing))
async def test_bomb_at_home(repository: Repository, leaf: object) -> None:
    """Trees that stand for a hundred million paths, or for folders without a file, are refused unwalked."""
    assert callable(leaf)
    commit_bomb(repository, leaf(repository), 10, 8)
    with pytest.raises(Refused, match=r"too large: HEAD holds more than 1,000,000 files and folders") as caught:
        await LocalRepository.open(repository.path)
    assert caught.value.exit_code == 2


async def test_bomb_in_a_mirror(repository: Repository) -> None:
    """Folders without a file are counted before a checkout is made."""
    commit_bomb(repository, nothing(repository), 10, 8)
    with pytest.raises(Refused, match="too large: it holds more than half a million files and folders"):
        await mirror.check_size(repository.path / ".git", repository.head)


async def test_long_name_in_a_mirror(repository: Repository) -> None:
    """A name that no file system takes is refused as what it is, not tried again."""
    listed = f"100644 blob {repository.git('rev-parse', 'HEAD:README.md')}\t{'n' * 256}\n"
    command = ["git", "mktree"]
    done = subprocess.run(command, cwd=repository.path, input=listed.encode(), check=True, capture_output=True)  # noqa: ASYNC221
    commit = repository.git("commit-tree", done.stdout.decode().strip(), "-m", "long")
    with pytest.raises(Refused, match="a name in it is longer than 255 bytes"):
        await mirror.check_size(repository.path / ".git", CommitId(commit))


def endless(tree: Path) -> None:
    """Make a path, and a pattern that git matches against it for hours."""
    (tree / "/".join("a" * 200)).mkdir(parents=True)
    (tree / ".gitignore").write_text("a/**/" * 8 + "zz\n")


async def test_endless_patterns(workspace: GitWorkspace, repository: Repository, tmp_path: Path) -> None:
    """Looking through the work ends by its time, and says what to change."""
    work = await begin(workspace, repository, endless)
    start_repository(tmp_path / "clone", workspace.mirror, head=work.base)
    export = Export(UntrustedTree(work.path), tmp_path / "clone", seconds=0.3)
    with pytest.raises(Refused, match=r"longer than 0.3 s: use fewer `\*\*` in .gitignore"):
        await export.run()


@pytest.mark.parametrize("version", ("2", "4"))
async def test_endless_patterns_of_the_base(workspace: GitWorkspace, repository: Repository, version: str) -> None:
    """A checkout ends by its time, before a file is written; as many stars that cost nothing do not end it.

    Version 4 of git's index keeps of a path only what differs from the path before it.
    """
    endless = "a/**/" * 8 + "zz text\n"
    repository.commit(_dot_gitattributes=endless, _dot_gitattribute="", a___dot_gitattributes=endless)
    tree = Path((await workspace.checkout("main", repository.head)).path)
    blob, path = repository.git("rev-parse", "HEAD:README.md"), "/".join("a" * 200)
    await run.git(tree, "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}/b")
    await run.git(tree, "update-index", "--index-version", version)
    assert (tree / ".git" / "index").read_bytes()[7:8] == bytes([int(version)])
    with pytest.raises(Refused, match=r"longer than 0.3 s: use fewer `\*` and `\*\*` in one pattern of .gitattributes"):
        await local_repository.check_attributes(tree, seconds=0.3)
