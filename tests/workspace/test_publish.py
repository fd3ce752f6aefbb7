"""Publishing: what a tree becomes, whose the commits are, how they are signed, and what branches get."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from bot.core.errors import Conflict, Misconfigured, OutOfScope, Refused
from bot.core.turn import Actor
from bot.core.work import CommitOrder
from bot.ports import Access
from bot.workspace.local_repository import LocalRepository
from bot.workspace.publish import Committer, Publishing, check_key
from bot.workspace.remote import refusal
from bot.workspace.workspace import GitWorkspace
from tests.rows import every_row
from tests.workspace.ground import Repository, approved, begin, order, publish, write
from tests.workspace.museum.exhibits import TREE
from tests.workspace.museum.tour import shell


async def test_a_new_branch_holds_the_work_and_all_else_stays(workspace: GitWorkspace, repository: Repository) -> None:
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


async def test_modes_and_links_are_kept_and_setuid_is_not(workspace: GitWorkspace, repository: Repository) -> None:
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
        "100755", "100644", "120000", "100644",
    )  # fmt: skip


async def test_a_folder_and_a_file_may_change_places(workspace: GitWorkspace, repository: Repository) -> None:
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
async def test_one_order_gives_one_commit(workspace: GitWorkspace, repository: Repository, tmp_path: Path) -> None:
    checkout = await begin(workspace, repository, write(new="x"))
    first = await workspace.publish(approved(checkout.base), checkout, order())
    again = await workspace.publish(approved(checkout.base), checkout, order())
    twin = GitWorkspace.on(await LocalRepository.open(repository.path), tmp_path / "elsewhere")
    other = await begin(twin, repository, write(new="x"))
    assert first == again == await twin.publish(approved(other.base), other, order())


@pytest.mark.req("G3")
async def test_a_branch_with_something_else_is_a_conflict(workspace: GitWorkspace, repository: Repository) -> None:
    checkout = await begin(workspace, repository, write(new="x"))
    repository.git("branch", order().branch)
    with pytest.raises(Conflict, match="holds something else"):
        await workspace.publish(approved(checkout.base), checkout, order())
    assert repository.git("rev-parse", order().branch) == repository.head


async def test_a_branch_in_the_way_is_named(workspace: GitWorkspace, repository: Repository) -> None:
    repository.git("branch", "plangate")
    with pytest.raises(Refused, match=r"cannot be made.*rename the branch"):
        await publish(workspace, repository, write(new="x"))


async def test_what_gitignore_names_is_left_out_if_untracked(workspace: GitWorkspace, repository: Repository) -> None:
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
    def work(tree: Path) -> None:
        (tree / ".git" / "info").mkdir(exist_ok=True)
        (tree / ".git" / "info" / "exclude").write_text("*\n")
        (tree / ".git" / "config").write_text('[filter "x"]\n\tclean = touch fired\n\trequired\n')
        write(_dot_gitattributes="* filter=x\n", new="x")(tree)

    published = await publish(workspace, repository, work, (".gitattributes", "new"))
    assert published.paths == (".gitattributes", "new")


async def test_line_ends_are_no_change_where_attributes_say_so(workspace: GitWorkspace, repository: Repository) -> None:
    (repository.path / ".gitattributes").write_text("* text eol=crlf\n")
    repository.commit()
    with pytest.raises(Refused, match="changed nothing"):
        await publish(workspace, repository, lambda tree: None)


@pytest.mark.req("G1")
@every_row("name", [name for name, exhibit in TREE.items() if exhibit.judged])
async def test_what_may_not_be_published_is_refused_by_name(
    name: str, workspace: GitWorkspace, repository: Repository, tmp_path: Path
) -> None:
    checkout = await workspace.checkout("main", repository.head)
    copied = replace(checkout, path=str(shutil.copytree(checkout.path, tmp_path / "copy", symlinks=True)))
    shell(Path(copied.path), TREE[name].script)
    try:
        with pytest.raises(Refused) as caught:
            await workspace.publisher.publish(approved(checkout.base), copied, order())
    finally:
        shutil.rmtree(copied.path)
    assert TREE[name].refused in str(caught.value)
    assert not (repository.path / ".git/refs/heads/plangate").exists()


async def test_odd_names_of_the_base_may_change(workspace: GitWorkspace, repository: Repository) -> None:
    (repository.path / "aux.txt").write_text("1")
    (repository.path / "out").symlink_to("/etc/passwd")
    repository.commit()
    published = await publish(workspace, repository, write(**{"aux.txt": "2"}))
    assert published.paths == ("aux.txt",)


async def test_a_large_file_of_the_base_may_stay(workspace: GitWorkspace, repository: Repository) -> None:
    with (repository.path / "large").open("wb") as file:
        file.truncate(50_000_001)
    repository.git("config", "core.compression", "1")
    repository.commit()
    assert (await publish(workspace, repository, write(new="x"))).paths == ("new",)


SCOPES: tuple[tuple[tuple[str, ...], str, bool], ...] = (
    ((), "src/a.py", True), ((), "CLAUDE.md", False), ((), ".github/workflows/ci.yml", False),
    ((), ".GitHub/Workflows/ci.yml", False), ((), "pyproject.toml", False), (("src/**",), "src/a.py", True),
    (("src/**",), "docs/x.md", False), (("**",), "CLAUDE.md", False), (("CLAUDE.md",), "CLAUDE.md", True),
)  # fmt: skip


@pytest.mark.req("G4")
@every_row(("scope", "path", "allowed"), SCOPES)
async def test_nothing_outside_the_scope_is_published(
    scope: tuple[str, ...], path: str, allowed: bool, workspace: GitWorkspace, repository: Repository
) -> None:
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
async def test_an_amendment_is_its_tree_and_nothing_more(workspace: GitWorkspace, repository: Repository) -> None:
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


async def test_a_deletion_out_of_scope_is_refused(workspace: GitWorkspace, repository: Repository) -> None:
    with pytest.raises(OutOfScope):
        await publish(workspace, repository, lambda tree: (tree / "README.md").unlink(), ("src",))


async def test_a_name_that_no_scope_can_hold_is_refused(workspace: GitWorkspace, repository: Repository) -> None:
    (repository.path / "!x").write_text("1")
    repository.commit()
    with pytest.raises(Refused, match="no plan can name") as caught:
        await publish(workspace, repository, write(**{"!x": "2"}), ("src",))
    assert not isinstance(caught.value, OutOfScope)


async def test_sandboxes_are_ended_first(workspace: GitWorkspace, repository: Repository) -> None:
    checkout = await begin(workspace, repository, write(new="x"))
    host = await workspace.open(checkout, Access.WRITE)
    await workspace.publish(approved(checkout.base), checkout, order())
    assert (await host.call("LS", {"path": "."})).is_error


BAD_ORDERS = (
    order(branch="-x"), order(branch="a..b"), order(branch="a/"), order(branch="a.lock"), order(branch="a b"),
    order(branch="+a:b"), order(branch="a\nb"), order(message=" "), order(message="a\0b"), order(requester="x"),
    order(requester="A <a@b>\nSigned-off-by: C <c@d>"),
)  # fmt: skip


@pytest.mark.req("G3")
@every_row("bad", BAD_ORDERS)
async def test_orders_with_two_readings_are_refused(
    bad: CommitOrder, workspace: GitWorkspace, repository: Repository
) -> None:
    checkout = await begin(workspace, repository, write(new="x"))
    with pytest.raises(Refused):
        await workspace.publish(approved(checkout.base), checkout, bad)


async def test_the_message_names_the_requester_as_co_author(workspace: GitWorkspace, repository: Repository) -> None:
    checkout = await begin(workspace, repository, write(new="x"))
    what = order(message="Títle\r\n\r\nBody\n", requester="Ann Lee <ann@example.org>")
    published = await workspace.publish(approved(checkout.base), checkout, what)
    assert repository.git("log", "-1", "--format=%B", published.commit) == (
        "Títle\n\nBody\n\nCo-authored-by: Ann Lee <ann@example.org>"
    )


async def test_a_plan_for_another_commit_publishes_nothing(workspace: GitWorkspace, repository: Repository) -> None:
    checkout = await begin(workspace, repository, write(new="x"))
    later = repository.commit(other="x")
    with pytest.raises(Refused, match="another commit"):
        await workspace.publish(approved(later), checkout, order())


@pytest.mark.req("G1")
async def test_modules_at_the_top_are_not_imported(workspace: GitWorkspace, repository: Repository) -> None:
    names = ("git", "bot", "anthropic", "sitecustomize", "gitdb")
    trap = "raise SystemExit('imported')"
    published = await publish(workspace, repository, write(**{f"{name}_dot_py": trap for name in names}))
    assert len(published.paths) == len(names)


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
async def test_what_cannot_be_read_is_not_taken_for_deleted(workspace: GitWorkspace, repository: Repository) -> None:
    with pytest.raises(Refused, match="cannot be read"):
        await publish(workspace, repository, lambda tree: (tree / "src").chmod(0))


@pytest.mark.req("G3")
async def test_work_goes_on_top_of_a_branch_of_ours(workspace: GitWorkspace, repository: Repository) -> None:
    first = await publish(workspace, repository, write(new="x"))
    checkout = await workspace.checkout("again", first.commit)
    (Path(checkout.path) / "more").write_text("y")
    onto = replace(order(), expected=first.commit)
    second = await workspace.publish(approved(first.commit), checkout, onto)
    assert second == await workspace.publish(approved(first.commit), checkout, onto)
    assert repository.git("log", "--format=%H", "-2", order().branch).split() == [second.commit, first.commit]


@pytest.mark.req("G3")
async def test_a_branch_that_moved_on_or_is_gone_is_a_conflict(workspace: GitWorkspace, repository: Repository) -> None:
    first = await publish(workspace, repository, write(new="x"))
    checkout = await workspace.checkout("again", first.commit)
    (Path(checkout.path) / "more").write_text("y")
    onto = replace(order(), expected=first.commit)
    repository.git("branch", "-f", order().branch, "main")
    with pytest.raises(Conflict):
        await workspace.publish(approved(first.commit), checkout, onto)
    assert repository.git("rev-parse", order().branch) == repository.head
    repository.git("branch", "-D", order().branch)
    with pytest.raises(Conflict):
        await workspace.publish(approved(first.commit), checkout, onto)
    assert repository.git("branch", "--format=%(refname:short)") == "main"


@pytest.mark.req("G3")
async def test_work_not_begun_on_the_branch_is_refused(workspace: GitWorkspace, repository: Repository) -> None:
    first = await publish(workspace, repository, write(new="x"))
    checkout = await workspace.checkout("main", repository.head)
    with pytest.raises(Refused, match="did not start from the branch's head"):
        await workspace.publish(approved(checkout.base), checkout, replace(order(), expected=first.commit))


BOT = Actor(4711, "plangate[bot]")
ADDRESS = "4711+plangate[bot]@users.noreply.github.com"


def make_key(folder: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    key = folder / f"{kind}-key"
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", str(key)], check=True)
    return key


async def on(repository: Repository, folder: Path, committer: Committer) -> GitWorkspace:
    source = await LocalRepository.open(repository.path)
    return GitWorkspace.on(source, folder / "data", publishing=Publishing(committer=committer))


@pytest.mark.req("G3")
async def test_author_and_committer_are_the_bots_account(repository: Repository, tmp_path: Path) -> None:
    workspace = await on(repository, tmp_path, Committer(BOT.login, BOT.noreply("github.com")))
    published = await publish(workspace, repository, write(new="x"))
    said = repository.git("log", "-1", "--format=%an <%ae> %cn <%ce>", published.commit)
    assert said == " ".join([f"plangate[bot] <{ADDRESS}>"] * 2)


@pytest.mark.req("G3")
@pytest.mark.parametrize("kind", ("ed25519", pytest.param("rsa", marks=pytest.mark.long)))
async def test_signed_commits_are_verified_and_repeatable(repository: Repository, tmp_path: Path, kind: str) -> None:
    key = make_key(tmp_path, kind)
    workspace = await on(repository, tmp_path, Committer(BOT.login, ADDRESS, key))
    checkout = await begin(workspace, repository, write(new="x"))
    published = await workspace.publish(approved(checkout.base), checkout, order(requester="ana <7+ana@example.org>"))
    assert published == await workspace.publish(
        approved(checkout.base), checkout, order(requester="ana <7+ana@example.org>")
    )
    (tmp_path / "signers").write_text(f"{ADDRESS} {key.with_suffix('.pub').read_text()}")
    trusted = ("-c", f"gpg.ssh.allowedSignersFile={tmp_path / 'signers'}")
    repository.git(*trusted, "verify-commit", published.commit)
    assert repository.git(*trusted, "log", "-1", "--format=%G? %GS", published.commit) == f"G {ADDRESS}"
    message = repository.git("log", "-1", "--format=%B", published.commit)
    assert message == "Do it\n\nCo-authored-by: ana <7+ana@example.org>"
    assert repository.git("fsck", "--strict", "--no-dangling", published.commit) == ""


@pytest.mark.req("G3")
async def test_no_sandbox_is_shown_the_key(repository: Repository, tmp_path: Path) -> None:
    key = make_key(tmp_path)
    workspace = await on(repository, tmp_path, Committer(key=key))
    host = await workspace.open(await begin(workspace, repository, write(new="x")), Access.WRITE)
    said = await host.call("Bash", {"command": f"cat {key} {key}.pub; env; cat /proc/*/environ /proc/*/cmdline"})
    await host.close()
    assert "PRIVATE KEY" not in said.text
    assert said.text.count("No such file") == 2
    assert said.text.count(str(key)) == 4  # the complaints, and this command's own line with it


@pytest.mark.req("G3")
async def test_an_unfit_key_is_said_to_be_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no key")
    for key, said in (
        (make_key(tmp_path, "ecdsa"), "a key of the kind ecdsa-sha2-nistp256"),
        (make_key(tmp_path, "ed25519", "secret"), "incorrect passphrase"),
        (tmp_path / "text", "commits cannot be signed: "),
        (tmp_path / "missing", "No such file"),
    ):
        with pytest.raises(Misconfigured, match=said) as caught:
            await check_key(key)
        assert caught.value.where == "PLANGATE_SIGNING_KEY_PATH"


@pytest.mark.req("G3")
def test_a_push_that_lacks_a_signature_tells_the_cure() -> None:
    said = "remote: - Commits must have verified signatures. ! [remote rejected] (push declined due to rule violations)"
    error = refusal("https://github.com/o/r", said)
    assert "require signed commits" in str(error)
    assert "docs/settings.md" in str(error)
