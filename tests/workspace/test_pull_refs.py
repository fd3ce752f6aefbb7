"""The commits of a pull request in a checkout: git commands name them without a network (K6, G2)."""

from pathlib import Path

import pytest

from bot.core.names import CommitId
from bot.core.work import PullCommits
from bot.ports import Access
from bot.workspace.remote import RemoteRepository
from bot.workspace.workspace import GitWorkspace
from tests.contracts.smart_http import Site
from tests.workspace.ground import NAME, TOKEN, Repository
from tests.workspace.test_checkout import shell

pytestmark = pytest.mark.req("K6", "G2")


def pull_request(repository: Repository, bare: Repository) -> tuple[PullCommits, CommitId]:
    """Make a pull request whose head is on no branch, as of a fork; the base branch has moved on since."""
    repository.commit(src__a_dot_py="a = 2\n", past="what it was\n")
    parted = repository.commit(past="what it is\n")
    head = repository.commit(src__a_dot_py="a = 3\n", new="new\n")
    repository.git("reset", "-q", "--hard", parted)
    base = repository.commit(README_dot_md="# Later\n")
    repository.git("push", "-q", str(bare.path), "main", f"{head}:refs/pull/7/head")
    bare.git("config", "uploadpack.allowFilter", "true")
    bare.git("config", "uploadpack.allowAnySHA1InWant", "true")
    return PullCommits(base, head), parted


@pytest.mark.parametrize("partial", (False, True))
async def test_diff_of_a_fork(
    site: Site, bare: Repository, repository: Repository, tmp_path: Path, *, partial: bool
) -> None:
    """The diff since the merge base is right while another commit is checked out, also with a partial mirror."""
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


async def test_planner_may_diff(workspace: GitWorkspace, repository: Repository) -> None:
    """In the read-only sandbox of a planner too, with git's safe settings; HEAD is one of the commits."""
    base = repository.head
    head = repository.commit(new="x\n")
    checkout = await workspace.checkout("main", head, pull=PullCommits(base, head))
    host = await workspace.open(checkout, Access.READ)
    said = await host.call("Bash", {"command": "git diff --name-only plangate/base...HEAD"})
    await host.close()
    assert (said.text.strip(), said.is_error) == ("new", False)


async def test_commits_that_are_not_to_be_had(workspace: GitWorkspace, repository: Repository) -> None:
    """A head or base that cannot be fetched, or that has no common history, is left out, and the work goes on."""
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
