"""Checkouts: made whole or not at all, one process at a time, forked, merged, kept, and with pull requests' commits."""

import os
from pathlib import Path

import pytest

from bot.core.errors import Broken, Conflict, Refused
from bot.core.names import CommitId
from bot.core.work import Checkout, PullCommits
from bot.ports import Access
from bot.workspace.checkout import safe_name
from bot.workspace.local_repository import LocalRepository
from bot.workspace.remote import RemoteRepository
from bot.workspace.workspace import GitWorkspace
from tests import forks
from tests.contracts.smart_http import Site
from tests.rows import every_row
from tests.workspace.ground import NAME, TOKEN, Repository, approved, begin, order, write
from tests.workspace.museum.exhibits import TREE
from tests.workspace.museum.tour import shell as plain_shell


def tree(checkout: Checkout) -> dict[str, str]:
    found = {}
    for folder, folders, files in os.walk(checkout.path):
        folders[:] = [name for name in folders if name != ".git"]
        for name in files:
            path = Path(folder, name)
            content = os.readlink(path) if path.is_symlink() else path.read_text()
            found[str(path.relative_to(checkout.path))] = content
    return found


async def shell(workspace: GitWorkspace, checkout: Checkout, command: str) -> str:
    host = await workspace.open(checkout, Access.WRITE)
    try:
        return (await host.call("Bash", {"command": command})).text
    finally:
        await host.close()


async def test_a_checkout_has_the_commits_modes_and_links(workspace: GitWorkspace, repository: Repository) -> None:
    (repository.path / "src" / "a.py").write_text("uncommitted")
    checkout = await workspace.checkout("main", repository.head)
    assert tree(checkout)["src/a.py"] == "a = 1\n"
    assert tree(checkout)["link"] == "src/a.py"
    assert os.access(f"{checkout.path}/run.sh", os.X_OK)
    said = await shell(workspace, checkout, "git status --porcelain; git log --oneline | wc -l; pwd")
    assert said.split("\n") == ["1", str(repository.path)]


async def test_a_checkout_is_given_as_it_was_left_unless_fresh(workspace: GitWorkspace, repository: Repository) -> None:
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
async def test_each_checkout_has_a_git_directory_of_its_own(workspace: GitWorkspace, repository: Repository) -> None:
    base = repository.head
    first = await workspace.checkout("one", base)
    second = await workspace.checkout("two", base)
    plant = "git config core.fsmonitor evil; mkdir -p .git/hooks; echo x > .git/hooks/post-checkout; git tag t"
    await shell(workspace, first, plant)
    for place in (Path(second.path), repository.path, workspace.mirror.path):
        config = place / "config" if place == workspace.mirror.path else place / ".git" / "config"
        assert "evil" not in config.read_text()
    assert "t" not in (await shell(workspace, second, "git tag")).split()


async def test_a_half_made_checkout_is_made_again(workspace: GitWorkspace, repository: Repository) -> None:
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
async def test_a_name_is_free_when_its_holder_is_killed(
    repository: Repository, workspace: GitWorkspace, tmp_path: Path
) -> None:
    with forks.script(KILLED).read_lines(str(repository.path), str(tmp_path / "data")) as (_, printed):
        assert printed.readline() == "taken\n"
        with pytest.raises(Conflict):
            await workspace.checkout("main", repository.head)
        await workspace.checkout("another", repository.head)
    assert (await workspace.checkout("main", repository.head)).base == repository.head


async def test_changes_of_a_fork_come_back_beside_others(workspace: GitWorkspace, repository: Repository) -> None:
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
async def test_a_merge_conflict_keeps_the_parents_side(workspace: GitWorkspace, repository: Repository) -> None:
    parent = await workspace.checkout("main", repository.head)
    fork = await workspace.fork(parent, "child")
    await shell(workspace, fork, "echo 'a = 3' > src/a.py")
    await shell(workspace, parent, "echo 'a = 4' > src/a.py")
    merge = await workspace.merge(fork, parent)
    assert "a = 3" in merge.conflicts["src/a.py"]
    assert tree(parent)["src/a.py"] == "a = 4\n"


