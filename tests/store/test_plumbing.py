"""Git as a child process: how it fails."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bot.core.errors import Transient
from bot.store.plumbing import GitResult, Plumbing
from tests.store.conftest import Repository


def test_failure_names_the_reason(repository: Repository) -> None:
    """A command that fails is Transient with git's own reason."""
    with pytest.raises(Transient, match=r"git rev-parse failed .*: fatal: Needed a single revision"):
        Plumbing(repository.path, dict).ask("rev-parse", "--verify", "refs/heads/none")


@pytest.mark.parametrize(
    ("err", "reason"),
    (
        (b"remote: hello\nfatal: it broke\nhint: fix it\n", "fatal: it broke"),
        (b"warning: something\nlast words\n\n", "last words"),
        (b"fatal: \x1b[31mred\x07\xff", "fatal: [31mred\ufffd"),
        (b"fatal: " + b"x" * 1000, "fatal: " + "x" * 293),
        (b"", "exit code 128"),
    ),
)
def test_reason(err: bytes, reason: str) -> None:
    """The reason is the line that tells most, printable and short."""
    assert GitResult(128, b"", err).reason == reason


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
    """Return whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def in_a_child(code: str, **environment: str) -> str:
    """Run code that has `Plumbing` and `Path` in a process with this environment, and give what it printed."""
    lines = f"from pathlib import Path; from bot.store.plumbing import Plumbing; {code}"
    ran = subprocess.run([sys.executable, "-c", lines], env=environment, capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr


def test_no_git() -> None:
    """A machine without git is told so."""
    told = in_a_child('Plumbing(Path("/"), dict).run("version")', PATH=os.devnull)
    assert "Misconfigured: git is not installed" in told
    assert "install git" in told


@pytest.mark.req("G1")
def test_own_configuration(repository: Repository, tmp_path: Path) -> None:
    """Nothing of the process's own environment and of its owner's configuration reaches git."""
    (tmp_path / ".gitconfig").write_text("[user]\nname = owner\n")
    told = in_a_child(
        f'print(Plumbing(Path("{repository.path}"), dict).run("config", "user.name"))',
        PATH=os.environ["PATH"],
        HOME=str(tmp_path),
        GIT_CONFIG_GLOBAL=str(tmp_path / ".gitconfig"),
        GIT_TRACE=str(tmp_path / "leaked"),
        GIT_DIR=str(tmp_path),
    )
    assert told.strip() == "GitResult(code=1, out=b'', err=b'')"
    assert not (tmp_path / "leaked").exists()


@pytest.mark.req("G1")
def test_no_hooks(repository: Repository) -> None:
    """Hooks of the repository do not run."""
    assert Plumbing(repository.path, dict).ask("config", "core.hooksPath").strip() == os.devnull.encode()
