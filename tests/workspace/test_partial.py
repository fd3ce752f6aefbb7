"""A mirror of a large repository: all of its history, and contents of the commits alone that are worked on (G2)."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.core.errors import Misconfigured
from bot.core.names import CommitId
from bot.ports import Access
from bot.workspace.local_repository import LocalRepository
from bot.workspace.mirror import Mirror
from bot.workspace.remote import RemoteRepository
from bot.workspace.workspace import GitWorkspace
from tests import forks
from tests.contracts.smart_http import Site
from tests.workspace.ground import NAME, TOKEN, Repository, approved, order, publish, write
from tests.workspace.test_upkeep import DAMAGES

PAST, NOW = "what it was\n", "what it is\n"

pytestmark = pytest.mark.req("G2")


@pytest.fixture
def repository(repository: Repository) -> Repository:
    repository.commit(changing=PAST)
    repository.commit(changing=NOW)
    return repository


@pytest.fixture
def bare(bare: Repository, repository: Repository) -> Repository:
    repository.git("push", "-q", str(bare.path), "main")
    bare.git("config", "uploadpack.allowFilter", "true")
    return bare


@pytest.fixture
def source(site: Site) -> RemoteRepository:
    return RemoteRepository(site.url(NAME), lambda: TOKEN, partial=True)


@pytest.fixture
def remote(source: RemoteRepository, tmp_path: Path) -> GitWorkspace:
    return GitWorkspace.on(source, tmp_path / "data")


def git(mirror: Mirror, *arguments: str) -> int:
    environment = {"GIT_NO_LAZY_FETCH": "1", "PATH": os.environ["PATH"]}
    return subprocess.run(
        ["git", *arguments], cwd=mirror.path, env=environment, capture_output=True, check=False
    ).returncode


def holds(mirror: Mirror, revision: str) -> bool:
    return git(mirror, "cat-file", "-e", revision) == 0


async def test_only_contents_that_are_used_are_fetched(remote: GitWorkspace, bare: Repository) -> None:
    await remote.checkout("main", bare.head)
    assert holds(remote.mirror, f"{bare.head}:changing")
    assert holds(remote.mirror, f"{bare.head}~1")
    assert not holds(remote.mirror, f"{bare.head}~1:changing")


@pytest.mark.long
async def test_contents_of_a_past_commit_are_fetched_for_its_checkout(remote: GitWorkspace, bare: Repository) -> None:
    await remote.checkout("now", bare.head)
    then = await remote.checkout("then", CommitId(bare.git("rev-parse", "HEAD~1")))
    assert (Path(then.path) / "changing").read_text() == PAST


@pytest.mark.long
async def test_a_known_commit_needs_no_server(remote: GitWorkspace, site: Site, bare: Repository) -> None:
    await remote.checkout("first", bare.head)
    seen = len(site.seen)
    again = await remote.checkout("second", bare.head)
    assert (Path(again.path) / "changing").read_text() == NOW
    assert len(site.seen) == seen


async def test_a_sandbox_is_told_what_contents_are_missing(remote: GitWorkspace, site: Site, bare: Repository) -> None:
    host = await remote.open(await remote.checkout("main", bare.head), Access.WRITE)
    seen = len(site.seen)
    log = await host.call("Bash", {"command": "git log --oneline | wc -l; git diff --stat; git status --short"})
    assert log.text.strip() == bare.git("rev-list", "--count", "HEAD")
    missing = await host.call("Bash", {"command": "git log -p"})
    assert "lazy fetching disabled" in missing.text
    assert missing.details["exit_code"] != 0
    await host.call("Bash", {"command": "GIT_NO_LAZY_FETCH=0 git log -p; git fetch"})
    assert len(site.seen) == seen
    assert not holds(remote.mirror, f"{bare.head}~1:changing")


@pytest.mark.long
async def test_work_is_pushed_from_a_mirror_without_the_past(remote: GitWorkspace, bare: Repository) -> None:
    published = await publish(remote, bare, write(changing="what it will be\n", new="x"))
    assert bare.git("show", f"{published.branch}:changing") == "what it will be"
    assert bare.git("rev-parse", f"{published.commit}^") == bare.head


async def test_work_is_published_though_the_branch_moved(
    remote: GitWorkspace, bare: Repository, tmp_path: Path
) -> None:
    base = bare.head
    checkout = await remote.checkout("main", base)
    write(new="x")(Path(checkout.path))
    bare.git("worktree", "add", "-q", "--detach", str(tmp_path / "elsewhere"))
    later = Repository(tmp_path / "elsewhere").commit(later="x")
    bare.git("update-ref", "refs/heads/main", later)
    published = await remote.publish(approved(base), checkout, order())
    assert bare.git("rev-parse", f"{published.commit}^") == base


@pytest.mark.long
async def test_kept_work_is_laid_over_another_partial_checkout(
    remote: GitWorkspace, bare: Repository, source: RemoteRepository, tmp_path: Path
) -> None:
    checkout = await remote.checkout("main", bare.head)
    write(changing="half done\n")(Path(checkout.path))
    kept = await remote.keep(checkout)
    other = GitWorkspace.on(source, tmp_path / "other")
    again = await other.checkout("main", bare.head, lambda: kept)
    assert (Path(again.path) / "changing").read_text() == "half done\n"


@pytest.mark.long
async def test_a_server_without_filters_sends_everything(remote: GitWorkspace, bare: Repository) -> None:
    bare.git("config", "uploadpack.allowFilter", "false")
    published = await publish(remote, bare, write(new="x"))
    assert bare.git("show", f"{published.branch}:new") == "x"


@pytest.mark.soak
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_a_partial_mirror_heals(damage: Callable[[Path], None], remote: GitWorkspace, bare: Repository) -> None:
    await remote.checkout("before", bare.head)
    damage(remote.mirror.path)
    again = await remote.checkout("again", bare.head)
    assert (Path(again.path) / "changing").read_text() == NOW


KILLED = """
import asyncio, sys
from pathlib import Path
from bot.workspace.remote import RemoteRepository
from bot.workspace.workspace import GitWorkspace

