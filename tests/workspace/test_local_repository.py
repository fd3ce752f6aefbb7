"""Opening a local repository: every shape it comes in gives a result, or an error with its cure."""

import os
from pathlib import Path

import pytest

from bot.core.errors import Misconfigured
from bot.workspace.local_repository import LocalRepository
from bot.workspace.mirror import Mirror
from bot.workspace.workspace import GitWorkspace
from tests import forks
from tests.workspace.ground import Repository, approved, begin, make_repository, order, write


async def test_clean(repository: Repository) -> None:
    """A clean repository is at its HEAD, on its branch, with nothing uncommitted."""
    source = await LocalRepository.open(repository.path)
    assert (source.head, source.branch, source.uncommitted) == (repository.head, "main", 0)


async def test_folder_inside(repository: Repository) -> None:
    """A folder inside of a repository stands for all of it."""
    source = await LocalRepository.open(repository.path / "src")
    assert source.place.top == repository.path


async def test_uncommitted(repository: Repository) -> None:
    """Changed, staged and new files are counted, and left as they are."""
    (repository.path / "src" / "a.py").write_text("changed")
    (repository.path / "new\nline").write_text("new")
    before = (repository.path / ".git" / "index").read_bytes()
    assert (await LocalRepository.open(repository.path)).uncommitted == 2
    assert (repository.path / ".git" / "index").read_bytes() == before


async def test_detached(repository: Repository) -> None:
    """Without a branch there is still a HEAD."""
    repository.git("checkout", "-q", "--detach")
    source = await LocalRepository.open(repository.path)
    assert (source.head, source.branch) == (repository.head, "")


async def test_no_commit(tmp_path: Path) -> None:
    """A repository without a commit is refused, with how to make one."""
    Repository(tmp_path).git("init", "-q")
    with pytest.raises(Misconfigured, match=r"no commit yet.*git commit"):
        await LocalRepository.open(tmp_path)


async def test_no_repository(tmp_path: Path) -> None:
    """A folder that is in no repository is refused, with how to make one."""
    with pytest.raises(Misconfigured, match=r"no git repository here.*git init"):
        await LocalRepository.open(tmp_path)


async def test_bare(repository: Repository, tmp_path: Path) -> None:
    """A bare repository is opened at the branch that its HEAD names."""
    repository.git("clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    source = await LocalRepository.open(tmp_path / "bare.git")
    assert (source.head, source.branch, source.place.bare) == (repository.head, "main", True)
    mirror = Mirror.of(source, tmp_path / "mirrors")
    await mirror.ensure(source.head)
    assert await mirror.read(source.head, "src/a.py") == b"a = 1\n"


async def test_linked_work_tree(repository: Repository, tmp_path: Path) -> None:
    """A linked work tree has a HEAD of its own and shares its mirror with the main one."""
    repository.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    linked = Repository(tmp_path / "linked")
    commit = linked.commit(c_dot_py="c")
    source = await LocalRepository.open(linked.path)
    assert source.head == commit != repository.head
    assert source.location == str(repository.path / ".git")
    mirror = Mirror.of(source, tmp_path / "mirrors")
    await mirror.ensure(commit)
    assert await mirror.read(commit, "c.py") == b"c"


async def test_work_in_a_submodule_is_published_there(repository: Repository, tmp_path: Path) -> None:
    outer = make_repository(tmp_path / "outer")
    outer.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(repository.path), "deep/inner")
    inner = Repository(outer.path / "deep" / "inner")
    (inner.path / "new").write_text("uncommitted")
    source = await LocalRepository.open(inner.path / "src")
    assert (source.place.top, source.head, source.uncommitted) == (inner.path, repository.head, 1)
    workspace = GitWorkspace.on(source, tmp_path / "data")
    checkout = await begin(workspace, repository, write(made="x"))
    published = await workspace.publish(approved(repository.head), checkout, order())
    assert inner.git("show", f"{published.branch}:made") == "x"


