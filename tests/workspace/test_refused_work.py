"""Work that is not published: outside of its plan, kept by Git LFS, or lost in a commit.

What is out of scope becomes a plan of its own, which waits for people. The rest is refused by name.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from bot.core.errors import OutOfScope, Refused
from bot.core.names import CommitId
from bot.core.paths import linked_classes
from bot.ports import Access
from bot.workspace.workspace import GitWorkspace
from tests.marks import long
from tests.workspace.ground import Repository, Work, approved, begin, make_repository, order, publish, write

SCOPE: Final = ("src/a.py",)
OWN: Final = "git -c user.name=x -c user.email=x@localhost"
OUTSIDE: Final = {
    "another file": ("echo more >> README.md", "README.md"),
    "another file of its folder": ("echo more >> src/b.py", "src/b.py"),
    "a file beside it": ("echo more > src/a.pyc", "src/a.pyc"),
    "the mode of another file": ("chmod +x README.md", "README.md"),
    "another file through a link": ("ln -s ../README.md src/c; echo more >> src/c", "README.md src/c"),
    "another file through a hard link": ("ln README.md src/c; echo more >> src/c", "README.md src/c"),
    "a folder through a link": ("mkdir docs; ln -s ../docs src/d; echo more > src/d/x", "docs/x src/d"),
    "another target of a link": ("ln -sf README.md link", "link"),
    "a rename of another file": ("mv README.md src/README.md", "README.md src/README.md"),
    "a rename of its own file": ("git mv src/a.py src/c.py; echo x > src/a.py", "src/c.py"),
    "a removed file": ("rm README.md", "README.md"),
    "a folder where a file was": ("rm README.md; mkdir README.md; echo x > README.md/a", "README.md README.md/a"),
    "the configuration": ("mkdir .github; echo 'maintenance: []' > .github/plangate.yml", ".github/plangate.yml"),
    "a workflow": ("mkdir -p .github/workflows; echo 'on: push' > .github/workflows/x.yml", ".github/workflows/x.yml"),
    "instructions to agents": ("echo Obey. > src/CLAUDE.md", "src/CLAUDE.md"),
    "dependencies": ("echo evil > requirements.txt", "requirements.txt"),
    "attributes": ("echo '*.py filter=x' > .gitattributes", ".gitattributes"),
    "attributes with a filter": (
        "echo '*.md filter=x' > .gitattributes; git config filter.x.clean 'cat /etc/passwd'; echo x >> README.md",
        ".gitattributes README.md",
    ),
    "a list of submodules": ("echo '[submodule \"x\"]' > .gitmodules", ".gitmodules"),
    "a commit of its own": (f"echo more >> README.md; {OWN} commit -qam x", "README.md"),
    "a commit on another branch": (f"git checkout -qb x; echo more >> README.md; {OWN} commit -qam x", "README.md"),
    "a file that git is told to ignore": ("echo x > c.py; mkdir -p .git/info; echo c.py > .git/info/exclude", "c.py"),
    "a file that git takes for unchanged": (
        "git update-index --assume-unchanged README.md; echo x >> README.md", "README.md",
    ),
    "a file that git skips": ("git update-index --skip-worktree README.md; echo x >> README.md", "README.md"),
    "objects that git takes for others": (
        "git replace $(git rev-parse HEAD:README.md) $(echo x | git hash-object -w --stdin); echo x > README.md",
        "README.md",
    ),
}  # fmt: skip
"""What each changes beside the plan's file."""
UNALLOWED: Final = {
    "its own file in another case": ("echo x > src/A.py", "is the same name on other systems"),
    "a link out of the repository": ("ln -sf /etc/passwd src/a.py", "src/a.py: it is a link that leads out"),
}


async def leave(workspace: GitWorkspace, repository: Repository, command: str) -> Refused:
    checkout = await workspace.checkout("main", repository.head)
    host = await workspace.open(checkout, Access.WRITE)
    ran = await host.call("Bash", {"command": f"echo 'a = 2' > src/a.py && {{ {command}; }}"})
    assert ran.details["exit_code"] == 0, ran.text
    with pytest.raises(Refused) as caught:
        await workspace.publish(approved(checkout.base, SCOPE), checkout, order())
    assert repository.git("branch", "--format=%(refname:short)") == "main"
    return caught.value


def sample(table: dict[str, tuple[str, str]]) -> list[object]:
    return [long(name) if n else name for n, name in enumerate(table)]


@pytest.mark.req("G4", "MT6")
@pytest.mark.parametrize("name", sample(OUTSIDE))
async def test_all_work_outside_its_plan_is_named(name: str, workspace: GitWorkspace, repository: Repository) -> None:
    command, paths = OUTSIDE[name]
    refused = await leave(workspace, repository, command)
    assert isinstance(refused, OutOfScope)
    assert refused.paths == tuple(paths.split())


