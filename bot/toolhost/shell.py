"""Bash: runs one command in its own session.

Rules: its output is limited while it is read; nothing that it starts outlives it; the working directory is kept for the
next command as long as it is in the checkout.
"""

import contextlib
import fcntl
import math
import os
import signal
import subprocess
import time

from bot.toolhost.command_limits import Excess, Meter
from bot.toolhost.operation import Arguments, Call, Host
from bot.toolhost.output import Output, RecentOutput
from bot.toolhost.processes import MOST_PROCESSES, Child, has_too_many_processes, read_some
from bot.toolhost.protocol import Failure, OperationResult

DEFAULT_SECONDS = 120.0
_GRACE_SECONDS = 1.0
"""Between asking a command to end and killing it: a cancelled command is gone within two seconds (S3)."""
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
        """Read what the command has written since; False at the end of its output."""
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
        """Let the command's processes end by themselves for a moment; after a timeout or cancellation, ask them to."""
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
        """Return what the command wrote, as far as it was kept, how much that was, and how it ended."""
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
        """Return what else there is to know about the command, one line each."""
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
