"""Runs programs: git with an environment of its own, and single commands in a sandbox.

Rules
- Everything is limited: the time, and how many bytes of output are kept.
- git reads only its repository's configuration and the settings made here, and never asks for a password.
- `git` is privileged: it runs only in folders that only this program has written (G1): mirrors, fresh clones, and
  checkouts that are being made. Everything else is confined to a sandbox.
"""

import asyncio
import ctypes
import os
import signal
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bot.core.errors import Refused, Transient
from bot.workspace import sandbox
from bot.workspace.sandbox import SandboxProfile

OUTPUT_LIMIT: Final = 64 << 20
"""The most bytes of output: enough for the file list of a repository with several hundred thousand files."""

TIMEOUT: Final = 600.0
"""The time limit in seconds: enough for the first fetch of a large repository."""
_END_SECONDS: Final = 1.0
NICENESS: Final = 10
"""The niceness of programs, so that checks of threads and deliveries, which are short, go first on a busy machine."""

# git-config(1), GIT_CONFIG_COUNT: settings made this way take precedence over the repository's configuration.
_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "core.quotePath": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "receive.autogc": "false",
    "protocol.version": "2",
    "protocol.allow": "never",  # except the protocols that the source of a fetch or push allows
    "advice.detachedHead": "false",
    "init.defaultBranch": "main",
}
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_JOIN_SESSION_KEYRING = 1


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """A program's output and exit code."""

    code: int
    out: bytes
    error: str


def git_environment(settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return git's environment variables: only the repository's own configuration, overridden by the settings here."""
    return {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TEMPLATE_DIR": "",
        **git_config_variables(_SETTINGS | dict(settings or {})),
    }


def git_config_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings as the variables from which git reads them (git-config(1), GIT_CONFIG_COUNT)."""
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


async def git(
    where: Path, *arguments: str, stdin: bytes = b"", settings: Mapping[str, str] | None = None, check: bool = True
) -> ProcessResult:
    """Run privileged git in a folder that only this program writes; raises Transient if it fails and `check` is set."""
    places = {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/nonexistent", "LANG": "C.UTF-8"}
    answer = await execute(["git", *arguments], where, stdin=stdin, environment=places | git_environment(settings))
    if check and answer.code != 0:
        raise git_error(arguments[0], where, answer)
    return answer


def git_error(command: str, where: Path | str, answer: ProcessResult) -> Transient:
    """Return the error for a failed git command, with git's own message, shortened."""
    message = " ".join(answer.error.split())[-600:] or f"exit code {answer.code}"
    return Transient(
        f"git {command} failed: {message}", where=str(where), fix="fix what the message names, then try again"
    )


async def run_sandboxed(profile: SandboxProfile, command: Sequence[str], *, unsafe: bool = False) -> ProcessResult:
    """Run one command in a sandbox of its own; raises NoSandbox if no sandbox can be made.

    With `unsafe` the command runs without a sandbox, so the mounts must be at their own paths.
    """
    if unsafe:
        return await execute(command, Path(profile.directory), environment=sandbox.environment(profile))
    with sandbox.open_filter() as filters:
        boxed = [*sandbox.argv(profile, filters=filters), *command]
        answer = await execute(boxed, Path("/"), environment={"PATH": os.defpath}, descriptors=filters)
    if answer.code != 0 and answer.error.startswith("bwrap: "):
        await asyncio.to_thread(sandbox.probe)
    return answer


async def execute(
    command: Sequence[str],
    where: Path,
    *,
    environment: Mapping[str, str],
    stdin: bytes = b"",
    descriptors: Sequence[int] = (),
) -> ProcessResult:
    """Run a program to its end and return its output. On cancellation, timeout or too much output, its group is killed.

    `descriptors` are inherited by the program in addition to the standard ones.
    """
    process = await start_process(
        asyncio.create_subprocess_exec(
            *command,
            cwd=where,
            env=dict(environment),
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            pass_fds=descriptors,
        )
    )
    try:
        async with asyncio.timeout(TIMEOUT):
            return await _communicate(process, stdin)
    except TimeoutError as error:
        raise Transient(f"{command[0]} took longer than {TIMEOUT:.0f} s", where=str(where), fix="try again") from error
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await wait_for_killed(process)


async def start_process(starting: Coroutine[Any, Any, asyncio.subprocess.Process]) -> asyncio.subprocess.Process:
    """Start a program that leads its own session at a low priority.

    A cancelled start kills the program as soon as it exists. The cancellation never reaches asyncio's own start, which
    could then wait forever for pipes that nobody closes.
    """
    task = asyncio.ensure_future(starting)
    try:
        process = await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_kill_unwanted)
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await wait_for_killed(task.result())
        raise
    _lower_priority(process.pid)
    return process


def _lower_priority(leader: int) -> None:
    """Lower the priority of a new session's processes, and of what they start, as far as this user may set it.

    Where the kernel gives each session the same share of the processors, a process's niceness counts only within its
    session, and the session has one of its own (sched(7), autogroup).
    """
    with suppress(OSError):
        os.setpriority(os.PRIO_PGRP, leader, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
        Path(f"/proc/{leader}/autogroup").write_text(str(NICENESS))


def _kill_unwanted(task: "asyncio.Task[asyncio.subprocess.Process]") -> None:
    if not task.cancelled() and task.exception() is None:
        process = task.result()
        if process.stdin is not None:
            process.stdin.close()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


async def wait_for_killed(process: asyncio.subprocess.Process) -> None:
    """Wait for a killed program, reading its output: asyncio reports the end only after that (cpython 119710)."""
    tasks = [asyncio.ensure_future(drain(stream)) for stream in (process.stdout, process.stderr)]
    await process.wait()
    for task in tasks:
        task.cancel()


async def drain(stream: asyncio.StreamReader | None) -> None:
    """Read a stream to its end and discard it, so that its writer never blocks."""
    while stream is not None and await stream.read(1 << 18):
        pass


async def _communicate(process: asyncio.subprocess.Process, stdin: bytes) -> ProcessResult:
    """Write a program's input and read both of its outputs at the same time, each with a limit."""
    feeding = asyncio.ensure_future(_feed(process.stdin, stdin))
    reading = [asyncio.ensure_future(_read_bounded(stream)) for stream in (process.stdout, process.stderr)]
    try:
        out, error = await asyncio.gather(*reading)
        await feeding
    finally:
        for task in (feeding, *reading):
            task.cancel()
        await asyncio.wait([feeding, *reading])
    return ProcessResult(await process.wait(), out, error.decode(errors="replace"))


async def _feed(stream: asyncio.StreamWriter | None, stdin: bytes) -> None:
    if stream is None:
        return
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.write(stdin)
        await stream.drain()
    stream.close()


async def _read_bounded(stream: asyncio.StreamReader | None) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while stream is not None and (piece := await stream.read(1 << 18)):
        size += len(piece)
        if size > OUTPUT_LIMIT:
            raise Refused(f"a program printed more than {OUTPUT_LIMIT:,} bytes", fix="use a smaller repository")
        pieces.append(piece)
    return b"".join(pieces)


def leave_keyring() -> None:
    """Move this thread, and what it starts, to a new session keyring: bubblewrap would pass ours on (TOOLHOST).

    keyctl(2), KEYCTL_JOIN_SESSION_KEYRING. A kernel without keyrings has none to leave.
    """
    number = _KEYCTL.get(os.uname().machine)
    if number is not None:
        ctypes.CDLL(None, use_errno=True).syscall(number, _JOIN_SESSION_KEYRING, None)
