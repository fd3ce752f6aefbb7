"""Publishing: what a hostile tree may and may not become, and that the same order gives the same commit."""

import os
import shutil
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from bot.core.errors import Conflict, OutOfScope, Refused
from bot.core.work import CommitOrder
from bot.ports import Access
from bot.workspace.local_repository import LocalRepository
from bot.workspace.workspace import GitWorkspace
from tests.rows import every_row
from tests.workspace.ground import Repository, Work, approved, begin, make_repository, order, publish, write


async def test_branch(workspace: GitWorkspace, repository: Repository) -> None:
    """A new branch holds the work on top of the base; work tree, index, HEAD and the uncommitted stay as they were."""
    (repository.path / "src" / "b.py").write_text("mine, uncommitted")
    before = (repository.git("status", "--porcelain", "--branch"), repository.head)

    def work(tree: Path) -> None:
        (tree / "src" / "a.py").write_text("a = 2\n")
        (tree / "new folder").mkdir()
        (tree / "new folder" / "ünï.txt").write_text("x")
        (tree / "README.md").unlink()

    published = await publish(workspace, repository, work)
    assert published.paths == ("README.md", "new folder/ünï.txt", "src/a.py")
    assert repository.git("show", f"{published.branch}:src/a.py") == "a = 2"
    assert repository.git("rev-parse", f"{published.branch}^") == repository.head
    assert repository.git("log", "-1", "--format=%an %ae %cn %at %ct", published.branch) == (
        "Plangate plangate@users.noreply.github.com Plangate 1767225600 1767225600"
    )
    assert (repository.git("status", "--porcelain", "--branch"), repository.head) == before
    assert list((workspace.publisher.folder).iterdir()) == []


async def test_modes(workspace: GitWorkspace, repository: Repository) -> None:
    """The executable bit and links are kept, setuid is not."""

    def work(tree: Path) -> None:
        (tree / "tool").write_text("#!/bin/sh\n")
        (tree / "tool").chmod(0o4755)
        (tree / "run.sh").chmod(0o644)
        (tree / "src" / "inner").symlink_to("../README.md")
        (tree / "link").unlink()
        (tree / "link").write_text("a file now")

    published = await publish(workspace, repository, work)
    listed = repository.git("ls-tree", "-r", published.branch).splitlines()
    modes = {line.split("\t")[1]: line.split()[0] for line in listed}
    assert (modes["tool"], modes["run.sh"], modes["src/inner"], modes["link"]) == (
        "100755",
        "100644",
        "120000",
        "100644",
    )


async def test_folder_and_file_change_places(workspace: GitWorkspace, repository: Repository) -> None:
    """A folder that becomes a file, and a file that becomes a folder, are published as they are."""

    def work(tree: Path) -> None:
        for name in ("a.py", "b.py"):
            (tree / "src" / name).unlink()
        (tree / "src").rmdir()
        (tree / "src").write_text("file")
        (tree / "README.md").unlink()
        (tree / "README.md").mkdir()
        (tree / "README.md" / "x").write_text("x")
        (tree / "link").unlink()

    published = await publish(workspace, repository, work)
    names = repository.git("ls-tree", "-r", "--name-only", published.branch).splitlines()
    assert names == ["README.md/x", "run.sh", "src"]


@pytest.mark.req("E3")
async def test_same_order_same_commit(workspace: GitWorkspace, repository: Repository, tmp_path: Path) -> None:
    """Publishing again, here and after a restart, gives the same commit and changes nothing."""
    checkout = await begin(workspace, repository, write(new="x"))
    first = await workspace.publish(approved(checkout.base), checkout, order())
    again = await workspace.publish(approved(checkout.base), checkout, order())
    twin = GitWorkspace.on(await LocalRepository.open(repository.path), tmp_path / "elsewhere")
    other = await begin(twin, repository, write(new="x"))
    assert first == again == await twin.publish(approved(other.base), other, order())


@pytest.mark.req("G3")
async def test_taken_branch(workspace: GitWorkspace, repository: Repository) -> None:
    """A branch that holds something else is a Conflict, and stays as it was."""
    checkout = await begin(workspace, repository, write(new="x"))
    repository.git("branch", order().branch)
    with pytest.raises(Conflict, match="holds something else"):
        await workspace.publish(approved(checkout.base), checkout, order())
    assert repository.git("rev-parse", order().branch) == repository.head


