"""Commits: whose they are, and how they are signed."""

import subprocess
from pathlib import Path

import pytest

from bot.core.errors import Misconfigured
from bot.core.turn import Actor
from bot.ports import Access
from bot.workspace.local_repository import LocalRepository
from bot.workspace.publish import Committer, Publishing, check_key
from bot.workspace.remote import refusal
from bot.workspace.workspace import GitWorkspace
from tests.workspace.ground import Repository, approved, begin, order, publish, write

BOT = Actor(4711, "plangate[bot]")
ADDRESS = "4711+plangate[bot]@users.noreply.github.com"
pytestmark = pytest.mark.req("G3")


def make_key(folder: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    key = folder / f"{kind}-key"
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", str(key)], check=True)
    return key


async def on(repository: Repository, folder: Path, committer: Committer) -> GitWorkspace:
    source = await LocalRepository.open(repository.path)
    return GitWorkspace.on(source, folder / "data", publishing=Publishing(committer=committer))


async def test_attributed_to_the_bot(repository: Repository, tmp_path: Path) -> None:
    """Author and committer are the bot's account, by the address that GitHub knows it by."""
    workspace = await on(repository, tmp_path, Committer(BOT.login, BOT.noreply("github.com")))
    published = await publish(workspace, repository, write(new="x"))
    said = repository.git("log", "-1", "--format=%an <%ae> %cn <%ce>", published.commit)
    assert said == " ".join([f"plangate[bot] <{ADDRESS}>"] * 2)


@pytest.mark.parametrize("kind", ("ed25519", pytest.param("rsa", marks=pytest.mark.long)))
async def test_signed(repository: Repository, tmp_path: Path, kind: str) -> None:
    """git itself verifies the signature, and the same order gives the same commit."""
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


async def test_no_sandbox_is_shown_the_key(repository: Repository, tmp_path: Path) -> None:
    """Neither its file nor its path is to be found where commands run."""
    key = make_key(tmp_path)
    workspace = await on(repository, tmp_path, Committer(key=key))
    host = await workspace.open(await begin(workspace, repository, write(new="x")), Access.WRITE)
    said = await host.call("Bash", {"command": f"cat {key} {key}.pub; env; cat /proc/*/environ /proc/*/cmdline"})
    await host.close()
    assert "PRIVATE KEY" not in said.text
    assert said.text.count("No such file") == 2
    assert said.text.count(str(key)) == 4  # the complaints, and this command's own line with it


async def test_unfit_keys(tmp_path: Path) -> None:
    """A key whose signatures differ each time, one with a passphrase, no key, no file: each is said as what it is."""
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


def test_a_push_that_lacks_a_signature() -> None:
    """What GitHub says is told with its cure."""
    said = "remote: - Commits must have verified signatures. ! [remote rejected] (push declined due to rule violations)"
    error = refusal("https://github.com/o/r", said)
    assert "require signed commits" in str(error)
    assert "docs/settings.md" in str(error)
