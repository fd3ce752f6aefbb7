"""Bash: runs commands in sessions of their own, in the foreground or in the background."""

import codecs
import contextlib
import fcntl
import math
import os
import signal
import subprocess
import threading
import time
from typing import NamedTuple

from bot.toolhost.command_limits import Excess, Meter
from bot.toolhost.operation import Arguments, Call, Host
from bot.toolhost.processes import MOST_PROCESSES, Child, has_too_many_processes, read_some
from bot.toolhost.protocol import Failure, OperationResult
from bot.toolhost.search import Ripgrep

HEAD = 20_000
TAIL = 10_000
RECENT = 30_000
_LINE = 200


class Output:
    """Receives bytes, and keeps the first and the last characters."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head = ""
        self._tail = ""
        self._total = 0

    def add(self, piece: bytes, *, final: bool = False) -> None:
        """Add the next bytes."""
        text = self._decoder.decode(piece, final)
        self._total += len(text)
        room = HEAD - len(self._head)
        self._head += text[:room]
        if len(text) > room:
            self._tail = (self._tail + text[max(room, len(text) - TAIL) :])[-TAIL:]

    @property
    def total(self) -> int:
        """Number of all characters."""
        return self._total

    def text(self) -> str:
        """Return the text that was kept, with a note on how much was left out."""
        left_out = self._total - len(self._head) - len(self._tail)
        middle = f"\n\n[... {left_out:,} characters left out ...]\n\n" if left_out else ""
        return self._head + middle + self._tail

    def last_line(self) -> str:
        """Return the last line that is not empty, shortened, to show progress; "" if there is none."""
        lines = (self._head + self._tail)[-TAIL:].split("\n")
        return next((line.strip()[-_LINE:] for line in reversed(lines) if line.strip()), "")


class Unread(NamedTuple):
    """The characters of an output that were not read yet and are still kept."""

    text: str
    left_out: int
    end: int
    """The position in the whole output, in characters, where `text` ends."""


class RecentOutput:
    """Receives bytes in one thread, and keeps the last characters for readers in others."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()
        self._text = ""
        self._total = 0
        self._read = 0

    def add(self, piece: bytes, *, final: bool = False) -> None:
        """Add the next bytes."""
        text = self._decoder.decode(piece, final)
        with self._lock:
            self._total += len(text)
            self._text = (self._text + text[-RECENT:])[-RECENT:]

    def unread(self) -> Unread:
        """Return what came since the last `mark_read`, without marking it as read."""
        with self._lock:
            kept_from = self._total - len(self._text)
            start = max(kept_from, self._read)
            return Unread(self._text[start - kept_from :], start - self._read, self._total)

    def mark_read(self, end: int) -> None:
        """Mark everything up to a position as read."""
        with self._lock:
            self._read = end


# Nothing that a command starts outlives it. Its working directory is kept for the next one, if it is in the checkout.

DEFAULT_SECONDS = 120.0
_GRACE_SECONDS = 1.0
"""Seconds between SIGTERM and SIGKILL: a cancelled command is gone within two seconds (S3)."""
_TICK = 0.05
_CHECK_SECONDS = 0.05
_CHECK_SHARE = 4
"""After a check, the pause is this many times as long as the check took."""
_PROGRESS_SECONDS = 1.0
_SETTLING_SECONDS = 0.2
_DRAINING_SECONDS = 0.5
_LOWEST_DESCRIPTOR = 200
"""File descriptors from this number on do not collide with those that scripts use."""


def bash(host: Host, call: Call, arguments: Arguments) -> OperationResult:
    """Run one command; an exit code other than 0 is an error."""
    milliseconds = arguments.get("timeout")
    seconds = DEFAULT_SECONDS if milliseconds is None else max(1, milliseconds) / 1000
    output = Output()
    command = RunningCommand(host, call, min(seconds, host.config.seconds), output)
    command.start(arguments["command"])
    command.finish()
    command.keep_working_directory()
    return command.answer(output)