async def test_branch_in_the_way(workspace: GitWorkspace, repository: Repository) -> None:
    """A branch named like our folder of branches is named as what is in the way."""
    repository.git("branch", "plangate")
    with pytest.raises(Refused, match=r"cannot be made.*rename the branch"):
        await publish(workspace, repository, write(new="x"))


async def test_ignored(workspace: GitWorkspace, repository: Repository) -> None:
    """What the tree's own .gitignore leaves out is left out, whatever it is, but not what the base tracks."""
    (repository.path / ".gitignore").write_text("*.log\n/build/\nsrc/b.py\n")
    repository.git("add", "-A", "-f")
    repository.git("commit", "-qm", "ignore")

    def work(tree: Path) -> None:
        write(x_dot_log="l", build__deep__x="x", src__b_dot_py="b = 2\n", ok="ok")(tree)
        write(venv___dot_gitignore="*\n", venv__lib="x", sub___dot_gitignore="gen*\n", sub__gen="x")(tree)
        os.mkfifo(tree / "build" / "pipe")
        (tree / "build" / "deep" / ".git").mkdir()
        (tree / "build" / "out").symlink_to("/etc/passwd")

    published = await publish(workspace, repository, work)
    assert published.paths == ("ok", "src/b.py", "sub/.gitignore")


async def test_excludes_of_the_checkout_do_not_count(workspace: GitWorkspace, repository: Repository) -> None:
    """What an agent writes into its git directory hides nothing from the publisher, and runs nothing."""

    def work(tree: Path) -> None:
        (tree / ".git" / "info").mkdir(exist_ok=True)
        (tree / ".git" / "info" / "exclude").write_text("*\n")
        (tree / ".git" / "config").write_text('[filter "x"]\n\tclean = touch fired\n\trequired\n')
        write(_dot_gitattributes="* filter=x\n", new="x")(tree)

    published = await publish(workspace, repository, work, (".gitattributes", "new"))
    assert published.paths == (".gitattributes", "new")


async def test_line_ends(workspace: GitWorkspace, repository: Repository) -> None:
    """Text that only its line ends tell from the base is no change where the attributes say so."""
    (repository.path / ".gitattributes").write_text("* text eol=crlf\n")
    repository.commit()
    with pytest.raises(Refused, match="changed nothing"):
        await publish(workspace, repository, lambda tree: None)


def fifo(tree: Path) -> None:
    os.mkfifo(tree / "pipe")


def unix_socket(tree: Path) -> None:
    here = Path.cwd()
    os.chdir(tree)
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("sock")
    finally:
        os.chdir(here)


def link(name: str, target: str) -> Work:
    def work(tree: Path) -> None:
        (tree / name).symlink_to(target)

    return work


def chain(tree: Path) -> None:
    """Two links that each look harmless; together they lead out."""
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "top").symlink_to("../..")
    (tree / "out").symlink_to("a/b/top/../x")


def large(tree: Path) -> None:
    with (tree / "large").open("wb") as file:
        file.truncate(50_000_001)


def raw_name(tree: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tree) + b"/bad\xff"))).write_text("x")


def nested(tree: Path) -> None:
    make_repository(tree / "nested")


