"""Opening a local repository: every shape it comes in gives a result, or an error with its cure, and costs little."""

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
from bot.workspace.mirror import Mirror
from bot.workspace.workspace import GitWorkspace
from tests.workspace.ground import Repository, approved, begin, make_repository, order, write


async def test_a_clean_repository_is_at_its_head_on_its_branch(repository: Repository) -> None:
    source = await LocalRepository.open(repository.path)
    assert (source.head, source.branch, source.uncommitted) == (repository.head, "main", 0)


async def test_a_folder_inside_stands_for_the_whole_repository(repository: Repository) -> None:
    source = await LocalRepository.open(repository.path / "src")
    assert source.place.top == repository.path


async def test_uncommitted_files_are_counted_and_left_alone(repository: Repository) -> None:
    (repository.path / "src" / "a.py").write_text("changed")
    (repository.path / "new\nline").write_text("new")
    before = (repository.path / ".git" / "index").read_bytes()
    assert (await LocalRepository.open(repository.path)).uncommitted == 2
    assert (repository.path / ".git" / "index").read_bytes() == before


async def test_a_detached_head_has_no_branch(repository: Repository) -> None:
    repository.git("checkout", "-q", "--detach")
    source = await LocalRepository.open(repository.path)
    assert (source.head, source.branch) == (repository.head, "")


async def test_a_repository_without_a_commit_is_refused_with_the_cure(tmp_path: Path) -> None:
    Repository(tmp_path).git("init", "-q")
    with pytest.raises(Misconfigured, match=r"no commit yet.*git commit"):
        await LocalRepository.open(tmp_path)


async def test_a_folder_in_no_repository_is_refused_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"no git repository here.*git init"):
        await LocalRepository.open(tmp_path)


async def test_a_bare_repository_is_opened_at_its_branch(repository: Repository, tmp_path: Path) -> None:
    repository.git("clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    source = await LocalRepository.open(tmp_path / "bare.git")
    assert (source.head, source.branch, source.place.bare) == (repository.head, "main", True)
    mirror = Mirror.of(source, tmp_path / "mirrors")
    await mirror.ensure(source.head)
    assert await mirror.read(source.head, "src/a.py") == b"a = 1\n"


async def test_a_linked_work_tree_shares_the_mirror_of_the_main_one(repository: Repository, tmp_path: Path) -> None:
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


async def test_a_repository_that_borrows_objects_can_be_read(repository: Repository, tmp_path: Path) -> None:
    repository.git("clone", "-q", "--shared", ".", str(tmp_path / "shared"))
    source = await LocalRepository.open(tmp_path / "shared")
    mirror = Mirror.of(source, tmp_path / "mirrors")
    await mirror.ensure(source.head)
    assert "src/a.py" in await mirror.paths(source.head)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
async def test_somebody_elses_repository_is_read_but_not_written(repository: Repository, tmp_path: Path) -> None:
    for path in (repository.path, *repository.path.rglob("*")):
        os.lchown(path, 4321, 4321)
    source = await LocalRepository.open(repository.path)
    assert source.uncommitted == 0
    with pytest.raises(Misconfigured, match=r"this user cannot write to the repository.*chown"):
        source.need_writable()
    (repository.path / ".git/objects").chmod(0o777)
    source.need_writable()


async def test_a_repository_of_sha_256_is_refused_by_name(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.git("init", "-q", "--object-format=sha256")
    repository.commit(a="a")
    with pytest.raises(Misconfigured, match="SHA-256"):
        await LocalRepository.open(tmp_path)


async def test_a_git_file_that_points_nowhere_is_no_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /nonexistent\n")
    with pytest.raises(Misconfigured, match="no git repository"):
        await LocalRepository.open(tmp_path)


async def test_a_strange_path_is_only_a_name(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / 'it\'s a $(touch x) "repo"')
    source = await LocalRepository.open(repository.path)
    await Mirror.of(source, tmp_path / "mirrors").ensure(source.head)
    assert not (Path.cwd() / "x").exists()


PIPES = (
    ".gitignore", ".gitattributes", "nested/.git/HEAD", ".git/commondir", ".git/config", ".git/index",
    ".git/info/exclude", ".git/objects/info/alternates", ".git/packed-refs", ".git/refs/heads/other", ".git/shallow",
)  # fmt: skip


def put_pipe(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@pytest.mark.req("X4")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", PIPES)
async def test_a_pipe_where_git_expects_a_file_is_named(repository: Repository, name: str) -> None:
    if name.startswith("nested"):
        make_repository(repository.path / "nested")
    put_pipe(repository.path / name)
    with pytest.raises(Misconfigured, match="pipe or a device") as caught:
        await LocalRepository.open(repository.path)
    assert caught.value.where == str(repository.path / name)


@pytest.mark.req("X4")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ("CLAUDE.md", "CODEOWNERS", ".github/CODEOWNERS", ".plangate/agents/x.md", "src/a.py"))
async def test_a_pipe_that_nobody_reads_does_no_harm(repository: Repository, name: str) -> None:
    put_pipe(repository.path / name)
    assert (await LocalRepository.open(repository.path)).head == repository.head


def commit_bomb(repository: Repository, leaf: str, width: int, depth: int) -> None:
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


@pytest.mark.req("X4")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("leaf", (pytest.param(files, marks=pytest.mark.long), nothing))
async def test_a_bomb_at_home_is_refused_unwalked(repository: Repository, leaf: object) -> None:
    assert callable(leaf)
    commit_bomb(repository, leaf(repository), 10, 8)
    with pytest.raises(Refused, match=r"too large: HEAD holds more than 1,000,000 files and folders") as caught:
        await LocalRepository.open(repository.path)
    assert caught.value.exit_code == 2


@pytest.mark.req("X4")
@pytest.mark.timeout(60)
async def test_folders_without_a_file_are_counted_in_a_mirror(repository: Repository) -> None:
    commit_bomb(repository, nothing(repository), 10, 8)
    with pytest.raises(Refused, match="too large: it holds more than half a million files and folders"):
        await mirror.check_size(repository.path / ".git", repository.head)


@pytest.mark.req("X4")
@pytest.mark.timeout(60)
async def test_a_name_that_no_file_system_takes_is_refused(repository: Repository) -> None:
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


@pytest.mark.req("X4")
@pytest.mark.timeout(60)
async def test_endless_patterns_of_the_work_end(
    workspace: GitWorkspace, repository: Repository, tmp_path: Path
) -> None:
    work = await begin(workspace, repository, endless)
    start_repository(tmp_path / "clone", workspace.mirror, head=work.base)
    export = Export(UntrustedTree(work.path), tmp_path / "clone", seconds=0.3)
    with pytest.raises(Refused, match=r"longer than 0.3 s: use fewer `\*\*` in .gitignore"):
        await export.run()


@pytest.mark.req("X4")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("version", ("2", "4"))
async def test_endless_patterns_of_the_base_end(workspace: GitWorkspace, repository: Repository, version: str) -> None:
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
