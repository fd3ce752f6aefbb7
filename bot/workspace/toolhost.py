"""The client of a toolhost: one sandboxed process, addressed in JSON lines over a pipe (T3a).

Rules
- An attacker controls what comes out of a sandbox: every answer is checked and limited before it is passed on.
- Cancelling a call ends everything that it started. A toolhost that does not obey is killed with all its processes.
- A dead toolhost answers every call with an error; it raises nothing.
"""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bot.core.errors import Broken, NoSandbox
from bot.core.transcript import Json
from bot.ports import ToolOutput
from bot.workspace import run, sandbox

LINE_LIMIT: Final = 32 << 20
"""The most bytes of one answer. The longest that a toolhost should send is an image of 5 MB in base64."""

TEXT_LIMIT: Final = 1_000_000
_START_SECONDS = 20.0
_OBEY_SECONDS = 3.0
_CLOSE_SECONDS = 1.0
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_PROGRAM = "import sys; sys.path.insert(0, {place!r}); from bot.toolhost.main import main; main()"

Progress = Callable[[str], None]


def program(python: str, place: str) -> list[str]:
    """Return the command that starts the toolhost from the package in `place`: isolated, without site packages."""
    return [python, "-I", "-S", "-c", _PROGRAM.format(place=place)]


class SandboxedToolhost:
    """A running toolhost; made by `start`."""

    def __init__(self, process: asyncio.subprocess.Process, after: Callable[[], Awaitable[None]] | None = None) -> None:
        self._process = process
        self._after = after
        self._answers: dict[int, asyncio.Future[ToolOutput]] = {}
        self._progress: dict[int, Progress] = {}
        self._last = 0
        self._closed = False
        self._listening: asyncio.Task[None] | None = None
        self._groups: tuple[Path, ...] = ()

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        config: Json,
        *,
        environment: Mapping[str, str],
        descriptors: Sequence[int] = (),
        after: Callable[[], Awaitable[None]] | None = None,
    ) -> "SandboxedToolhost":
        """Start a toolhost and wait until it is ready; raises NoSandbox if it does not start.

        The command inherits `descriptors` in addition to the standard ones: the filter, if it is a sandbox. `after` is
        awaited once the toolhost has been closed.
        """
        process = await run.start_process(
            asyncio.create_subprocess_exec(
                *command,
                cwd="/",
                env=dict(environment),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=LINE_LIMIT,
                start_new_session=True,
                pass_fds=descriptors,
            )
        )
        host = cls(process, after)
        try:
            await host._send_configuration(config)
        except BaseException:
            await host.close()
            raise
        if descriptors:
            _raise_priority(process.pid)
            host._groups = sandbox.enclose(_process_tree(process.pid), memory_mb=int(config.get("memory_mb") or 0))
        host._listening = asyncio.create_task(host._read_answers())
        return host

    async def call(
        self, operation: str, arguments: Json, *, progress: Progress | None = None, timeout: float = 660.0
    ) -> ToolOutput:
        """Run one operation. Cancellation or a timeout ends everything that it started."""
        if self._is_gone:
            return _ended_answer()
        self._last += 1
        number = self._last
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        if progress is not None:
            self._progress[number] = progress
        try:
            await self._send({"id": number, "op": operation, "args": arguments})
            async with asyncio.timeout(timeout):
                return await asyncio.shield(answer)
        except TimeoutError:
            last_text = f"\n{answer.result().text}" if await self._stop(number, answer) else ""
            return ToolOutput(
                f"{operation} did not end within {timeout:g} s and was stopped.{last_text}", is_error=True
            )
        except asyncio.CancelledError:
            await asyncio.shield(self._stop(number, answer))
            raise
        finally:
            self._answers.pop(number, None)
            self._progress.pop(number, None)

    async def close(self) -> None:
        """End the process and everything in its sandbox within 2 seconds, then clean up; closing again is no error."""
        self._closed = True
        try:
            if self._process.stdin is not None:
                self._process.stdin.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._process.wait()
            await self._kill()
            if self._listening is not None:
                await asyncio.wait([self._listening])
            self._fail_waiting_calls()
        finally:
            try:
                await self._kill()  # in case the wait for the end of the process was cancelled
            finally:
                if self._after is not None:
                    await self._after()

    @property
    def _is_gone(self) -> bool:
        return (
            self._closed
            or self._process.returncode is not None
            or (self._listening is not None and self._listening.done())
        )

    async def _send_configuration(self, config: Json) -> None:
        try:
            async with asyncio.timeout(_START_SECONDS):
                await self._send(config)
                line = await self._line()
        except TimeoutError:
            line = b""
        hello = _decode_line(line)
        if hello.get("ready") is True:
            return
        message = str(hello.get("text") or await self._read_startup_error())
        if line:
            raise Broken(f"the toolhost refused its configuration: {message[:500]}")
        fix = sandbox.cure(message) if message.startswith("bwrap: ") else "run `plangate doctor`"
        raise NoSandbox("the sandbox did not start", where=message[:500], fix=fix)

    async def _read_startup_error(self) -> str:
        """Kill a toolhost that did not start, and return what it wrote to its standard error."""
        await self._kill()
        errors = self._process.stderr
        return (await errors.read(4096)).decode(errors="replace").strip() if errors is not None else ""

    async def _send(self, message: Json) -> None:
        """Write one line. A closed pipe is not an error here: the call that waits learns that the toolhost is dead."""
        stream = self._process.stdin
        with suppress(BrokenPipeError, ConnectionResetError, RuntimeError):
            if stream is not None:
                stream.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
                await stream.drain()

    async def _line(self) -> bytes:
        """Read one line; empty at the end of the pipe, and for a line that is too long."""
        stream = self._process.stdout
        try:
            return await stream.readline() if stream is not None else b""
        except ValueError:
            return b""

    async def _read_answers(self) -> None:
        """Pass each answer to the call that waits for it, until the pipe ends."""
        errors = asyncio.ensure_future(run.drain(self._process.stderr))
        while line := await self._line():
            self._handle_message(_decode_line(line))
        # asyncio reports the end of the process only after its output has been read.
        await asyncio.gather(self._kill(), run.drain(self._process.stdout))
        errors.cancel()
        self._fail_waiting_calls()

    def _handle_message(self, message: Json) -> None:
        """Process one message, and drop a message for which no call waits."""
        number = message.get("id")
        if not isinstance(number, int):
            return
        answer = self._answers.get(number)
        if answer is None or answer.done():
            return
        if isinstance(line := message.get("progress"), str):
            if hear := self._progress.get(number):
                hear(line[:TEXT_LIMIT])
            return
        answer.set_result(_output(message))

    async def _stop(self, number: int, answer: "asyncio.Future[ToolOutput]") -> bool:
        """Cancel one call, and kill the toolhost if it does not obey. Return whether the call was answered."""
        await self._send({"cancel": number})
        done, _ = await asyncio.wait([answer], timeout=_OBEY_SECONDS)
        if not done:
            await self._kill()
        return bool(done)

    async def _kill(self) -> None:
        """Kill the sandbox's first process, which ends all others in it; bubblewrap ends after them."""
        if self._process.returncode is not None:
            return
        for pid in _children(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS / 2):
                await self._process.wait()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    def _fail_waiting_calls(self) -> None:
        """Answer every waiting call with an error, and remove the control groups."""
        sandbox.remove(self._groups)
        self._groups = ()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result(_ended_answer())


