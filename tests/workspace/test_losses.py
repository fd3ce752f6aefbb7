"""What no commit of the work would hold is refused by name, instead of being left out (G1)."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.core.errors import Refused
from bot.core.names import CommitId
from bot.workspace.workspace import GitWorkspace
from tests.workspace.ground import Repository, approved, begin, make_repository, order, write

FROM_FILES = ("-c", "protocol.file.allow=always")


@pytest.fixture
def with_module(repository: Repository, tmp_path: Path) -> Repository:
    """A repository with a submodule in a folder."""
    make_repository(tmp_path / "module")
    repository.git(*FROM_FILES, "submodule", "add", "-q", str(tmp_path / "module"), "lib/mod")
    repository.git("commit", "-qm", "module")
    return repository


def remove_entry(tree: Path) -> None:
    (tree / ".gitmodules").write_text("")


def replace_by_file(tree: Path) -> None:
    (tree / "lib/mod").rmdir()
    (tree / "lib/mod").write_text("x")


def hide_entries(tree: Path) -> None:
    (tree / ".gitmodules").unlink()
    (tree / ".gitmodules").symlink_to("/dev/zero")


def delete_entry(tree: Path) -> None:
    (tree / ".gitmodules").unlink()


CHANGED, REMOVED = "lib/mod: files in this submodule were changed", "lib/mod: this submodule was removed"
LOSSES: tuple[tuple[Callable[[Path], object], str], ...] = (
    (write(lib__mod__x="x"), CHANGED),
    (lambda tree: (tree / "lib/mod/folder").mkdir(), CHANGED),
    (replace_by_file, CHANGED),
    (lambda tree: (tree / "lib/mod").rmdir(), REMOVED),
    (lambda tree: Repository(tree).git("rm", "-q", "lib/mod"), REMOVED),
    (remove_entry, REMOVED),
    (delete_entry, REMOVED),
    (hide_entries, REMOVED),
)


@pytest.mark.req("G1")
async def test_changes_of_a_submodule_are_refused_by_name(workspace: GitWorkspace, with_module: Repository) -> None:
    checkout = await workspace.checkout("main", with_module.head)
    tree, kept = Path(checkout.path), Path(checkout.path).with_name("kept")
    shutil.copytree(tree, kept, symlinks=True)
    for work, told in LOSSES:
        work(tree)
        with pytest.raises(Refused) as caught:
            await workspace.publisher.tree(checkout, {})
        assert told in caught.value.what
        shutil.rmtree(tree)
        shutil.copytree(kept, tree, symlinks=True)
    write(new="x", lib__mod__x="x")(tree)
    assert await workspace.changed_paths(checkout) == ("new",)  # so that the work is kept while it goes on
    (tree / "lib/mod/x").unlink()
    (tree / ".gitmodules").write_text((tree / ".gitmodules").read_text() + "\tshallow = true\n")
    published = await workspace.publish(approved(checkout.base, (".gitmodules", "new")), checkout, order())
    assert published.paths == (".gitmodules", "new")
    assert with_module.git("ls-tree", published.branch, "lib/mod").startswith("160000")


@pytest.mark.req("G1")
async def test_submodule_that_set_up_commands_filled_may_stay(workspace: GitWorkspace, with_module: Repository) -> None:
    checkout = await workspace.checkout("main", with_module.head)
    tree = Repository(Path(checkout.path))
    tree.git(*FROM_FILES, "submodule", "update", "-q", "--init")
    write(new="x")(tree.path)
    _, paths = await workspace.publisher.tree(checkout, {})
    assert paths == ("new",)
    inner = Repository(tree.path / "lib/mod")
    for work in (lambda: write(README_dot_md="other")(inner.path), lambda: inner.commit(other="x")):
        work()
        with pytest.raises(Refused, match=CHANGED):
            await workspace.publisher.tree(checkout, {})


@pytest.mark.req("G1", "G3")
async def test_merge_is_refused(workspace: GitWorkspace, repository: Repository) -> None:
    base, tree = repository.head, await changed_elsewhere(workspace, repository)
    checkout = await workspace.checkout("main", base)
    for command in (("merge", "-q", "--no-ff", "--no-commit", "other"), ("commit", "-q", "-m", "merged")):
        tree.git(*command)
        with pytest.raises(Refused, match="the work is a merge, whose other commits would be lost"):
            await workspace.publisher.tree(checkout, {})
    with pytest.raises(Refused, match="the work is a merge"):
        await workspace.publish(approved(base), checkout, order())
    assert repository.git("branch", "--format=%(refname:short)") == "main"


@pytest.mark.req("G3")
async def test_own_commits_and_squashed_ones_are_published(workspace: GitWorkspace, repository: Repository) -> None:
    base, tree = repository.head, await changed_elsewhere(workspace, repository)
    tree.git("merge", "-q", "--squash", "other")
    tree.commit(mine="x")
    checkout = await workspace.checkout("main", base)
    published = await workspace.publish(approved(base), checkout, order())
    assert published.paths == ("mine", "theirs")
    shutil.rmtree(tree.path / ".git")
    assert await workspace.publisher.tree(checkout, {}) == (published.tree, published.paths)


async def changed_elsewhere(workspace: GitWorkspace, repository: Repository) -> Repository:
    """Return the tree of a checkout that has a branch ``other`` with a commit that the base lacks."""
    tree = Repository(Path((await workspace.checkout("main", repository.head)).path))
    tree.git("checkout", "-q", "-b", "other")
    tree.commit(theirs="x")
    tree.git("checkout", "-q", "--detach", CommitId(repository.head))
    return tree


@pytest.mark.req("G1")
async def test_ignored_file_that_the_plan_names_is_refused(workspace: GitWorkspace, repository: Repository) -> None:
    (repository.path / ".gitignore").write_text("dist\nout\n*.log\n")
    repository.commit()
    work = write(new="x", dist__app_dot_js="x", app_dot_log="x", other_dot_log="x", out__x="x")
    checkout = await begin(workspace, repository, work)
    scope = ("new", "dist/app.js", "./out/", "app.log")
    with pytest.raises(Refused) as caught:
        await workspace.publish(approved(checkout.base, scope), checkout, order())
    why = "the plan names it, and .gitignore excludes it"
    assert caught.value.what.endswith(f": app.log: {why}; dist/app.js: {why}; out: {why}")
    everything = ("*", "**", "dist/**", "dist/missing.js")
    assert (await workspace.publish(approved(checkout.base, everything), checkout, order())).paths == ("new",)
