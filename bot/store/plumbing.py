"""Git as a child process: its own environment, no configuration of the machine, no hooks, a time limit, one error.

Git receives from the caller's environment only what the caller names (G1). No credential is in an argument (G2).
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.core.errors import Misconfigured, Transient
from bot.core.git_failures import OLDEST_GIT, is_token_refused

_SETTINGS = (
    f"core.hooksPath={os.devnull}",
    "gc.auto=0",
    "maintenance.auto=false",
    "transfer.fsckObjects=true",
    "credential.helper=",
    "push.recurseSubmodules=no",
    "http.lowSpeedLimit=1000",  # bytes per second; a transfer slower than this for 30 s counts as dead
    "http.lowSpeedTime=30",
)
_REASON_LIMIT = 300
_ENDING_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class GitResult:
    """The result of a git command."""

    code: int
    out: bytes
    err: bytes

    @property
    def reason(self) -> str:
        """The line of stderr that says why it failed, printable and short."""
        lines = [line.strip() for line in self.err.decode("utf-8", "replace").splitlines() if line.strip()]
        reasons = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines[-1:]
        text = reasons[0] if reasons else f"exit code {self.code}"
        return "".join(letter for letter in text if letter.isprintable())[:_REASON_LIMIT]


@dataclass(frozen=True, slots=True)
class Plumbing:
    """Runs git in one repository of ours. Calls `environment` for each command, because tokens expire."""

    directory: Path
    environment: Callable[[], Mapping[str, str]]
    seconds: float = 120.0
    """The time limit of one command in seconds. After that, every process that it started is ended."""
    renew: Callable[[], bool] = bool
    """Has `environment` return another token than the one that a server refused; returns whether there is one."""

    def run(self, *arguments: str, stdin: bytes = b"") -> GitResult:
        """Run one git command to its end. Raises Transient if it takes too long."""
        result = self._run(self._command(*arguments), stdin)
        if result.code and is_token_refused(result.err.decode("utf-8", "replace")) and self.renew():
            return self._run(self._command(*arguments), stdin)
        return result

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start one git command, and leave it running. `end_process` ends it."""
        return self._start(self._command(*arguments))

    def serve(self, command: str, *, stdin: bytes) -> GitResult:
        """Run the shell command that serves a repository, and talk to it in version 2 of git's protocol."""
        return self._run(["sh", "-c", command], stdin, GIT_PROTOCOL="version=2")

    def _command(self, *arguments: str) -> list[str]:
        settings = [part for setting in _SETTINGS for part in ("-c", setting)]
        return [_git(), "--git-dir", str(self.directory), *settings, *arguments]

    def _run(self, command: Sequence[str], stdin: bytes, **environment: str) -> GitResult:
        """Run a command to its end. If it takes too long, end every process that it started."""
        with self._start(command, **environment) as process:
            try:
                out, err = process.communicate(stdin, timeout=self.seconds)
            except BaseException as error:
                kill_process(process)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise Transient("git took too long", where=command[-1], fix="try again") from error
                raise
        return GitResult(process.returncode, out, err)

    def _start(self, command: Sequence[str], **environment: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**_environment(), **self.environment(), **environment},
            start_new_session=True,
        )

    def ask(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Return the output of one git command. Raises Transient, with git's reason, if it failed."""
        result = self.run(*arguments, stdin=stdin)
        if result.code:
            raise Transient(f"git {arguments[0]} failed", where=str(self.directory), fix=result.reason)
        return result.out


def end_process(process: "subprocess.Popen[bytes]") -> GitResult:
    """End a process that ends when its input does; kill it, and all that it started, if it does not."""
    with process:
        try:
            out, err = process.communicate(timeout=_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            kill_process(process)
            out, err = process.communicate()
    return GitResult(process.returncode, out, err)


def kill_process(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process of this module, and all that it started, if it runs."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)


def _git() -> str:
    """Return the path of git."""
    path = shutil.which("git")
    if path is None:
        raise Misconfigured("git is not installed", fix=f"install git {OLDEST_GIT} or newer")
    return path


def _environment() -> dict[str, str]:
    """Return the environment variables of every git command."""
    return {
        "PATH": f"{os.path.dirname(_git())}:{os.defpath}",
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "file:http:https:ssh",
    }