@pytest.mark.req("S4")
async def test_what_nobody_may_read_is_merged(workspace: GitWorkspace, repository: Repository) -> None:
    parent = await workspace.checkout("main", repository.head)
    fork = await workspace.fork(parent, "child")
    await shell(workspace, fork, "mkdir shut; echo in > shut/f; echo c > c; chmod 000 shut c src/a.py; echo d > d")
    merge = await workspace.merge(fork, parent)
    assert (set(merge.merged), merge.conflicts) == ({"c", "d", "shut/f"}, {})
    held = tree(parent)
    assert (held["shut/f"], held["c"]) == ("in\n", "c\n")


async def test_only_a_fork_is_merged(workspace: GitWorkspace, repository: Repository) -> None:
    one, two = [await workspace.checkout(name, repository.head) for name in ("one", "two")]
    with pytest.raises(Refused, match="not a fork"):
        await workspace.merge(one, two)


async def test_nothing_is_left_of_a_discarded_checkout(workspace: GitWorkspace, repository: Repository) -> None:
    checkout = await workspace.checkout("main", repository.head)
    host = await workspace.open(checkout, Access.WRITE)
    await host.call("Bash", {"command": "mkdir -p d/e; touch d/e/f; chmod 000 d/e d"})
    await workspace.discard(checkout)
    assert not Path(checkout.path).exists()
    assert (await host.call("LS", {"path": "."})).is_error
    await workspace.discard(checkout)
    assert "d" not in tree(await workspace.checkout("main", repository.head))


async def test_a_path_that_is_no_checkout_is_refused(workspace: GitWorkspace, tmp_path: Path) -> None:
    stranger = Checkout(str(tmp_path / "tree"), "/workspace", (await LocalRepository.open(tmp_path / "repo")).head)
    with pytest.raises(Broken):
        await workspace.discard(stranger)
    with pytest.raises(Broken):
        await workspace.open(stranger, Access.WRITE)


@every_row("name", ("../x", "a/b", "", "A", ".x", "-x", "x" * 65, "a~making", "a\nb"))
def test_a_strange_name_becomes_a_plain_file_name(name: str) -> None:
    safe = safe_name(name)
    assert safe.startswith("x-")
    assert safe.replace("-", "").isalnum()


def work(place: Path) -> None:
    write(src__a_dot_py="a = 2\n", **{"new folder__ünï.txt": "x"})(place)
    (place / "README.md").unlink()
    (place / "to a").symlink_to("src/a.py")
    (place / "src" / "b.py").chmod(0o755)


async def elsewhere(repository: Repository, folder: Path) -> GitWorkspace:
    return GitWorkspace.on(await LocalRepository.open(repository.path), folder)


@pytest.mark.req("L9", "E3")
async def test_kept_work_is_made_again_elsewhere(
    workspace: GitWorkspace, repository: Repository, tmp_path: Path
) -> None:
    first = await begin(workspace, repository, work)
    kept, changed = await workspace.keep(first), await workspace.changed_paths(first)
    other = await elsewhere(repository, tmp_path / "other")
    second = await other.checkout("main", first.base, lambda: kept)
    assert tree(second) == tree(first)
    assert os.access(f"{second.path}/src/b.py", os.X_OK)
    shown = [await shell(place, at, "git status --porcelain") for place, at in ((workspace, first), (other, second))]
    assert shown[0] == shown[1] != ""
    once = await workspace.publish(approved(first.base), first, order("plangate/run-x-00000001"))
    again = await other.publish(approved(first.base), second, order("plangate/run-x-00000002"))
    assert (once.commit, once.paths) == (again.commit, again.paths)
    assert (changed, await other.changed_paths(second)) == (once.paths, once.paths)


@pytest.mark.req("L9")
async def test_unchanged_work_is_kept_as_the_same_bytes(workspace: GitWorkspace, repository: Repository) -> None:
    first = await begin(workspace, repository, work)
    kept = await workspace.keep(first)
    assert await workspace.keep(first) == kept
    (Path(first.path) / "src" / "a.py").write_text("a = 3\n")
    assert await workspace.keep(first) != kept


@pytest.mark.req("L9")
async def test_an_unchanged_tree_is_kept_too(workspace: GitWorkspace, repository: Repository, tmp_path: Path) -> None:
    first = await begin(workspace, repository, lambda _: None)
    kept = await workspace.keep(first)
    second = await (await elsewhere(repository, tmp_path / "other")).checkout("main", first.base, lambda: kept)
    assert kept
    assert tree(second) == tree(first)


