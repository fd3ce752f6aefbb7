"""The toolhost's program: reads requests from a pipe, runs each in its own thread, and writes the answers.

Rules: nothing that a tool prints can reach the pipe; when the pipe closes, everything that was started is ended.
"""

import os
import signal
import sys
import threading
from typing import Any

from bot.toolhost.command_limits import confine, harden
from bot.toolhost.edits import edit, multi_edit, write
from bot.toolhost.files import changed_files, read
from bot.toolhost.merge import merge
from bot.toolhost.notebook import edit_notebook, read_notebook
from bot.toolhost.operation import Call, Host, Operation
from bot.toolhost.protocol import Config, Failure, OperationResult, Oversized, Writer, decode_request, lines
from bot.toolhost.search import glob, grep, ls
from bot.toolhost.shell import bash, bash_output, kill_shell, start_shell

OPERATIONS: dict[str, Operation] = {
    "Read": read,
    "Write": write,
    "Edit": edit,
    "MultiEdit": multi_edit,
    "NotebookRead": read_notebook,
    "NotebookEdit": edit_notebook,
    "LS": ls,
    "Glob": glob,
    "Grep": grep,
    "Bash": bash,
    "StartShell": start_shell,
    "BashOutput": bash_output,
    "KillShell": kill_shell,
    "Changed": changed_files,
    "Merge": merge,
}
_AT_ONCE = 10
_SCRATCH = ("/tmp", "/dev/shm")


class Dispatcher:
    """Turns requests into answers."""

    def __init__(self, host: Host, writer: Writer) -> None:
        self._host = host
        self._writer = writer
        self._places = threading.Semaphore(_AT_ONCE)
        self._calls: dict[int, Call] = {}

    def handle(self, line: bytes | Oversized) -> None:
        """Process one line; whatever it holds, this returns at once and raises nothing."""
        match decode_request(line):
            case {"cancel": int(id_)}:
                if call := self._calls.get(id_):
                    call.cancelled.set()
            case {"id": int(id_), "op": str(name), "args": dict(arguments)} if name in OPERATIONS:
                call = self._calls[id_] = Call(id_, self._writer, threading.Event())
                threading.Thread(target=self._run, args=(call, name, arguments), daemon=True).start()
            case {"id": int(id_), "op": str(name)}:
                self._writer.answer(
                    id_, OperationResult(f"The toolhost has no operation {name!r} of this form.", is_error=True)
                )
            case Oversized(id_):
                self._writer.answer(id_, OperationResult("The request is longer than 16 MiB.", is_error=True))
            case _:
                self._writer.answer(None, OperationResult("This line is not a request.", is_error=True))

    def _run(self, call: Call, name: str, arguments: dict[str, Any]) -> None:
        """Run one operation and write its answer: the outermost layer, where every error becomes an answer."""
        with self._places:
            answer = self._answer(call, name, arguments)
        self._calls.pop(call.id, None)
        try:
            self._writer.answer(call.id, answer)
        except OSError:
            os._exit(0) if self._host.is_first_process else os.kill(os.getpid(), signal.SIGTERM)

    def _answer(self, call: Call, name: str, arguments: dict[str, Any]) -> OperationResult:
        """Run one operation, unless it was cancelled while it was queued."""
        if call.cancelled.is_set():
            return OperationResult("Cancelled.", is_error=True)
        try:
            return OPERATIONS[name](self._host, call, arguments)
        except Failure as failure:
            return OperationResult(str(failure), is_error=True)
        except OSError as error:
            return OperationResult(f"{name} failed: {error.strerror or error}", is_error=True)
        except Exception as error:  # noqa: BLE001 - the outermost layer
            return OperationResult(f"{name} failed in the toolhost: {type(error).__name__}: {error}", is_error=True)


def main() -> None:
    """Serve one checkout until standard input ends."""
    source, target = _private_pipes()
    # The first process of a sandbox ignores its tools' signals as long as it has no handlers (pid_namespaces(7)).
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    wakers = () if os.getpid() == 1 else (_open_signal_pipe(),)
    writer = Writer(target)
    incoming = lines(source, *wakers)
    harden()
    try:
        host = _host(next(incoming, b""))
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        writer.send({"ready": False, "text": f"bad configuration: {type(error).__name__}: {error}"})
        sys.exit(1)
    dispatcher = Dispatcher(host, writer)
    try:
        writer.send({"ready": True, "pid": os.getpid()})
        for line in incoming:
            dispatcher.handle(line)
    except BrokenPipeError:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        host.children.end_all()
        os._exit(0)


def _open_signal_pipe() -> int:
    """Let SIGTERM end this program, and return a pipe that becomes readable when the signal arrives.

    A signal that arrives just before a read begins does not interrupt the read (signal.set_wakeup_fd).
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer)
    return reader


def _private_pipes() -> tuple[int, int]:
    """Move the pipe away from the standard descriptors: input, output and errors of programs are /dev/null."""
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    return source, target


def _host(line: bytes | Oversized) -> Host:
    """Return the host that the first line describes; raises ValueError, KeyError, TypeError or OSError."""
    if isinstance(line, Oversized):
        raise TypeError("the configuration is too long")
    config = Config.parse(line)
    os.chdir(config.root)
    host = Host(config)
    if host.is_first_process:
        confine([*_SCRATCH, *([config.root] if config.writable else [])], ["/dev"])
    if config.egress:
        from bot.toolhost import tunnel  # late: most sandboxes have no way out

        tunnel.start(config.egress)  # after `confine`, which covers only threads that start later
    return host
