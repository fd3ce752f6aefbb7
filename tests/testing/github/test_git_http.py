"""git's smart HTTP with real git: clones, partial clones, pushes, and pushes that are refused."""

import subprocess
from pathlib import Path

import pytest

from bot.testing.github.credentials import installation_token
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
