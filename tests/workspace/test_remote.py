"""A repository on a server: the same workspace over real HTTP, with a token that goes nowhere else."""

import base64
import subprocess
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from bot.core import errors
from bot.core.errors import Conflict, Misconfigured, Refused, Transient
from bot.core.names import CommitId
from bot.ports import Access
from bot.testing.github.bare import Bare
from bot.workspace.mirror import Mirror
from bot.workspace.remote import RemoteRepository, Route
from bot.workspace.workspace import GitWorkspace
from tests.contracts.smart_http import Site, served
from tests.rows import every_row
from tests.workspace.ground import NAME, TOKEN, Repository, approved, begin, order, publish, write

KEY = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6"
"""What a secret looks like."""


@pytest.fixture
def source(site: Site) -> RemoteRepository:
    return RemoteRepository(site.url(NAME), lambda: TOKEN)


@pytest.fixture
def mirror(source: RemoteRepository, tmp_path: Path) -> Mirror:
    return Mirror.of(source, tmp_path / "data" / "mirrors")


@pytest.fixture
def remote(source: RemoteRepository, tmp_path: Path) -> GitWorkspace:
    return GitWorkspace.on(source, tmp_path / "data")


def refuse_pushes(bare: Repository, said: str) -> None:
    hook = bare.path / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    hook.chmod(0o755)


async def test_work_goes_from_branch_to_branch_over_http(remote: GitWorkspace, bare: Repository) -> None:
    head = await remote.mirror.head("main")
    checkout = await remote.checkout("main", head)
    assert checkout.shown_as == "/workspace/name"
    host = await remote.open(checkout, Access.WRITE)
    await host.call("Bash", {"command": "echo x > new"})
    published = await remote.publish(approved(head), checkout, order())
    assert published == await remote.publish(approved(head), checkout, order())
    assert bare.git("show", f"{order().branch}:new") == "x"
    assert bare.git("rev-parse", f"{published.commit}^") == head == bare.git("rev-parse", "main")


async def test_a_branch_that_moved_is_read_anew(mirror: Mirror, repository: Repository, bare: Repository) -> None:
    first = await mirror.head("main")
    second = repository.commit(src__a_dot_py="a = 2\n")
    repository.git("commit", "-q", "--amend", "-m", "rewritten")
    repository.git("push", "-q", "--force", str(bare.path), "main")
    third = await mirror.head("main")
    assert (first, third) == (CommitId(repository.git("rev-parse", "HEAD^")), repository.head)
    assert second != third
    assert await mirror.changed_paths(first, third) == ("src/a.py",)
    bare.path.rename(bare.path.with_name("gone"))
    await mirror.ensure(third)


@pytest.mark.req("G2")
async def test_the_token_is_in_no_file_or_address(
    remote: GitWorkspace, repository: Repository, site: Site, tmp_path: Path
) -> None:
    site.looks_at_processes = True
    await publish(remote, repository, write(new="x"))
    assert {token for _, token in site.seen} == {TOKEN}
    assert site.argv_with_token == []
    assert TOKEN not in "".join(path for path, _ in site.seen)
    sent = base64.b64encode(f"x-access-token:{TOKEN}".encode())
    kept = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert kept
    assert TOKEN.encode() not in kept
    assert sent not in kept


@pytest.mark.req("G2")
def test_argument_with_a_token_is_found(site: Site) -> None:
    """The probe of the test above sees a token that is in an argument.

    It has a token of its own, because the probe reads the arguments of all processes, so also of tests beside it.
    """
    site.looks_at_processes, token = True, "in-an-argument"
    site.tokens.add(token)
    address = site.url(NAME).replace("//", f"//x-access-token:{token}@")
    subprocess.run(["git", "ls-remote", address], check=True, capture_output=True)
    assert any(token in line for line in site.argv_with_token)


async def test_the_token_is_asked_for_each_time(site: Site, bare: Repository, tmp_path: Path) -> None:
    site.tokens |= {f"t{number}" for number in range(9)}
    numbers = count()
    remote = GitWorkspace.on(RemoteRepository(site.url(NAME), lambda: f"t{next(numbers)}"), tmp_path / "data")
    await publish(remote, bare, write(new="x"))
    assert list(dict.fromkeys(token for _, token in site.seen)) == ["t0", "t1"]


@pytest.mark.req("G2")
def test_the_token_is_for_this_repository_alone(source: RemoteRepository, site: Site) -> None:
    environment = source.environment() | {"PATH": "/usr/bin:/bin", "GIT_TERMINAL_PROMPT": "0"}

    def ask(address: str) -> bytes:
        ran = subprocess.run(["git", "ls-remote", address], env=environment, capture_output=True, check=False)
        return ran.stdout + ran.stderr

    assert b"could not read Username" in ask(site.url("owner/other.git"))
    assert {token for _, token in site.seen} == {""}
    assert b"not allowed" in ask(f"file://{site.root}/{NAME}")
    assert b"refs/heads/main" in ask(source.location)


