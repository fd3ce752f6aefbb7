"""A real repository to store threads in, and what a test needs to look at it and to spoil it."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.ports import Clock
from bot.store.thread_refs import Remote, ThreadRefs


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
        names = self.git("ls-tree", "-r", "--name-only", ref).splitlines()
        return {
            name: subprocess.run(
                ["git", "-C", str(self.path), "cat-file", "blob", f"{ref}:{name}"], capture_output=True, check=True
            ).stdout
            for name in names
        }

    def put(self, files: dict[str, bytes], thread: int = 1) -> None:
        """Make a thread's ref hold exactly these files, as whoever may write to the repository can."""
        parts = [f"reset refs/plangate/threads/{thread}\ncommit refs/plangate/threads/{thread}\n".encode()]
        parts += [b"committer M <m@m> 0 +0000\ndata 0\n"]
        parts += [
            b"M 100644 inline %b\ndata %d\n%b\n" % (name.encode(), len(data), data) for name, data in files.items()
        ]
        self.git("fast-import", "--quiet", "--force", stdin=b"".join(parts))


@pytest.fixture
def clock() -> Clock:
    return StandingClock()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return made(tmp_path / "remote.git")


def made(path: Path) -> Repository:
    """Make a bare repository with one commit."""
    subprocess.run(["git", "init", "--quiet", "--bare", str(path)], check=True, env=os.environ)
    repository = Repository(path)
    repository.git("fast-import", "--quiet", stdin="commit refs/heads/master\ncommitter A <a@b> 0 +0000\ndata 0\n")
    return repository


@pytest.fixture
def refs_on(tmp_path: Path, repository: Repository, clock: Clock) -> Callable[[str], ThreadRefs]:
    """Return the threads as the named machine sees them."""
    return lambda machine: ThreadRefs(Remote(str(repository.path)), tmp_path / machine / "scratch.git", clock)