class RunningCommand:
    """One command from its start to its end; `output` receives what it writes."""

    def __init__(self, host: Host, call: Call, seconds: float, output: Output | RecentOutput) -> None:
        self._host, self._call, self._seconds, self._output = host, call, seconds, output
        self._meter = Meter(host)
        self._verdict = ""
        self._notes: list[str] = []
        self._code: int | None = None
        self._cwd = host.cwd if os.path.isdir(host.cwd) else host.root.real
        self._began = time.monotonic()
        self._ended_in = b""
        self._next_check = self._began
        self._next_progress = self._began + _PROGRESS_SECONDS

    def start(self, command: str) -> None:
        """Start the command; raises Failure if that is impossible. `finish` must follow."""
        reader, writer = _make_high_pipe()
        self._cwd_pipe = open(reader, "rb", buffering=0)  # noqa: SIM115 - `finish` closes it
        try:
            self._child = self._start(command, writer)
        except Failure:
            self._cwd_pipe.close()
            raise
        finally:
            os.close(writer)

    def finish(self) -> None:
        """Wait until the command ends or must be ended; afterward none of its processes are left."""
        child = self._child
        with self._cwd_pipe:
            try:
                self._watch(child)
                self._settle(child)
                if self._host.children.overrun > self._began:
                    self._verdict = Excess.PROCESSES.value
                self._host.children.kill(child)
                self._drain(child)
            finally:
                self._host.children.remove(child)
            self._code = child.returncode
            self._ended_in = self._cwd_pipe.read(1 << 16)

    def _start(self, command: str, cwd_fd: int) -> Child:
        """Start bash, which writes its working directory to `cwd_fd` when it ends."""
        prelude = f"trap '{{ builtin pwd -P >&{cwd_fd}; }} 2>/dev/null' EXIT; "
        if math.isfinite(self._seconds):
            prelude = f"ulimit -t {int(self._seconds * (os.cpu_count() or 1)) + 1} 2>/dev/null; {prelude}"
        line = ["bash", "-c", prelude + command]
        try:
            return self._host.children.start_command(
                line, str(self._call.id), cwd=self._cwd, env=self._host.config.env, keep=cwd_fd
            )
        except FileNotFoundError:
            raise Failure("bash is not installed where the tools run.") from None
        except (OSError, ValueError) as error:
            raise Failure(f"The command cannot be started ({error}). A long one goes into a file first.") from None

    def _watch(self, child: Child) -> None:
        """Read until the command has ended, or there is a reason to end it."""
        is_open = True
        while child.poll() is None and not self._verdict:
            if is_open:
                is_open = self._read_output(child)
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(_TICK)
            self._verdict = self._reason_to_end(child)

    def _read_output(self, child: Child) -> bool:
        piece = read_some(child, _TICK)
        if piece:
            self._output.add(piece)
        return piece != b""

    def _reason_to_end(self, child: Child) -> str:
        """Return the reason why the command must end now, or ""; report progress once a second."""
        now = time.monotonic()
        if self._call.cancelled.is_set():
            return "cancelled"
        if now > self._began + self._seconds:
            return "timeout"
        if now >= self._next_progress and isinstance(self._output, Output):
            self._next_progress = now + _PROGRESS_SECONDS
            if line := self._output.last_line():
                self._call.progress(line)
        if now < self._next_check:
            return ""
        excess = Excess.PROCESSES if has_too_many_processes() else self._meter.excess(child)
        checked_at = time.monotonic()
        self._next_check = checked_at + max(_CHECK_SECONDS, (checked_at - now) * _CHECK_SHARE)
        return excess.value

    def _settle(self, child: Child) -> None:
        """Wait a moment for the command's processes to end; after a timeout or cancellation, terminate them first."""
        children = self._host.children
        if self._verdict in {"timeout", "cancelled"}:
            children.terminate(child)
        elif self._verdict:
            return
        end = time.monotonic() + (_GRACE_SECONDS if self._verdict else _SETTLING_SECONDS)
        is_open = True
        remaining = []
        while not has_too_many_processes() and (remaining := children.family(child)) and time.monotonic() < end:
            is_open = is_open and self._read_output(child)
            time.sleep(0.01)
        if has_too_many_processes() or len(remaining) > MOST_PROCESSES:
            self._verdict = self._verdict or Excess.PROCESSES.value
        elif remaining and not self._verdict:
            self._notes.append(f"left {len(remaining)} background process{'es' if len(remaining) > 1 else ''}, ended")

    def _drain(self, child: Child) -> None:
        """Read what is still in the pipe; a moment is enough, because nothing writes to it anymore."""
        end = time.monotonic() + _DRAINING_SECONDS
        while time.monotonic() < end and self._read_output(child):
            pass
        self._output.add(b"", final=True)

    def keep_working_directory(self) -> None:
        """Keep the command's last working directory for the next command, unless it is outside the checkout."""
        if not self._ended_in:
            return
        ended_in = os.path.realpath(os.fsdecode(self._ended_in.removesuffix(b"\n")))
        if ended_in == self._cwd:
            return
        if not self._host.root.holds(ended_in) or not os.path.isdir(ended_in):
            here = self._host.root.name(self._cwd)
            self._notes.append(f"the working directory stays {here}: the command ended outside of the checkout")
            return
        self._host.cwd = ended_in
        self._notes.append(f"the working directory is now {self._host.root.name(ended_in)}")

    def answer(self, output: Output) -> OperationResult:
        """Return the output that was kept, with its total size and how the command ended."""
        failed = bool(self._verdict) or self._code != 0
        ending = self.ending() if failed else ""
        parts = [output.text().rstrip("\n") or ("" if failed else "(no output)"), *self.notes(), ending]
        details = {
            "exit_code": None if self._verdict else self._code,
            "seconds": round(time.monotonic() - self._began, 3),
            "ended": self._verdict,
            "characters": output.total,
        }
        return OperationResult("\n".join(part for part in parts if part), is_error=failed, details=details)

    def notes(self) -> list[str]:
        """Return further notes for the answer, one line each."""
        return [f"({note})" for note in self._notes]

    def ending(self) -> str:
        """Return, in one line, how the command ended."""
        match self._verdict:
            case "timeout":
                most = int(self._host.config.seconds * 1000)
                return f"timed out after {self._seconds:g} s: all of it was ended (timeout can be at most {most} ms)"
            case "cancelled":
                return "cancelled: all of it was ended"
            case Excess.MEMORY.value:
                return f"used more than {self._host.config.memory_mb} MB of memory: all of it was ended"
            case Excess.PROCESSES.value:
                return f"started too many processes (more than {MOST_PROCESSES:,}): all of it was ended"
            case Excess.DISK.value:
                return f"wrote more than {self._host.config.disk_mb:,} MB to the checkout and /tmp: all of it was ended"
            case Excess.FILES.value:
                return f"made more than {self._host.config.files:,} files in the checkout and /tmp: all of it was ended"
            case _:
                code = self._code or 0
        status = f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}: exit code {128 - code}"
        most = self._host.config.memory_mb
        killed = most and abs(code) in {signal.SIGKILL, 128 + signal.SIGKILL}
        return f"{status} (as the kernel does where more than {most:,} MB of memory are used)" if killed else status


def _make_high_pipe() -> tuple[int, int]:
    """Make a pipe that never blocks its reader; its writing end does not collide with descriptors of scripts."""
    reader, low = os.pipe()
    os.set_blocking(reader, False)
    writer = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _LOWEST_DESCRIPTOR)
    os.close(low)
    return reader, writer


# Only a few commands run in the background at once. Each has the limits of any other command, except the time limit.
# The last characters of its output are kept until they are read. All of them end with the toolhost.

MOST_RUNNING = 4
_MOST_KEPT = 16
"""The most commands that are remembered, so that their output can still be read after their end."""
_WAIT_SECONDS = 10.0
"""How long a read waits for something new: asking again costs a request to the model."""
_ENDING_SECONDS = 10.0


class Shell:
    """One command in the background."""

    def __init__(self, host: Host, call: Call, arguments: Arguments) -> None:
        self.id = f"bash_{os.urandom(3).hex()}"  # random, so that it never names a command of an earlier toolhost
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
