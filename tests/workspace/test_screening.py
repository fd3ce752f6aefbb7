"""A commit that adds a secret is stopped and says so; what is no part of the work is not judged."""

import base64
from pathlib import Path

import pytest

from bot.core.errors import SecretAdded
from bot.core.secrets.redaction import Redactor
from bot.workspace.local_repository import LocalRepository
from bot.workspace.publish import AT_ONCE, Publishing, Screen
from bot.workspace.workspace import GitWorkspace
from tests.workspace.ground import Repository, Work, approved, begin, order, publish, write

KEY = "sk-ant-api03-" + "Zx9Qw7Lm3Tk5Vb1N" * 5
UNKNOWN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6"
SCREEN = Screen(Redactor(((KEY, "model key"),)), examples=("tests/data/**",))


@pytest.fixture
async def workspace(repository: Repository, tmp_path: Path) -> GitWorkspace:
    return GitWorkspace.on(
        await LocalRepository.open(repository.path), tmp_path / "screened", publishing=Publishing(SCREEN)
    )


async def stopped(workspace: GitWorkspace, repository: Repository, work: Work) -> SecretAdded:
    branches = repository.git("branch", "--list")
    with pytest.raises(SecretAdded) as error:
        await publish(workspace, repository, work)
    assert repository.git("branch", "--list") == branches
    assert KEY[20:40] not in str(error.value)
    assert UNKNOWN[10:30] not in str(error.value)
    return error.value


@pytest.mark.req("X3", "PR4")
async def test_a_secret_in_a_file_is_named_by_place_and_kind(workspace: GitWorkspace, repository: Repository) -> None:
    def work(tree: Path) -> None:
        (tree / "src" / "a.py").write_text(f"a = 1\n\nkey = '{KEY}'\n")
        (tree / "new.txt").write_text(f"one\n{UNKNOWN}\n")

    error = await stopped(workspace, repository, work)
    assert error.places == (("new.txt", 2, "GitHub token"), ("src/a.py", 3, "model key"))
    assert "new.txt line 2: GitHub token, src/a.py line 3: model key" in str(error)
    assert "`revise`" in str(error)


@pytest.mark.req("X3")
async def test_a_secret_in_disguise_is_found(workspace: GitWorkspace, repository: Repository) -> None:
    def work(tree: Path) -> None:
        (tree / "a").write_text(base64.b64encode(b"x" + KEY.encode()).decode())
        (tree / "b").write_text(KEY[13:50][::-1])
        (tree / "c").write_bytes(b"\0\1\2\n" + KEY[10:50].encode())
        (tree / "d").write_bytes(KEY.encode("utf-16"))
        (tree / "e").symlink_to(KEY[:60])
        (tree / KEY[15:40]).write_text("x")
        (tree / "g").write_text("-" * (AT_ONCE - 30) + KEY)

    error = await stopped(workspace, repository, work)
    assert sorted(path for path, _, _ in error.places) == ["a", "a file's name", "b", "c", "d", "e", "g"]


@pytest.mark.req("X3")
async def test_what_was_there_is_not_judged(workspace: GitWorkspace, repository: Repository) -> None:
    repository.commit(src__old_dot_py=f"x = 1\nkey = '{UNKNOWN}'\n", left=KEY)

    def work(tree: Path) -> None:
        (tree / "src" / "old.py").unlink()
        (tree / "src" / "new.py").write_text(f"y = 2\n\nother = '{UNKNOWN}'\n")

    assert (await publish(workspace, repository, work)).paths == ("src/new.py", "src/old.py")
    error = await stopped(workspace, repository, write(copy=KEY))
    assert error.places == (("copy", 1, "model key"),)


@pytest.mark.req("X3")
async def test_only_unknown_secrets_may_be_examples(workspace: GitWorkspace, repository: Repository) -> None:
    assert (await publish(workspace, repository, write(tests__data__a=UNKNOWN))).paths == ("tests/data/a",)
    error = await stopped(workspace, repository, write(tests__data__b=KEY))
    assert error.places == (("tests/data/b", 1, "model key"),)


@pytest.mark.req("X3", "G3")
async def test_branch_and_message_are_screened(workspace: GitWorkspace, repository: Repository) -> None:
    checkout = await begin(workspace, repository, write(x="x"))
    for branch, message in (("plangate/run-x", f"Do {UNKNOWN}"), (f"plangate/{KEY[13:40].lower()}", "Do it")):
        with pytest.raises(SecretAdded):
            await workspace.publish(approved(checkout.base), checkout, order(branch, message))
