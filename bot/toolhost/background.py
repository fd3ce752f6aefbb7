"""Commands in the background: Bash starts them, BashOutput reads what is new, KillShell ends them.

Rules: only a few run at once. Each has the limits of any other command, except the time limit. The last characters of
its output are kept until they are read. All of them end with the toolhost.
"""

import math
import os
import threading
import time

from bot.toolhost.operation import Arguments, Call, Host
from bot.toolhost.output import RecentOutput
from bot.toolhost.protocol import Failure, OperationResult
from bot.toolhost.ripgrep import Ripgrep
from bot.toolhost.shell import RunningCommand

MOST_RUNNING = 4
_MOST_KEPT = 16
"""Commands that are remembered, so that their output can still be read after their end."""
_WAIT_SECONDS = 10.0
"""How long a read waits for something new: asking again costs a request to the model."""
_ENDING_SECONDS = 10.0
_TICK = 0.05


class Shell:
    """One command in the background."""

    def __init__(self, host: Host, call: Call, arguments: Arguments) -> None:
        self.id = f"bash_{os.urandom(3).hex()}"  # never that of an earlier process, whose commands are gone
        self.command: str = arguments["command"]
        self.output = RecentOutput()
        self._began = time.monotonic()
        self._stopping = threading.Event()
        milliseconds = arguments.get("timeout")
        seconds = math.inf if milliseconds is None else max(1, milliseconds) / 1000
        self._run = RunningCommand(host, Call(call.id, call.writer, self._stopping), seconds, self.output)
        self._run.start(self.command)
        self._ended = ""
        self._thread = threading.Thread(target=self._finish, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the command, or anything that it started, may still run."""
        return self._thread.is_alive()

    @property
    def state(self) -> str:
        """Return how long the command has been running, or how it ended."""
        return self._ended if not self.is_running else f"running for {time.monotonic() - self._began:.0f} s"

    def stop(self, call: Call) -> None:
        """End the command, and wait until it has ended."""
        self._stopping.set()
        end = time.monotonic() + _ENDING_SECONDS
        while self.is_running and time.monotonic() < end and not call.cancelled.is_set():
            self._thread.join(_TICK)

    def _finish(self) -> None:
        """Watch the command to its end: the outermost layer of its thread."""
        try:
            self._run.finish()
            self._ended = "\n".join((*self._run.notes(), self._run.ending()))
        except Exception as error:  # noqa: BLE001 - the outermost layer
            self._ended = f"lost by the toolhost: {type(error).__name__}: {error}"


def start_shell(host: Host, call: Call, arguments: Arguments) -> OperationResult:
    """Start a command in the background and return at once; raises Failure if too many run already."""
    with host.starting:
        running = [shell for shell in host.shells.values() if shell.is_running]
        if len(running) >= MOST_RUNNING:
            raise Failure(f"{MOST_RUNNING} commands run in the background: end one with KillShell. {_list_of(running)}")
        shell = Shell(host, call, arguments)
        ended = [name for name, other in host.shells.items() if not other.is_running]
        for name in ended[: max(0, len(host.shells) + 1 - _MOST_KEPT)]:
            del host.shells[name]
        host.shells[shell.id] = shell
    return OperationResult(
        f"Runs in the background as {shell.id}: BashOutput reads what it writes, KillShell ends it. "
        "It ends with the session at the latest.",
        details={"bash_id": shell.id},
    )


def bash_output(host: Host, call: Call, arguments: Arguments) -> OperationResult:
    """Return what a command wrote since the last read, and its state; waits a moment for something new."""
    shell = _shell(host, arguments["bash_id"])
    end = time.monotonic() + _WAIT_SECONDS
    while shell.is_running and not shell.output.unread().text and not call.cancelled.is_set():
        if time.monotonic() > end:
            break
        time.sleep(_TICK)
    is_running, state, new = shell.is_running, shell.state, shell.output.unread()
    text, read_to = new.text, new.end
    if pattern := arguments.get("filter"):
        partial_line = text.rpartition("\n")[2] if is_running else ""  # a line that is not whole yet is filtered later
        read_to -= len(partial_line)
        text = _matching_lines(host, call, text.removesuffix(partial_line), pattern=pattern)
    shell.output.mark_read(read_to)
    left_out = f"[... {new.left_out:,} characters left out ...]" if new.left_out else ""
    output = text.rstrip("\n") or "(no new output)"
    return OperationResult(
        "\n".join(part for part in (left_out, output, state) if part), details={"running": is_running}
    )


def kill_shell(host: Host, call: Call, arguments: Arguments) -> OperationResult:
    """End a command and everything that it started."""
    shell = _shell(host, arguments["shell_id"])
    if not shell.is_running:
        return OperationResult(f"{shell.id} had ended already.\n{shell.state}")
    shell.stop(call)
    return OperationResult(f"{shell.id}: {shell.state}", is_error=shell.is_running)


def _shell(host: Host, name: str) -> Shell:
    """Return a command in the background; raises Failure for an unknown id."""
    if shell := host.shells.get(name):
        return shell
    existing = _list_of(list(host.shells.values())) if host.shells else "None was started here."
    raise Failure(
        f"There is no command {name!r} in the background. {existing} Where a session goes on in another process, its "
        "commands have ended: start what is needed again, with run_in_background."
    )


def _list_of(shells: list[Shell]) -> str:
    return "There are: " + "; ".join(f"{shell.id} ({shell.command[:60]!r}, {shell.state})" for shell in shells) + "."


def _matching_lines(host: Host, call: Call, text: str, *, pattern: str) -> str:
    """Return the lines that match a pattern, found by ripgrep, whose patterns take linear time."""
    memory = os.memfd_create("output")
    try:
        with open(memory, "wb", closefd=False) as file:
            file.write(text.encode())
        os.lseek(memory, 0, os.SEEK_SET)
        with Ripgrep(host, call, ["--text", f"--regexp={pattern}", "-"], cwd=host.root.real, stdin=memory) as rg:
            matches = b"\n".join(rg.records(b"\n"))
    finally:
        os.close(memory)
    if rg.error:
        raise Failure(f"filter: {rg.error}")
    return matches.decode(errors="replace")