REFUSED: dict[str, tuple[Work, str]] = {
    "link to a file of the machine": (link("out", "/etc/passwd"), "out: it is a link that leads out"),
    "link upwards": (link("out", "../x"), "leads out"),
    "link far upwards": (link("src/out", "../../x"), "leads out"),
    "link down and up": (link("out", "src/../../x"), "leads out"),
    "link into git": (link("out", ".git/config"), "leads out"),
    "link into git by case": (link("out", "src/../.GIT/config"), "leads out"),
    "link to itself": (link("out", "out"), "leads out"),
    "chain of links": (chain, "out: it is a link that leads out"),
    "pipe": (fifo, "pipe: it is a socket, a pipe or a device"),
    "socket": (unix_socket, "sock: it is a socket"),
    "large file": (large, "50 MB"),
    "repository inside": (nested, "nested/.git: its name means .git"),
    ".GIT": (write(_dot_GIT__config="x"), "means .git"),
    ".Git in a folder": (write(src___dot_Git__config="x"), "means .git"),
    ".git as a file": (write(src___dot_git="gitdir: /x"), "means .git"),
    "git~1": (write(**{"git~1": "x"}), "means .git"),
    ".git with a dot": (write(**{".git.": "x"}), "means .git"),
    ".git with a blank": (write(**{".git ": "x"}), "means .git"),
    ".git as a stream": (write(**{".git::$INDEX_ALLOCATION": "x"}), "means .git"),
    ".git with an ignorable": (write(**{".g\u200cit": "x"}), "means .git"),
    ".git in full width": (write(**{"．ｇｉｔ": "x"}), "means .git"),
    "device of Windows": (write(**{"src/nul.txt": "x"}), "cannot be had on Windows"),
    "stream of Windows": (write(**{"a:b": "x"}), "cannot be had on Windows"),
    "backslash": (write(**{"a\\b": "x"}), "cannot be had on Windows"),
    "blank at the end": (write(**{"a ": "x"}), "cannot be had on Windows"),
    "new line": (write(**{"a\nb": "x"}), "cannot be had on Windows"),
    "invisible": (write(**{"a\u202eb": "x"}), "invisible"),
    "no UTF-8": (raw_name, "no UTF-8"),
    "same name in another case": (write(readme_dot_md="x"), "same name on other systems"),
    "nothing": (lambda tree: None, "changed nothing"),
}


@pytest.mark.req("G1")
@every_row("what", REFUSED)
async def test_refused(what: str, workspace: GitWorkspace, repository: Repository, tmp_path: Path) -> None:
    """It is refused by name, and no branch is made."""
    work, said = REFUSED[what]
    checkout = await workspace.checkout("main", repository.head)
    copied = replace(checkout, path=str(shutil.copytree(checkout.path, tmp_path / "copy", symlinks=True)))
    work(Path(copied.path))
    try:
        with pytest.raises(Refused) as caught:
            await workspace.publisher.publish(approved(checkout.base), copied, order())
    finally:
        shutil.rmtree(copied.path)
    assert said in str(caught.value)
    assert not (repository.path / ".git/refs/heads/plangate").exists()


async def test_odd_names_of_the_base_may_change(workspace: GitWorkspace, repository: Repository) -> None:
    """A name that would be refused as a new one is no reason when the repository has it already."""
    (repository.path / "aux.txt").write_text("1")
    (repository.path / "out").symlink_to("/etc/passwd")
    repository.commit()
    published = await publish(workspace, repository, write(**{"aux.txt": "2"}))
    assert published.paths == ("aux.txt",)


async def test_large_file_of_the_base(workspace: GitWorkspace, repository: Repository) -> None:
    """A file beyond the limit that the base has already is no reason, as long as it stays as it is."""
    large(repository.path)
    repository.git("config", "core.compression", "1")
    repository.commit()
    assert (await publish(workspace, repository, write(new="x"))).paths == ("new",)


SCOPES: tuple[tuple[tuple[str, ...], str, bool], ...] = (
    ((), "src/a.py", True),
    ((), "CLAUDE.md", False),
    ((), ".github/workflows/ci.yml", False),
    ((), ".GitHub/Workflows/ci.yml", False),
    ((), "pyproject.toml", False),
    (("src/**",), "src/a.py", True),
    (("src/**",), "docs/x.md", False),
    (("**",), "CLAUDE.md", False),
    (("CLAUDE.md",), "CLAUDE.md", True),
)


@pytest.mark.req("G4")
@every_row(("scope", "path", "allowed"), SCOPES)
async def test_scope(
    scope: tuple[str, ...], path: str, allowed: bool, workspace: GitWorkspace, repository: Repository
) -> None:
    """Nothing outside of the approved plan's scope is published, and the error names it: it may become an amendment."""
    checkout = await workspace.checkout(f"{scope} {path}", repository.head)
    write(**{path: "changed"})(Path(checkout.path))
    publishing = workspace.publish(
        approved(checkout.base, scope), checkout, order(f"plangate/{len(scope)}-{len(path)}")
    )
    if allowed:
        assert (await publishing).paths == (path,)
        return
    with pytest.raises(OutOfScope) as caught:
        await publishing
    assert caught.value.paths == (path,)


