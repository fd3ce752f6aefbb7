"""Smart HTTP of git with real git: clones, pushes, refusals; and refs are told byte for byte as git tells them."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.testing.github.bare import Bare, bare_environment
from bot.testing.github.credentials import installation_token
from bot.testing.github.git_http import answer_listing, refs_before_push, run_service
from tests.rows import every_row
from tests.testing.github.ground import NAME, Ground


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    person = ("-c", "user.name=Test", "-c", "user.email=test@example.com")
    return subprocess.run(["git", *person, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def url(ground: Ground, token: str) -> str:
    return ground.github.clone_url(NAME).replace("http://", f"http://x-access-token:{token}@")


def cloned(ground: Ground, folder: Path, token: str, *flags: str) -> Path:
    done = git(folder, "clone", "--quiet", *flags, url(ground, token), "work")
    assert done.returncode == 0, done.stderr
    return folder / "work"


def pushed(work: Path, path: str, ref: str = "refs/heads/topic") -> subprocess.CompletedProcess[str]:
    (work / path).parent.mkdir(parents=True, exist_ok=True)
    (work / path).write_text("x\n")
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--message=Change")
    return git(work, "push", "--quiet", "origin", f"HEAD:{ref}")


def test_a_push_is_seen_by_the_pull_request(ground: Ground, tmp_path: Path) -> None:
    work = cloned(ground, tmp_path, ground.token)
    assert pushed(work, "one.txt").returncode == 0
    ground.github.world.person("bob").open_pull(NAME, "New", head="topic")
    assert pushed(work, "two.txt").returncode == 0
    head = git(work, "rev-parse", "HEAD").stdout.strip()
    assert ground.ask("GET", f"/repos/{NAME}/pulls/1").json["head"]["sha"] == head


def test_a_partial_clone_fetches_blobs_later(ground: Ground, tmp_path: Path) -> None:
    work = cloned(ground, tmp_path, ground.token, "--filter=blob:none", "--no-checkout")
    missing = git(work, "rev-list", "--objects", "--all", "--missing=print").stdout
    assert missing.count("?") == 2
    assert git(work, "show", "HEAD:README.md").stdout == "# Shop\n"


@pytest.mark.parametrize(("login", "works"), (("bob", True), ("dave", False), ("stranger", False)))
def test_a_push_needs_write(ground: Ground, tmp_path: Path, login: str, works: bool) -> None:
    work = cloned(ground, tmp_path, ground.token)
    git(work, "remote", "set-url", "origin", url(ground, ground.pat(login)))
    assert (pushed(work, "one.txt").returncode == 0) is works
    assert ("refs/heads/topic" in ground.github.world.bare(ground.repository).refs()) is works


def test_a_wrong_or_expired_token_is_refused(ground: Ground, tmp_path: Path) -> None:
    assert git(tmp_path, "clone", url(ground, "ghp_nonsense"), "one").returncode != 0
    ground.clock.advance(3_600)
    assert git(tmp_path, "clone", url(ground, ground.token), "two").returncode != 0


def test_workflow_files_need_their_own_permission(ground: Ground, tmp_path: Path) -> None:
    work = cloned(ground, tmp_path, ground.token)
    refused = pushed(work, ".github/workflows/ci.yml")
    assert refused.returncode != 0
    assert "without `workflows` permission" in refused.stderr
    git(work, "remote", "set-url", "origin", url(ground, ground.pat("bob")))
    assert git(work, "push", "origin", "HEAD:refs/heads/topic").returncode == 0


def test_a_protected_branch_takes_pushes_of_admins_only(ground: Ground, tmp_path: Path) -> None:
    ground.github.world.change_repository(NAME, protected=frozenset({"main"}))
    work = cloned(ground, tmp_path, ground.token)
    assert "GH006" in pushed(work, "one.txt", "refs/heads/main").stderr


def test_a_push_is_searched_for_secrets(ground: Ground, tmp_path: Path) -> None:
    work = cloned(ground, tmp_path, ground.token)
    ground.github.world.change_repository(NAME, push_protection=True)
    assert pushed(work, "one.txt").returncode == 0
    (work / "two.txt").write_text(f"a\nghp_{'a1' * 18}\n")
    git(work, "add", "two.txt")
    git(work, "commit", "-m", "two")
    refused = git(work, "push", "origin", "HEAD:refs/heads/topic")
    assert "remote: error: GH013: Repository rule violations found for refs/heads/topic." in refused.stderr
    assert "path: two.txt:2" in refused.stderr
    ground.github.world.change_repository(NAME, push_protection=False)
    assert git(work, "push", "origin", "HEAD:refs/heads/topic").returncode == 0


def test_a_rule_may_want_signatures(ground: Ground, tmp_path: Path) -> None:
    ground.github.world.change_repository(NAME, signed=True)
    said = pushed(cloned(ground, tmp_path, ground.token), "one.txt", "refs/heads/topic").stderr
    assert "GH013: Repository rule violations found for refs/heads/topic." in said
    assert "- Commits must have verified signatures." in said


def test_a_token_without_contents_reads_nothing(ground: Ground, tmp_path: Path) -> None:
    token = installation_token(ground.github.world, ground.installation, permissions={"issues": "write"}).value
    assert git(tmp_path, "clone", url(ground, token), "one").returncode != 0


def test_hidden_refs_are_pushed_and_fetched_unannounced(ground: Ground, tmp_path: Path) -> None:
    heard: list[str] = []
    ground.github.world.listeners.append(lambda event: heard.append(event.name))
    work = cloned(ground, tmp_path, ground.token)
    assert pushed(work, "one.txt", "refs/plangate/threads/1").returncode == 0
    assert "refs/plangate/threads/1" in git(work, "ls-remote", "origin").stdout
    assert heard == []


WHO = {f"GIT_{role}_{key}": "ada" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
ALL = ("peel", "symrefs", "unborn")
CLIENT = ("agent=git/2.39.5", "object-format=sha1")


def nothing(bare: Bare) -> None:
    """No commit yet."""


def branches(bare: Bare) -> str:
    """A few branches, by names that sort by their bytes, with a commit in a file of its own and a tree in another."""
    tree = bare.run("hash-object", "-t", "tree", "-w", "--stdin").decode().strip()
    commit = bare.run("commit-tree", tree, "-m", "one", environment=WHO).decode().strip()
    for name in ("heads/main", "heads/a/b", "heads/a-b", "heads/ä", "pull/1/head", "pulls", "plangate/threads/1"):
        bare.move(f"refs/{name}", commit)
    bare.move("refs/odd/tree", tree)
    return commit


def tags(bare: Bare) -> None:
    """A light tag, one with a text, and a tag of that tag."""
    commit = branches(bare)
    bare.run("tag", "light", commit)
    bare.run("tag", "-m", "text", "told", commit, environment=WHO)
    bare.run("tag", "-m", "text", "twice", "told", environment=WHO)


def packed(bare: Bare) -> None:
    """All of that in packs, and a branch that moved since."""
    tags(bare)
    bare.run("repack", "-adq")
    bare.run("pack-refs", "--all")
    bare.move("refs/heads/a-b", bare.run("commit-tree", "main^{tree}", "-m", "two", environment=WHO).decode().strip())
    bare.move("refs/heads/a/b", "0" * 40)


def broken(bare: Bare) -> None:
    """Refs to objects that are not there."""
    branches(bare)
    for name in ("heads/lost", "tags/lost"):
        (bare.folder / "refs" / name).parent.mkdir(exist_ok=True)
        (bare.folder / "refs" / name).write_text(f"{'1' * 40}\n")


STATES = (nothing, branches, tags, packed, broken)


def lines(*texts: str) -> bytes:
    """Return lines as packets; those that begin with a digit are packets already."""
    return b"".join(
        text.encode() if text[0].isdigit() else b"%04x%b\n" % (len(text.encode()) + 5, text.encode()) for text in texts
    )


def request(*arguments: str) -> bytes:
    return lines("command=ls-refs", *CLIENT, "0001", *arguments, "0000")


REQUESTS = (
    request(), request(*ALL), request("peel"), request("symrefs"), request(*ALL, "ref-prefix HEAD"),
    request(*ALL, "ref-prefix refs/heads/", "ref-prefix refs/tags/t"),
    request("peel", "ref-prefix refs/pull", "ref-prefix refs/none"), lines("command=ls-refs", "0000"),
)  # fmt: skip
OTHERS = (
    b"", b"0000", b"zzzz", lines("command=fetch", "0001", "0000"), request("everything"),
    lines("command=ls-refs", "object-format=sha256", "0001", "0000"), lines("command=ls-refs", "0001", "0001", "0000"),
    lines("command=ls-refs", "0001", "peel"), request() + request(),
)  # fmt: skip


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    made = Bare(tmp_path / "it.git")
    made.create("main")
    return made


@pytest.mark.parametrize("state", STATES)
def test_refs_are_told_as_git_would_tell_them(bare: Bare, state: Callable[[Bare], object]) -> None:
    state(bare)
    asked = {**bare_environment(), "GIT_PROTOCOL": "version=2"}
    for request in REQUESTS:
        told = answer_listing(bare, request)
        assert told == run_service(bare, "git-upload-pack", "--stateless-rpc", asked, body=request), request
    for protocol in ("", "version=2"):
        asked["GIT_PROTOCOL"] = protocol
        assert refs_before_push(bare) == run_service(bare, "git-receive-pack", "--http-backend-info-refs", asked)


@every_row("request", OTHERS)
def test_other_requests_are_left_to_git(bare: Bare, request: bytes) -> None:
    assert answer_listing(bare, request) is None


def test_many_objects_in_packs_are_left_to_git(bare: Bare) -> None:
    branches(bare)
    assert answer_listing(bare, request("peel")) is not None
    bare.pack_refs({f"refs/tags/{number}": f"{number:040x}" for number in range(9)})
    assert answer_listing(bare, request("peel")) is None


@pytest.mark.parametrize("content", ("", "ref: refs/heads/main\n"))
def test_a_ref_without_an_id_is_left_to_git(bare: Bare, content: str) -> None:
    branches(bare)
    (bare.folder / "refs/heads/odd").write_text(content)
    assert answer_listing(bare, request()) is None
    assert refs_before_push(bare) is None