@pytest.mark.req("L9")
async def test_what_is_there_counts_more_than_what_was_kept(workspace: GitWorkspace, repository: Repository) -> None:
    first = await begin(workspace, repository, work)

    def asked() -> bytes:
        raise AssertionError("asked for what was kept")

    assert await workspace.checkout("main", first.base, asked) == first


@pytest.mark.req("G1", "L9")
@pytest.mark.parametrize("trick", ("link_upwards", "named_pipe", "huge_file", "repository_inside", "pointer_inside"))
async def test_work_that_is_refused_is_not_kept(trick: str, workspace: GitWorkspace, repository: Repository) -> None:
    spoilt = await begin(workspace, repository, lambda tree: plain_shell(tree, TREE[trick].script))
    assert await workspace.keep(spoilt) == b""


@pytest.mark.req("L9")
async def test_work_out_of_scope_is_kept(workspace: GitWorkspace, repository: Repository, tmp_path: Path) -> None:
    first = await begin(workspace, repository, write(elsewhere="x"))
    kept = await workspace.keep(first)
    second = await (await elsewhere(repository, tmp_path / "other")).checkout("main", first.base, lambda: kept)
    assert tree(second)["elsewhere"] == "x"


def pull_request(repository: Repository, bare: Repository) -> tuple[PullCommits, CommitId]:
    repository.commit(src__a_dot_py="a = 2\n", past="what it was\n")
    parted = repository.commit(past="what it is\n")
    head = repository.commit(src__a_dot_py="a = 3\n", new="new\n")
    repository.git("reset", "-q", "--hard", parted)
    base = repository.commit(README_dot_md="# Later\n")
    repository.git("push", "-q", str(bare.path), "main", f"{head}:refs/pull/7/head")
    bare.git("config", "uploadpack.allowFilter", "true")
    bare.git("config", "uploadpack.allowAnySHA1InWant", "true")
    return PullCommits(base, head), parted


@pytest.mark.req("K6", "G2")
@pytest.mark.parametrize("partial", (False, True))
async def test_a_pull_request_of_a_fork_can_be_diffed(
    site: Site, bare: Repository, repository: Repository, tmp_path: Path, *, partial: bool
) -> None:
    pull, parted = pull_request(repository, bare)
    source = RemoteRepository(site.url(NAME), lambda: TOKEN, partial=partial)
    workspace = GitWorkspace.on(source, tmp_path / "data")
    checkout = await workspace.checkout("main", pull.base, pull=pull)
    assert checkout.refs == (("plangate/base", parted), ("plangate/head", pull.head))
    for dots in ("..", "..."):
        said = await shell(workspace, checkout, f"git diff --stat plangate/base{dots}plangate/head | cat")
        assert [line.split()[0] for line in said.split("\n")[:2]] == ["new", "src/a.py"]
    again = await workspace.checkout("main", pull.base)
    assert again.refs == checkout.refs
    fork = await workspace.fork(checkout, "fork")
    assert await shell(workspace, fork, "git rev-parse plangate/base") == parted
    assert await workspace.changed_paths(checkout) == ()
    await workspace.close()


@pytest.mark.req("K6", "G2")
async def test_a_planner_may_diff(workspace: GitWorkspace, repository: Repository) -> None:
    base = repository.head
    head = repository.commit(new="x\n")
    checkout = await workspace.checkout("main", head, pull=PullCommits(base, head))
    host = await workspace.open(checkout, Access.READ)
    said = await host.call("Bash", {"command": "git diff --name-only plangate/base...HEAD"})
    await host.close()
    assert (said.text.strip(), said.is_error) == ("new", False)


@pytest.mark.req("K6", "G2")
async def test_commits_that_are_not_to_be_had_are_left_out(workspace: GitWorkspace, repository: Repository) -> None:
    head, nowhere = repository.head, CommitId("d" * 40)
    repository.git("checkout", "-q", "--orphan", "other")
    unrelated = repository.commit(new="x\n")
    for name, pull, refs in (
        ("a", PullCommits(head, nowhere), ()),
        ("b", PullCommits(nowhere, head), (("plangate/head", head),)),
        ("c", PullCommits(unrelated, head), (("plangate/head", head),)),
    ):
        checkout = await workspace.checkout(name, head, pull=pull)
        assert (checkout.refs, Path(checkout.path, "README.md").exists()) == (refs, True)
