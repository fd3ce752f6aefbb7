"""What was verified is what is published: frozen work, its tree, and what set-up commands left (G3a)."""

import asyncio
import hashlib
from pathlib import Path

import pytest

from bot.core.errors import Refused
from bot.core.work import Checkout, CommitOrder
from bot.ports import Access
from bot.workspace.workspace import GitWorkspace
from tests.workspace.ground import NOW, Repository, approved, begin, write

pytestmark = pytest.mark.req("G3a")
_DAEMON = (
    "setsid sh -c '(while :; do echo x >> late.txt; sleep 0.01; done) > /dev/null 2>&1 &'"
    "; until [ -s late.txt ]; do sleep 0.01; done"
)
_WRITING = "while :; do echo x >> late.txt; echo on; sleep 0.01; done"


def order(tree: str, **leftovers: str) -> CommitOrder:
    left = {name.replace("_dot_", "."): oid for name, oid in leftovers.items()}
    return CommitOrder("plangate/run-x-00000001", "Do it", NOW, verified=tree, leftovers=left)


def oid(content: str) -> str:
    return hashlib.sha1(f"blob {len(content)}\0{content}".encode(), usedforsecurity=False).hexdigest()


async def test_nothing_writes_frozen_work(workspace: GitWorkspace, repository: Repository) -> None:
    work = await begin(workspace, repository, write(new="x"))
    host, late, begun = await workspace.open(work, Access.WRITE), Path(work.path, "late.txt"), asyncio.Event()
    writing = asyncio.create_task(host.call("Bash", {"command": _WRITING}, progress=lambda _: begun.set()))
    await begun.wait()
    frozen = await workspace.freeze(work, "checks", {})
    assert (await writing).is_error
    assert late.read_bytes() == Path(frozen.checkout.path, "late.txt").read_bytes()
    published = await workspace.publish(approved(work.base), work, order(frozen.tree))
    assert published.paths == ("late.txt", "new")
    assert repository.git("rev-parse", f"{published.commit}^{{tree}}") == frozen.tree


async def test_a_daemon_writes_nothing_that_is_published(workspace: GitWorkspace, repository: Repository) -> None:
    work = await begin(workspace, repository, write(new="x"))
    host, late = await workspace.open(work, Access.WRITE), Path(work.path, "late.txt")
    assert not (await host.call("Bash", {"command": _DAEMON})).is_error
    frozen = await workspace.freeze(work, "checks", {})
    verified = Path(frozen.checkout.path, "late.txt").read_bytes()
    await asyncio.sleep(0.1)
    published = await workspace.publish(approved(work.base), work, order(frozen.tree))
    assert late.read_bytes() == verified
    assert repository.git("show", f"{published.commit}:late.txt").encode() == verified.strip()
    assert repository.git("rev-parse", f"{published.commit}^{{tree}}") == frozen.tree


def added(tree: Path) -> None:
    (tree / "late.txt").write_text("late")


def changed(tree: Path) -> None:
    (tree / "new").write_text("y")


def made_a_program(tree: Path) -> None:
    (tree / "new").chmod(0o755)


def removed(tree: Path) -> None:
    (tree / "README.md").unlink()


@pytest.mark.parametrize("late", (added, changed, made_a_program, removed))
async def test_work_changed_since_it_was_verified(
    workspace: GitWorkspace, repository: Repository, late: object
) -> None:
    work = await begin(workspace, repository, write(new="x"))
    frozen = await workspace.freeze(work, "checks", {})
    assert callable(late)
    late(Path(work.path))
    with pytest.raises(Refused, match="changed after it was verified"):
        await workspace.publish(approved(work.base), work, order(frozen.tree))
    assert repository.git("branch", "--format=%(refname:short)") == "main"


async def test_what_checks_write_is_not_published(workspace: GitWorkspace, repository: Repository) -> None:
    work = await begin(workspace, repository, write(new="x"))
    frozen = await workspace.freeze(work, "checks", {})
    host = await workspace.open(frozen.checkout, Access.WRITE)
    said = await host.call("Bash", {"command": "echo built > product; echo y > new; cat product new"})
    assert said.text == "built\ny"
    await workspace.discard(frozen.checkout)
    published = await workspace.publish(approved(work.base), work, order(frozen.tree))
    assert (published.paths, repository.git("show", f"{published.commit}:new")) == (("new",), "x")


async def test_work_that_may_not_be_published_is_not_verified(workspace: GitWorkspace, repository: Repository) -> None:
    work = await begin(workspace, repository, lambda tree: (tree / "out").symlink_to("/etc/passwd"))
    with pytest.raises(Refused, match="leads out of the repository"):
        await workspace.freeze(work, "checks", {})
    assert not (workspace.checkouts.folder / "checks").exists()


async def left(workspace: GitWorkspace, repository: Repository) -> Checkout:
    work = await begin(workspace, repository, write(left_dot_txt="left", README_dot_md="# Set up\n"))
    Path(work.path, "src", "b.py").unlink()
    return work


LEFT = {"left.txt": oid("left"), "README.md": oid("# Set up\n"), "src/b.py": "gone"}


async def test_leftovers_of_set_up_stay_out(workspace: GitWorkspace, repository: Repository) -> None:
    work = await left(workspace, repository)
    write(new="x")(Path(work.path))
    frozen = await workspace.freeze(work, "checks", LEFT)
    assert Path(frozen.checkout.path, "left.txt").read_text() == "left"
    published = await workspace.publish(approved(work.base), work, order(frozen.tree, **LEFT))
    assert published.paths == ("new",)


async def test_leftovers_that_the_work_changed_are_published(workspace: GitWorkspace, repository: Repository) -> None:
    work = await left(workspace, repository)
    write(left_dot_txt="mine", README_dot_md="# Mine\n", src__b_dot_py="b = 2\n")(Path(work.path))
    published = await workspace.publish(approved(work.base), work, order("", **LEFT))
    assert published.paths == ("README.md", "left.txt", "src/b.py")


async def test_large_leftovers_stay_out(workspace: GitWorkspace, repository: Repository) -> None:
    work = await begin(workspace, repository, write(new="x"))
    large = b"\0" * 50_000_001
    Path(work.path, "dump").write_bytes(large)
    known = hashlib.sha1(b"blob %d\0" % len(large) + large, usedforsecurity=False).hexdigest()
    assert (await workspace.publish(approved(work.base), work, order("", dump=known))).paths == ("new",)
    with pytest.raises(Refused, match="dump: it is larger than 50 MB"):
        await workspace.publish(approved(work.base), work, order("", dump=oid("other")))
