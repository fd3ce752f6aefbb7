"""A real repository to store threads in, and what a test needs to look at it and to spoil it."""

import io
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.ports import Clock
from bot.store.thread_refs import Remote, ThreadRefs
from bot.testing.github.git_objects import write_commit, write_ref

PERSONS = "author M <m@m> 0 +0000\ncommitter M <m@m> 0 +0000\n"


class StandingClock:
    """A clock that stands."""

    def now(self) -> datetime:
        return datetime(2026, 11, 20, 8, 30, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """Wait for nothing."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A bare repository on this machine, and git in it."""

    path: Path

    def git(self, *arguments: str, stdin: str | bytes = b"") -> str:
        text = stdin.encode() if isinstance(stdin, str) else stdin
        command = ["git", "-C", str(self.path), *arguments]
        return subprocess.run(command, input=text, capture_output=True, check=True).stdout.decode().strip()

    def hook(self, name: str, script: str) -> None:
        """Plant a hook, as the repository's owner can."""
        hook = self.path / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{script}\n")
        hook.chmod(0o755)

    def files(self, thread: int = 1) -> dict[str, bytes]:
        """Return the files that a thread's ref holds."""
        ref = f"refs/plangate/threads/{thread}"
        packed = subprocess.run(
            ["git", "-C", str(self.path), "archive", "--format=tar", ref], capture_output=True, check=True
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as files:
            found = [member for member in files.getmembers() if member.isfile()]
            return {member.name: _content(files, member) for member in found}

    def put(self, files: dict[str, bytes], thread: int = 1) -> None:
        """Make a thread's ref hold exactly these files, as whoever may write to the repository can."""
        commit = write_commit(self.path / "objects", None, files, persons=PERSONS, message="")
        assert write_ref(self.path, f"refs/plangate/threads/{thread}", commit)


def _content(files: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    opened = files.extractfile(member)
    assert opened is not None
    return opened.read()


@pytest.fixture
def clock() -> Clock:
    return StandingClock()


@pytest.fixture(scope="session")
def remote_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bare repository with one commit, which is only ever copied."""
    made = Repository(tmp_path_factory.mktemp("remote") / "remote.git")
    subprocess.run(["git", "init", "--quiet", "--bare", "--template=", str(made.path)], check=True)
    made.git("config", "receive.autogc", "false")
    made.git("fast-import", "--quiet", stdin="commit refs/heads/master\ncommitter A <a@b> 0 +0000\ndata 0\n")
    return made.path


@pytest.fixture
def repository(tmp_path: Path, remote_template: Path) -> Repository:
    return Repository(shutil.copytree(remote_template, tmp_path / "remote.git"))


@pytest.fixture
def refs_on(tmp_path: Path, repository: Repository, clock: Clock) -> Callable[[str], ThreadRefs]:
    """Return the threads as the named machine sees them."""
    return lambda machine: ThreadRefs(Remote(str(repository.path)), tmp_path / machine / "scratch.git", clock)