@pytest.mark.req("G2")
async def test_a_redirect_is_not_followed(site: Site, repository: Repository, tmp_path: Path) -> None:
    site.moved["old"] = "owner"
    moved = RemoteRepository(site.url("old/name.git"), lambda: TOKEN)
    with pytest.raises(Misconfigured, match="has moved"):
        await Mirror.of(moved, tmp_path / "mirrors").ensure(repository.head)
    assert all(path.startswith("/old/") for path, _ in site.seen)


@pytest.mark.req("G2")
async def test_git_goes_through_the_operators_proxy(site: Site, bare: Repository, tmp_path: Path) -> None:
    route = Route(proxy=site.url("").rstrip("/"))
    source = RemoteRepository(f"http://localhost:1/{NAME}", lambda: TOKEN, route=route)
    assert await Mirror.of(source, tmp_path / "mirrors").head("main") == bare.head
    assert {path.partition("/owner")[0] for path, _ in site.seen} == {"http://localhost:1"}


def test_git_trusts_the_operators_authorities() -> None:
    named = RemoteRepository("https://github.com/o/n.git", lambda: TOKEN, route=Route(authorities="/etc/ca.pem"))
    assert named.settings()["http.sslCAInfo"] == "/etc/ca.pem"
    assert not {"http.sslCAInfo", "http.proxy"} & set(RemoteRepository(named.url, lambda: TOKEN).settings())


async def test_a_rejected_token_is_tried_again_and_not_shown(
    site: Site, repository: Repository, tmp_path: Path
) -> None:
    source = RemoteRepository(site.url(NAME), lambda: "ghs_wrong")
    with pytest.raises(Transient, match="rejects the token") as caught:
        await Mirror.of(source, tmp_path / "mirrors").ensure(repository.head)
    assert "ghs_wrong" not in str(caught.value)


@pytest.mark.parametrize("token", ("", "a b", "a\nX-Evil: 1", "ä"))
def test_what_is_no_token_is_not_sent(token: str) -> None:
    with pytest.raises(Misconfigured, match=r"empty or malformed .*: set a token that may read and push"):
        RemoteRepository("https://github.com/o/n.git", lambda: token).settings()


BAD_URLS = (
    "http://github.com/o/n.git",
    "https://user:secret@github.com/o/n.git",
    "https://github.com",
    "https://github.com/o/n.git?x=1",
    "https://github.com/o/n.git#x",
    "https://github.com/o/n\n.git",
    "ssh://git@github.com/o/n.git",
    "ext::sh -c x",
    "--upload-pack=x",
    "/srv/repo",
    "http://127.0.0.1.example.org/o/n.git",
)


@pytest.mark.req("G2")
@every_row("url", BAD_URLS)
def test_only_a_plain_https_address_is_taken(url: str) -> None:
    with pytest.raises(Misconfigured, match="not the address of a repository"):
        RemoteRepository(url, lambda: TOKEN)


@pytest.mark.req("G3")
async def test_work_follows_up_on_any_branch(remote: GitWorkspace, repository: Repository, bare: Repository) -> None:
    first = await publish(remote, repository, write(new="x"))
    branch = f"feature/AB#1992-(x)+`ü`&{KEY}"
    bare.git("branch", branch, first.commit)
    checkout = await remote.checkout("again", await remote.mirror.head(branch))
    (Path(checkout.path) / "more").write_text("y")
    onto = replace(order(branch), expected=first.commit)
    second = await remote.publish(approved(first.commit), checkout, onto)
    assert bare.git("log", "--format=%H", "-2", branch).split() == [second.commit, first.commit]
    (Path(checkout.path) / "more").write_text("z")
    with pytest.raises(Conflict):
        await remote.publish(approved(first.commit), checkout, onto)
    assert bare.git("rev-parse", branch) == second.commit


@pytest.mark.parametrize(
    "said",
    (
        "GH006: Protected branch update failed",
        "refusing to allow a GitHub App to create or update workflow `.github/workflows/ci.yml`",
    ),
)
async def test_a_refused_push_has_the_servers_words(
    said: str, remote: GitWorkspace, repository: Repository, bare: Repository
) -> None:
    refuse_pushes(bare, said)
    with pytest.raises(Refused) as caught:
        await publish(remote, repository, write(new="x"))
    assert said in str(caught.value)