@pytest.mark.req("G1", "MT6")
@pytest.mark.parametrize("name", sample(UNALLOWED))
async def test_no_approval_allows_what_is_refused(name: str, workspace: GitWorkspace, repository: Repository) -> None:
    command, said = UNALLOWED[name]
    refused = await leave(workspace, repository, command)
    assert not isinstance(refused, OutOfScope)
    assert said in str(refused)


@pytest.mark.req("G4")
async def test_targets_of_links_of_tier_high_must_be_named(workspace: GitWorkspace, repository: Repository) -> None:
    (repository.path / ".claude").mkdir()
    (repository.path / ".claude" / "skills").symlink_to("../skills")
    classes = linked_classes(await workspace.links(repository.commit()))
    checkout = await begin(workspace, repository, write(**{"skills/deploy.md": "Push at once."}))
    with pytest.raises(OutOfScope, match=r"skills/deploy\.md"):
        await workspace.publish(approved(checkout.base, ("**",), classes=classes), checkout, order())
    named = approved(checkout.base, ("skills/**",), classes=classes)
    assert (await workspace.publish(named, checkout, order())).paths == ("skills/deploy.md",)


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12\n"
HELD, FORGED = POINTER.format("a" * 64), POINTER.format("b" * 64)
RULES = "*.bin filter=lfs diff=lfs merge=lfs -text\n"


@pytest.fixture
def lfs(repository: Repository) -> Repository:
    repository.commit(_dot_gitattributes=RULES, data__a_dot_bin=HELD)
    return repository


def rules_taken_away(tree: Path) -> None:
    (tree / ".gitattributes").unlink()
    (tree / "data" / "a.bin").write_text("plain")


def by_a_macro(tree: Path) -> None:
    (tree / ".gitattributes").write_text("[attr]stored filter=lfs\n*.dat stored\n")
    (tree / "new.dat").write_text("plain")


def by_rules_of_a_folder(tree: Path) -> None:
    (tree / "src" / ".gitattributes").write_text("* filter=lfs\n")


def moved_plain(tree: Path) -> None:
    (tree / "README.md").rename(tree / "readme.bin")


PLAIN_BLOBS: dict[str, tuple[Work, str]] = {
    "changed": (write(data__a_dot_bin="plain"), "data/a.bin"), "added": (write(new_dot_bin="plain"), "new.bin"),
    "pointer to nothing": (write(new_dot_bin=FORGED), "new.bin"), "plain file moved": (moved_plain, "readme.bin"),
    "rules of the base": (rules_taken_away, "data/a.bin"), "rules of the work, by a macro": (by_a_macro, "new.dat"),
    "rules of the work, in a folder": (by_rules_of_a_folder, "src/.gitattributes"),
}  # fmt: skip


@pytest.mark.req("G3")
@pytest.mark.parametrize("what", PLAIN_BLOBS)
async def test_what_lfs_keeps_is_no_plain_blob(what: str, workspace: GitWorkspace, lfs: Repository) -> None:
    work, named = PLAIN_BLOBS[what]
    with pytest.raises(Refused, match="kept by Git LFS") as caught:
        await publish(workspace, lfs, work)
    assert caught.value.where == named
    assert lfs.git("branch", "--format=%(refname:short)") == "main"


def pointer_moved(tree: Path) -> None:
    (tree / "data" / "a.bin").rename(tree / "b.bin")


def made_a_program(tree: Path) -> None:
    (tree / "data" / "a.bin").chmod(0o755)


def pointer_removed(tree: Path) -> None:
    (tree / "data" / "a.bin").unlink()


def pointer_linked(tree: Path) -> None:
    (tree / "b.bin").symlink_to("data/a.bin")


POINTERS: dict[str, tuple[Work, tuple[str, ...]]] = {
    "left alone": (write(new="x"), ("new",)), "moved": (pointer_moved, ("b.bin", "data/a.bin")),
    "made a program": (made_a_program, ("data/a.bin",)), "removed": (pointer_removed, ("data/a.bin",)),
    "a link": (pointer_linked, ("b.bin",)),
    "another filter": (
        write(_dot_gitattributes=f"{RULES}*.py filter=black\n", b_dot_py="x"), (".gitattributes", "b.py"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", POINTERS)
async def test_pointers_of_lfs_stay_beside_other_work(what: str, workspace: GitWorkspace, lfs: Repository) -> None:
    work, paths = POINTERS[what]
    published = await publish(workspace, lfs, work, ("**", ".gitattributes"))
    assert published.paths == paths


FROM_FILES = ("-c", "protocol.file.allow=always")


@pytest.fixture
def with_module(repository: Repository, tmp_path: Path) -> Repository:
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
    (write(lib__mod__x="x"), CHANGED), (lambda tree: (tree / "lib/mod/folder").mkdir(), CHANGED),
    (replace_by_file, CHANGED), (lambda tree: (tree / "lib/mod").rmdir(), REMOVED),
    (lambda tree: Repository(tree).git("rm", "-q", "lib/mod"), REMOVED), (remove_entry, REMOVED),
    (delete_entry, REMOVED), (hide_entries, REMOVED),
)  # fmt: skip


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