@pytest.mark.req("PR5")
async def test_amendment_is_its_tree(workspace: GitWorkspace, repository: Repository) -> None:
    """What is approved of work that outgrew its plan is that tree: one more change, in scope or not, is refused."""
    checkout = await begin(workspace, repository, write(src__a_dot_py="a = 2\n", new="x"))
    with pytest.raises(OutOfScope) as caught:
        await workspace.publish(approved(checkout.base, ("src",)), checkout, order())
    amendment = approved(checkout.base, ("src", "new"), tree=caught.value.tree)
    write(src__a_dot_py="a = 3\n")(Path(checkout.path))
    with pytest.raises(Refused, match="not what was approved") as refused:
        await workspace.publish(amendment, checkout, order())
    assert not isinstance(refused.value, OutOfScope)
    assert repository.git("for-each-ref", "refs/heads/plangate/") == ""
    write(src__a_dot_py="a = 2\n")(Path(checkout.path))
    published = await workspace.publish(amendment, checkout, order())
    assert repository.git("rev-parse", f"{published.branch}^{{tree}}") == caught.value.tree


async def test_deletion_out_of_scope(workspace: GitWorkspace, repository: Repository) -> None:
    """Removing a file is a change of it."""
    with pytest.raises(OutOfScope):
        await publish(workspace, repository, lambda tree: (tree / "README.md").unlink(), ("src",))


async def test_out_of_scope_and_unnameable(workspace: GitWorkspace, repository: Repository) -> None:
    """A name that no scope can hold is refused: an amendment with it would never end."""
    (repository.path / "!x").write_text("1")
    repository.commit()
    with pytest.raises(Refused, match="no plan can name") as caught:
        await publish(workspace, repository, write(**{"!x": "2"}), ("src",))
    assert not isinstance(caught.value, OutOfScope)


async def test_sandboxes_are_ended_first(workspace: GitWorkspace, repository: Repository) -> None:
    """Publishing ends what still runs in the checkout, so that nothing can write while it reads."""
    checkout = await begin(workspace, repository, write(new="x"))
    host = await workspace.open(checkout, Access.WRITE)
    await workspace.publish(approved(checkout.base), checkout, order())
    assert (await host.call("LS", {"path": "."})).is_error


BAD_ORDERS = (
    order(branch="-x"),
    order(branch="a..b"),
    order(branch="a/"),
    order(branch="a.lock"),
    order(branch="a b"),
    order(branch="+a:b"),
    order(branch="a\nb"),
    order(message=" "),
    order(message="a\0b"),
    order(requester="x"),
    order(requester="A <a@b>\nSigned-off-by: C <c@d>"),
)


@pytest.mark.req("G3")
@every_row("bad", BAD_ORDERS)
async def test_bad_order(bad: CommitOrder, workspace: GitWorkspace, repository: Repository) -> None:
    """Names and texts that could be read as something else are refused before anything is done."""
    checkout = await begin(workspace, repository, write(new="x"))
    with pytest.raises(Refused):
        await workspace.publish(approved(checkout.base), checkout, bad)


async def test_message(workspace: GitWorkspace, repository: Repository) -> None:
    """The message is committed as given, with the requester as co-author."""
    checkout = await begin(workspace, repository, write(new="x"))
    what = order(message="Títle\r\n\r\nBody\n", requester="Ann Lee <ann@example.org>")
    published = await workspace.publish(approved(checkout.base), checkout, what)
    assert repository.git("log", "-1", "--format=%B", published.commit) == (
        "Títle\n\nBody\n\nCo-authored-by: Ann Lee <ann@example.org>"
    )


async def test_other_base(workspace: GitWorkspace, repository: Repository) -> None:
    """A plan made for another commit publishes nothing."""
    checkout = await begin(workspace, repository, write(new="x"))
    later = repository.commit(other="x")
    with pytest.raises(Refused, match="another commit"):
        await workspace.publish(approved(later), checkout, order())


@pytest.mark.req("G1")
async def test_tree_on_the_import_path(workspace: GitWorkspace, repository: Repository) -> None:
    """Modules at the top of a repository are never imported by the program."""
    names = ("git", "bot", "anthropic", "sitecustomize", "gitdb")
    trap = "raise SystemExit('imported')"
    published = await publish(workspace, repository, write(**{f"{name}_dot_py": trap for name in names}))
    assert len(published.paths) == len(names)


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
async def test_unreadable(workspace: GitWorkspace, repository: Repository) -> None:
    """What cannot be read is named; it is not taken for deleted."""
    with pytest.raises(Refused, match="cannot be read"):
        await publish(workspace, repository, lambda tree: (tree / "src").chmod(0))