PUSH_PROTECTION = """error: GH013: Repository rule violations found for refs/heads/plangate/1-fix.

- GITHUB PUSH PROTECTION
  ——————————————————————————————
    - Push cannot contain secrets
      —— Stripe API Key ——————————
        locations:
          - commit: 8f8c7
            path: config.py:3
"""


@pytest.mark.req("PR3", "X3")
async def test_push_protection_tells_of_a_secret(
    remote: GitWorkspace, repository: Repository, bare: Repository
) -> None:
    refuse_pushes(bare, PUSH_PROTECTION + "x" * 5_000)
    with pytest.raises(Refused) as caught:
        await publish(remote, repository, write(new="x"))
    what = caught.value.what
    assert what.startswith("GitHub's push protection found a secret: GH013: Repository rule violations found for")
    assert "Push cannot contain secrets Stripe API Key locations: - commit: 8f8c7 path: config.py:3 xxx" in what
    assert len(what) < 700
    assert "revise" in caught.value.fix


async def test_another_rule_is_misconfigured(remote: GitWorkspace, repository: Repository, bare: Repository) -> None:
    refuse_pushes(bare, "error: GH013: Repository rule violations found.\n- Commits must have verified signatures.")
    with pytest.raises(Misconfigured, match=r"rules refuse this push: GH013: .* Commits must have verified signatures"):
        await publish(remote, repository, write(new="x"))


async def test_a_commit_that_the_server_lacks_is_named(mirror: Mirror) -> None:
    with pytest.raises(Misconfigured, match=r"has no commit 0+1"):
        await mirror.ensure(CommitId("0" * 39 + "1"))


async def test_a_branch_that_the_server_lacks_is_named(mirror: Mirror) -> None:
    with pytest.raises(Misconfigured, match="has no commit refs/heads/missing"):
        await mirror.head("missing")


@pytest.mark.req("G1")
@pytest.mark.parametrize("branch", ("", "a..b", "a b", "x:refs/heads/y", "a*", "a\nb", "a\0b"))
async def test_what_is_no_branch_name_is_not_handed_to_git(branch: str, mirror: Mirror) -> None:
    with pytest.raises(Refused, match="not a branch name"):
        await mirror.head(branch)


async def test_a_repository_that_the_server_hides_is_named(site: Site, repository: Repository, tmp_path: Path) -> None:
    source = RemoteRepository(site.url("owner/missing.git"), lambda: TOKEN)
    with pytest.raises(Misconfigured, match="no such repository"):
        await Mirror.of(source, tmp_path / "mirrors").ensure(repository.head)


class Waiting:
    """Waits for nothing, and notes how long it should have."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


async def test_a_server_that_is_down_is_asked_again_later(bare: Repository, tmp_path: Path) -> None:
    with served(tmp_path / "site", TOKEN) as site:
        source = RemoteRepository(site.url(NAME), lambda: TOKEN, wait=(waiting := Waiting()))
    with pytest.raises(Transient):
        await Mirror.of(source, tmp_path / "mirrors").head("main")
    assert waiting.seconds == [*errors.PAUSES]


async def test_a_fetch_that_failed_for_a_moment_is_made_again(site: Site, bare: Repository, tmp_path: Path) -> None:
    source = RemoteRepository(site.url(NAME), lambda: TOKEN, wait=(waiting := Waiting()))
    site.broken = 1
    assert await Mirror.of(source, tmp_path / "mirrors").head("main") == bare.head
    assert waiting.seconds == [errors.PAUSES[0]]


@pytest.mark.req("E2")
async def test_pull_requests_are_not_listed(
    remote: GitWorkspace, repository: Repository, bare: Repository, site: Site
) -> None:
    pulls = Bare(bare.path)
    pulls.pack_refs(dict.fromkeys((f"refs/pull/{number}/head" for number in range(30_000)), bare.head))
    pulls.run("config", "receive.hideRefs", "refs/pull")  # as GitHub does
    await remote.mirror.head("main")
    await publish(remote, repository, write(new="x"))
    assert site.sent < 10_000


async def test_a_closed_workspace_lets_others_go_on(
    remote: GitWorkspace, source: RemoteRepository, repository: Repository, tmp_path: Path
) -> None:
    other = GitWorkspace.on(source, tmp_path / "data")
    checkout = await begin(remote, repository, write(new="x"))
    host = await remote.open(checkout, Access.WRITE)
    with pytest.raises(Conflict):
        await other.checkout("main", repository.head)
    await remote.close()
    assert (await host.call("LS", {"path": "."})).is_error
    found = await other.checkout("main", repository.head)
    assert (Path(found.path) / "new").read_text() == "x"