url, token, data, commit = sys.argv[1:]
source = RemoteRepository(url, lambda: token, partial=True)
asyncio.run(GitWorkspace.on(source, Path(data)).checkout("main", commit))
"""


async def test_a_killed_fetch_does_not_count(
    remote: GitWorkspace, site: Site, bare: Repository, tmp_path: Path
) -> None:
    content = bare.git("rev-parse", "HEAD:changing").encode()
    program = forks.script(KILLED).read_lines(site.url(NAME), TOKEN, str(tmp_path / "data"), bare.head)
    with program as (other, _):
        site.heard = lambda body: other.kill() if b"want " + content in body else None
        assert other.wait() == -signal.SIGKILL
    assert holds(remote.mirror, f"{bare.head}^{{tree}}")
    assert not (remote.mirror.path / "refs" / "plangate" / "commits").exists()
    found = await remote.checkout("main", bare.head)
    assert (Path(found.path) / "changing").read_text() == NOW


@pytest.mark.long
async def test_many_processes_get_it_whole(source: RemoteRepository, bare: Repository, tmp_path: Path) -> None:
    workspaces = [GitWorkspace.on(source, tmp_path / "data") for _ in range(4)]
    names = enumerate(workspaces)
    trees = await asyncio.gather(*(each.checkout(f"c{number}", bare.head) for number, each in names))
    assert [(Path(tree.path) / "changing").read_text() for tree in trees] == [NOW] * 4


@pytest.mark.long
async def test_a_partial_mirror_is_packed_without_fetching(remote: GitWorkspace, bare: Repository) -> None:
    await remote.checkout("before", bare.head)
    assert git(remote.mirror, "gc", "-q", "--prune=now") == 0
    assert not holds(remote.mirror, f"{bare.head}~1:changing")
    again = await remote.checkout("again", bare.head)
    assert (Path(again.path) / "changing").read_text() == NOW


async def test_a_partial_clone_of_a_person_can_be_worked_on(bare: Repository, tmp_path: Path) -> None:
    address = f"file://{bare.path}"
    bare.git("clone", "-q", "--filter=blob:none", address, str(tmp_path / "clone"))
    clone = Repository(tmp_path / "clone")
    workspace = GitWorkspace.on(await LocalRepository.open(clone.path), tmp_path / "data")
    published = await publish(workspace, clone, write(new="x"))
    assert clone.git("show", f"{published.branch}:new") == "x"


@pytest.mark.long
async def test_a_clone_that_lacks_files_is_refused_with_the_cure(bare: Repository, tmp_path: Path) -> None:
    address = f"file://{bare.path}"
    bare.git("clone", "-q", "--filter=blob:none", "--sparse", address, str(tmp_path / "clone"))
    clone = Repository(tmp_path / "clone")
    workspace = GitWorkspace.on(await LocalRepository.open(clone.path), tmp_path / "data")
    with pytest.raises(Misconfigured, match="git sparse-checkout disable"):
        await workspace.checkout("main", clone.head)
    clone.git("sparse-checkout", "disable")
    assert Path((await workspace.checkout("main", clone.head)).path, "src", "b.py").exists()
