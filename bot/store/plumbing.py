"""Git as a child process: its own environment, no configuration of the machine, no hooks, a time limit, one error.

Git receives from the caller's environment only what the caller names (G1). No credential is in an argument (G2).
"""

import os
import select
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

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

    def run(self, *arguments: str, stdin: bytes = b"", opening: bytes = b"") -> GitResult:
        """Run one git command to its end. Raises Transient if it takes too long.

        An `opening`, if given, is sent first. `stdin` follows only if git answers the opening with an empty line.
        """
        settings = [part for setting in _SETTINGS for part in ("-c", setting)]
        command = [_git(), "--git-dir", str(self.directory), *settings, *arguments]
        result = self._run(command, stdin, opening)
        if result.code and is_token_refused(result.err.decode("utf-8", "replace")) and self.renew():
            return self._run(command, stdin, opening)
        return result

    def start_helper(self, location: str) -> "subprocess.Popen[bytes]":
        """Start git's helper for the transport of a URL, and leave it running. `end_process` ends it.

        It is started without `git`, which would wait beside it for as long as it runs.
        https://git-scm.com/docs/gitremote-helpers
        """
        command = [f"{_exec_path(_git())}/git-remote-{urlsplit(location).scheme}", location, location]
        return self._start(command, GIT_DIR=str(self.directory), **_settings_after(self.environment()))

    def serve(self, command: str, *, stdin: bytes) -> GitResult:
        """Run the shell command that serves a repository, and talk to it in version 2 of git's protocol."""
        return self._run(["sh", "-c", command], stdin, GIT_PROTOCOL="version=2")

    def _run(self, command: Sequence[str], stdin: bytes, opening: bytes = b"", **environment: str) -> GitResult:
        """Run a command to its end. If it takes too long, end every process that it started."""
        with self._start(command, **environment) as process:
            try:
                if opening and not _is_open(process, opening, self.seconds):
                    stdin = b""
                out, err = process.communicate(stdin, timeout=self.seconds)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
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


def end_process(process: "subprocess.Popen[bytes]") -> None:
    """End a process that ends when its input does; kill it, and all that it started, if it does not."""
    with process:
        try:
            process.communicate(timeout=_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def _is_open(process: subprocess.Popen[bytes], opening: bytes, seconds: float) -> bool:
    """Send the opening to a process and return whether the process answers with an empty line."""
    if process.stdin is None or process.stdout is None:
        return False
    with suppress(BrokenPipeError):
        process.stdin.write(opening)
        process.stdin.flush()
    poller = select.poll()
    poller.register(process.stdout, select.POLLIN)
    if not poller.poll(seconds * 1000):
        raise subprocess.TimeoutExpired(process.args, seconds)
    return os.read(process.stdout.fileno(), 1) == b"\n"


def _git() -> str:
    """Return the path of git."""
    path = shutil.which("git")
    if path is None:
        raise Misconfigured("git is not installed", fix=f"install git {OLDEST_GIT} or newer")
    return path


@cache
def _exec_path(git: str) -> str:
    """Return the folder of git's own programs. It never changes for one git, so it is asked for once."""
    result = subprocess.run([git, "--exec-path"], env=_environment(), capture_output=True, check=False)
    return result.stdout.decode().strip()


def _settings_after(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that make git's settings beside those that the environment makes (git-config(1))."""
    first = int(environment.get("GIT_CONFIG_COUNT", "0"))
    variables = {"GIT_CONFIG_COUNT": str(first + len(_SETTINGS))}
    for number, setting in enumerate(_SETTINGS, start=first):
        key, _, value = setting.partition("=")
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


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
