"""A client of the toolhost: the real program, over real pipes."""

import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import forks

START = f"import sys; sys.path.insert(0, {str(forks.ROOT)!r}); from bot.toolhost.main import main; main()"
PROGRAM = (sys.executable, "-I", "-S", "-c", START)


@dataclass(frozen=True, slots=True)
class Got:
    """One answer."""

    text: str
    is_error: bool
    blocks: list[dict[str, Any]]
    stamps: dict[str, str]
    details: dict[str, Any]
    progress: list[str] = field(default_factory=list)


class Client:
    """Speaks to one toolhost; answers are taken by id, whatever their order.

    A fork of a process that has loaded the program, unless the whole program is wanted or something runs it.
    """

    def __init__(self, root: Path, prefix: Sequence[str] = (), *, whole: bool = False, **config: Any) -> None:
        self.root = root
        (source, stdin), (stdout, target) = os.pipe(), os.pipe()
        self.stdin, self.stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb")
        self.process: forks.Fork | subprocess.Popen[bytes]
        if whole or prefix:
            self.process = subprocess.Popen([*prefix, *PROGRAM], stdin=source, stdout=target)
        else:
            self.process = forks.toolhost().start(stdin=source, stdout=target, stderr=2)
        os.close(source)
        os.close(target)
        self._ids = itertools.count(1)
        self._arrived = threading.Condition()
        self._answers: dict[int | None, Got] = {}
        self._progress: dict[int | None, list[str]] = {}
        self.unexpected: list[bytes] = []
        env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
        self.send({"root": str(root), "writable": True, "memory_mb": 0, "seconds": 30, "rg": "rg", "env": env} | config)
        self.ready: dict[str, Any] = json.loads(self.stdout.readline())
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, message: dict[str, Any] | bytes) -> None:
        self.stdin.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
        self.stdin.flush()

    def start(self, operation: str, **arguments: Any) -> int:
        id_ = next(self._ids)
        arguments |= arguments.pop("options", {})
        self.send({"id": id_, "op": operation, "args": arguments})
        return id_

    def wait(self, id_: int | None) -> Got:
        with self._arrived:
            assert self._arrived.wait_for(lambda: id_ in self._answers, 30), "no answer"
            return self._answers.pop(id_)

    def wait_progress(self, id_: int) -> str:
        with self._arrived:
            assert self._arrived.wait_for(lambda: self._progress.get(id_), 30), "no progress"
            return self._progress[id_][-1]

    def call(self, operation: str, **arguments: Any) -> Got:
        return self.wait(self.start(operation, **arguments))

    def bash(self, command: str, **arguments: Any) -> Got:
        return self.call("Bash", command=command, **arguments)

    def peak_mb(self) -> int:
        """Return the most memory that the toolhost itself ever had, in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) // 1024

    def stamp(self, path: str) -> str:
        (stamp,) = self.call("Read", file_path=path).stamps.values()
        return stamp

    def close(self) -> int:
        """Close the pipe and give the exit code."""
        self.stdin.close()
        code = self.process.wait(20)
        if hasattr(self, "_reader"):
            self._reader.join(20)
        self.stdout.close()
        return code

    def _read(self) -> None:
        for line in self.stdout:
            message = json.loads(line)
            with self._arrived:
                match message:
                    case {"id": id_, "progress": str(text)}:
                        self._progress.setdefault(id_, []).append(text)
                    case {"id": id_, "text": _}:
                        progress = self._progress.get(message.pop("id"), [])
                        self._answers[id_] = Got(**message, progress=progress)
                    case _:
                        self.unexpected.append(line)
                self._arrived.notify_all()