@pytest.mark.parametrize("name", ("config", "config.worktree"))
async def test_work_tree_may_be_elsewhere(name: str, repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "Elsewhere").mkdir()
    (repository.path / "README.md").rename(tmp_path / "Elsewhere" / "README.md")
    repository.git("config", "extensions.worktreeConfig", "true")
    repository.git("config", "--file", f".git/{name}", "CORE.workTree", "../../Elsewhere")
    source = await LocalRepository.open(repository.path)
    assert (source.folder, source.uncommitted) == (str(tmp_path / "Elsewhere"), 4)
    mirror = Mirror.of(source, tmp_path / "mirrors")
    await mirror.ensure(source.head)
    assert await mirror.read(source.head, "src/a.py") == b"a = 1\n"


@pytest.mark.parametrize("tree", ("gone", "/"))
async def test_work_tree_that_is_no_folder_is_named(tree: str, repository: Repository) -> None:
    repository.git("config", "core.worktree", tree)
    with pytest.raises(Misconfigured, match=r"core.worktree names no folder .*\.git/config\): correct or unset it"):
        await LocalRepository.open(repository.path)


async def test_borrowed_objects(repository: Repository, tmp_path: Path) -> None:
    """A repository that borrows objects from another one can be read."""
    repository.git("clone", "-q", "--shared", ".", str(tmp_path / "shared"))
    source = await LocalRepository.open(tmp_path / "shared")
    mirror = Mirror.of(source, tmp_path / "mirrors")
    await mirror.ensure(source.head)
    assert "src/a.py" in await mirror.paths(source.head)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
async def test_owned_by_somebody_else(repository: Repository, tmp_path: Path) -> None:
    """Another owner does not keep a readable repository from being read; what could not be pushed to is told early."""
    for path in (repository.path, *repository.path.rglob("*")):
        os.lchown(path, 4321, 4321)
    source = await LocalRepository.open(repository.path)
    assert source.uncommitted == 0
    with pytest.raises(Misconfigured, match=r"this user cannot write to the repository.*chown"):
        source.need_writable()
    (repository.path / ".git/objects").chmod(0o777)
    source.need_writable()


async def test_other_hash(tmp_path: Path) -> None:
    """A repository of the SHA-256 format is refused by name."""
    repository = Repository(tmp_path)
    repository.git("init", "-q", "--object-format=sha256")
    repository.commit(a="a")
    with pytest.raises(Misconfigured, match="SHA-256"):
        await LocalRepository.open(tmp_path)


async def test_broken_pointer(tmp_path: Path) -> None:
    """A .git file that points nowhere makes no repository."""
    (tmp_path / ".git").write_text("gitdir: /nonexistent\n")
    with pytest.raises(Misconfigured, match="no git repository"):
        await LocalRepository.open(tmp_path)


async def test_strange_path(tmp_path: Path) -> None:
    """Blanks, quotes and dollar signs in a path are only a name, also where git goes through a shell."""
    repository = make_repository(tmp_path / 'it\'s a $(touch x) "repo"')
    source = await LocalRepository.open(repository.path)
    await Mirror.of(source, tmp_path / "mirrors").ensure(source.head)
    assert not (Path.cwd() / "x").exists()


@pytest.mark.req("D1")
def test_no_sandbox(repository: Repository, tmp_path: Path) -> None:
    """Where a sandbox cannot be made, opening says so with the cure; it is no fault of the repository."""
    fake = tmp_path / "bin" / "bwrap"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    script = "import asyncio, sys; from pathlib import Path; from bot.workspace import local_repository; "
    script += "asyncio.run(local_repository.LocalRepository.open(Path(sys.argv[1])))"
    done = forks.script(script).run(str(repository.path), env={"PATH": f"{fake.parent}:/usr/bin:/bin"})
    assert "NoSandbox: a sandbox cannot be made here" in done.stderr