def _children(pid: int) -> tuple[int, ...]:
    try:
        return tuple(int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    except OSError:
        return ()


def _process_tree(pid: int) -> tuple[int, ...]:
    return (pid, *(descendant for child in _children(pid) for descendant in _process_tree(child)))


def _raise_priority(pid: int) -> None:
    """Prioritize the sandbox's watch over what it watches, if this user may set it (sched(7), autogroup).

    Each session of processes gets an equal share of the processors, and a command can start thousands of sessions.
    """
    for process in _process_tree(pid):
        with suppress(OSError):
            Path(f"/proc/{process}/autogroup").write_text("-20")


def _ended_answer() -> ToolOutput:
    return ToolOutput("The sandbox of this session has ended; nothing was run.", is_error=True)


def _decode_line(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _output(message: Json) -> ToolOutput:
    text, blocks, stamps, details = (message.get(name) for name in ("text", "blocks", "stamps", "details"))
    if not isinstance(text, str):
        return ToolOutput("The sandbox gave an answer that could not be read.", is_error=True)
    return ToolOutput(
        text=text if len(text) <= TEXT_LIMIT else f"{text[:TEXT_LIMIT]}\n[cut: {len(text):,} characters]",
        is_error=message.get("is_error") is not False,
        blocks=tuple(block for block in blocks if _is_image(block)) if isinstance(blocks, list) else (),
        stamps={path: str(stamp) for path, stamp in stamps.items()} if isinstance(stamps, dict) else {},
        details=details if isinstance(details, dict) else {},
    )


def _is_image(block: object) -> bool:
    """Return whether a content block is an image: https://platform.claude.com/docs/en/build-with-claude/vision."""
    match block:
        case {"type": "image", "source": {"type": "base64", "media_type": str(kind), "data": str(), **source}, **rest}:
            return kind in _IMAGES and not source and not rest
        case _:
            return False
