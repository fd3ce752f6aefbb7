"""Git as a child process: how it fails."""

import os
import time
from pathlib import Path

import pytest

from bot.core.errors import Misconfigured, Transient
from bot.store.plumbing import Plumbing, Ran
from tests.store.conftest import Repository


def test_failure_names_the_reason(repository: Repository) -> None:
    """A command that fails is Transient with git's own reason."""
    with pytest.raises(Transient, match=r"git rev-parse failed .*: fatal: Needed a single revision"):
        Plumbing(repository.path, dict).ask("rev-parse", "--verify", "refs/heads/none")


@pytest.mark.parametrize(
    ("err", "reason"),
    (
        (b"remote: hello\nfatal: it broke\nhint: mend it\n", "fatal: it broke"),
        (b"warning: something\nlast words\n\n", "last words"),
        (b"fatal: \x1b[31mred\x07\xff", "fatal: [31mred\ufffd"),
        (b"fatal: " + b"x" * 1000, "fatal: " + "x" * 293),
        (b"", "exit code 128"),
    ),
)
def test_reason(err: bytes, reason: str) -> None:
    """The reason is the line that tells most, printable and short."""
    assert Ran(128, b"", err).reason == reason


def test_takes_too_long(repository: Repository, tmp_path: Path) -> None:
    """A command that takes too long is Transient, and everything that it started is ended."""
    program, note = tmp_path / "hangs", tmp_path / "pid"
    program.write_text(f"#!/bin/sh\necho $$ > {note}.new\nmv {note}.new {note}\nexec sleep 600\n")
    program.chmod(0o755)
    with pytest.raises(Transient, match="too long"):
        Plumbing(repository.path, dict, seconds=1.0).ask("ls-remote", f"--upload-pack={program}", str(repository.path))
    pid = int(note.read_text())
    while alive(pid):  # until it has ended, or this test has run into its time limit
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_no_git(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without git is told so."""
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(Misconfigured, match="install git"):
        Plumbing(repository.path, dict).run("version")


@pytest.mark.req("G1")
def test_own_configuration(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configuration of the machine's owner does not reach git, and hooks of its repository do not run."""
    (tmp_path / ".gitconfig").write_text("[user]\nname = owner\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / ".gitconfig"))
    plumbing = Plumbing(repository.path, dict)
    assert plumbing.run("config", "user.name").out == b""
    assert plumbing.ask("config", "core.hooksPath").strip() == os.devnull.encode()
