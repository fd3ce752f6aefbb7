"""The ports of a thread in memory: files, branches, pull requests, and a model that follows a script.

What is durable outlives a process: `Life` says after how many writes the process dies, and then nothing writes more.
"""

import asyncio
import hashlib
import json
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from bot.core.approval import ApprovedPlan
from bot.core.errors import Conflict, OutOfScope
from bot.core.names import CommitId, SessionId, ThreadNumber, branch_prefix
from bot.core.network import NO_NETWORK, Network
from bot.core.transcript import Json, Line
from bot.core.work import (
    UNBOUND,
    Checkout,
    CommitOrder,
    FrozenWork,
    MergeResult,
    PullCommits,
    PullOrder,
    PullRequest,
    PushedWork,
    SandboxBounds,
)
from bot.ports import (
    Abilities,
    Access,
    AnswerCompleted,
    AnswerStarted,
    BeforePush,
    Clock,
    ModelEvent,
    ModelRequest,
    Pulls,
    Toolhost,
    ToolOutput,
    Usage,
)
from tests.memory_store import MemoryJournal, MemoryTranscripts

FOLDER: Final = "/home/checkout"
_T = TypeVar("_T")
PRICE_USD: Final = 0.01
"""What each answer of the model costs."""


class Death(BaseException):
    """The process died. Nothing catches it, and what still runs writes nothing more."""


@dataclass(slots=True)
class Life:
    """How many writes a process makes before it dies, and what it wrote."""

    left: float = math.inf
    writes: list[str] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self, what: str) -> None:
        """Note a write that is about to happen, or die instead."""
        if self.left <= 0:
            self.over.set()
            raise Death(what)
        self.left -= 1
        self.writes.append(what)

    def begin(self, writes: float = math.inf) -> None:
        """Begin a new process, which makes that many writes."""
        self.left, self.writes, self.over = writes, [], asyncio.Event()

    async def live(self, work: Coroutine[object, object, _T]) -> _T:
        """Return what the work of this process comes to; raises Death as soon as it has died."""
        working, dying = asyncio.ensure_future(work), asyncio.ensure_future(self.over.wait())
        try:
            await asyncio.wait({working, dying}, return_when=asyncio.FIRST_COMPLETED)
            if self.over.is_set():
                raise Death
            return working.result()
        finally:
            working.cancel()
            dying.cancel()
            await asyncio.gather(working, dying, return_exceptions=True)


class MortalTranscripts(MemoryTranscripts):
    """Transcripts whose writer may die before it appends."""

    def __init__(self, life: Life) -> None:
        super().__init__()
        self._life = life

    def append(self, session: SessionId, lines: Sequence[Line]) -> None:
        if lines:
            self._life.write(f"transcript of {session}: {', '.join(str(line.kind) for line in lines)}")
        super().append(session, lines)


class MortalJournal(MemoryJournal):
    """A journal whose writer may die before it appends."""

    def __init__(self, clock: Clock, life: Life) -> None:
        super().__init__(clock)
        self._life = life

    async def append(self, thread: ThreadNumber, expected: int, entries: Sequence[tuple[str, Json]]) -> int:
        if entries:
            self._life.write(f"journal {', '.join(kind for kind, _ in entries)}")
        return await super().append(thread, expected, entries)

    def set_back(self, thread: ThreadNumber, length: int) -> None:
        """Somebody who can push sets the thread's ref back to an older state."""
        self._lines[thread] = self._lines[thread][:length]


Files = dict[str, str]


@dataclass(slots=True)
class MemoryHost:
    """The Toolhost port: writes files, and runs commands that are functions of them."""

    files: Files
    commands: Mapping[str, Callable[[Files], int | None]]
    life: Life
    closed: bool = False

    async def call(
        self,
        operation: str,
        arguments: Json,
        *,
        progress: Callable[[str], None] | None = None,  # noqa: ARG002 - the port's
        timeout: float = 660.0,  # noqa: ARG002
    ) -> ToolOutput:
        match operation:
            case "Write":
                self.life.write("file")
                self.files[arguments["file_path"]] = arguments["content"]
                return ToolOutput("Written.")
            case "Bash":
                known = [line for line in arguments["command"].splitlines() if line in self.commands]
                code = self.commands[known[0]](self.files) if known else 0
                ended = "timeout" if code is None else ""
                return ToolOutput(
                    "(no output)" if code == 0 else f"exit code {code}",
                    details={"exit_code": code, "seconds": 0.1, "ended": ended},
                )
            case _:
                return ToolOutput("")

    async def close(self) -> None:
        self.closed = True


@dataclass(slots=True)
class MemoryWorkspace:
    """The Workspace port: checkouts are dictionaries of what differs from the base, and branches name commits."""

    life: Life
    commands: dict[str, Callable[[Files], int | None]] = field(default_factory=dict)
    checkouts: dict[str, Files] = field(default_factory=dict)
    branches: dict[str, CommitId] = field(default_factory=dict)
    pushed: list[CommitOrder] = field(default_factory=list)
    asked: list[tuple[str, PullCommits | None]] = field(default_factory=list)
    """The checkouts that were asked for: name, and the pull request whose commits git names there."""
    opened: list[tuple[Access, Network]] = field(default_factory=list)
    symlinks: dict[str, str] = field(default_factory=dict)
    """The symbolic links of every commit."""
    while_copying: Callable[[], Awaitable[object]] | None = None
    """What happens while the next work is copied and screened."""

    async def checkout(
        self,
        name: str,
        base: CommitId,
        kept: Callable[[], bytes] = bytes,
        *,
        fresh: bool = False,
        pull: PullCommits | None = None,
    ) -> Checkout:
        self.asked.append((name, pull))
        if fresh or name not in self.checkouts:
            self.checkouts[name] = json.loads(kept() or b"{}")
        refs = () if pull is None else (("plangate/head", pull.head),)
        return Checkout(f"/{name}", FOLDER, base, refs=refs)

    async def keep(self, checkout: Checkout) -> bytes:
        return json.dumps(self._files(checkout)).encode()

    async def changed_paths(self, checkout: Checkout) -> tuple[str, ...]:
        return tuple(sorted(self._files(checkout)))

    async def links(self, commit: CommitId) -> dict[str, str]:  # noqa: ARG002
        return self.symlinks

    async def fork(self, checkout: Checkout, name: str, *, lasting: bool = False) -> Checkout:  # noqa: ARG002
        self.checkouts[name] = dict(self._files(checkout))
        return replace(checkout, path=f"/{name}")

    async def freeze(self, checkout: Checkout, name: str, leftovers: Mapping[str, str]) -> FrozenWork:  # noqa: ARG002
        copy = await self.fork(checkout, name)
        return FrozenWork(copy, _tree(self._files(copy)), await self.changed_paths(copy))

    async def merge(self, fork: Checkout, into: Checkout) -> MergeResult:
        changed = self._files(fork)
        self._files(into).update(changed)
        return MergeResult(tuple(changed), {})

    async def open(
        self,
        checkout: Checkout,
        access: Access,
        *,
        network: Network = NO_NETWORK,
        bounds: SandboxBounds = UNBOUND,  # noqa: ARG002 - the port's
    ) -> Toolhost:
        self.opened.append((access, network))
        return MemoryHost(self._files(checkout), self.commands, self.life)

    async def publish(
        self, plan: ApprovedPlan, checkout: Checkout, commit: CommitOrder, *, before_push: BeforePush | None = None
    ) -> PushedWork:
        paths, tree = await self.changed_paths(checkout), _tree(self._files(checkout))
        if outside := tuple(path for path in paths if not plan.document.contract.reaches(path)):
            raise OutOfScope(outside, tree)
        head = CommitId(hashlib.sha256(f"{commit}{tree}".encode()).hexdigest()[:40])
        made = PushedWork(commit.branch, head, paths)
        if self.while_copying is not None:
            happens, self.while_copying = self.while_copying, None
            await happens()
        if before_push is not None:
            await before_push(made)
        there = self.branches.get(commit.branch)
        if there not in {commit.expected, head}:
            raise Conflict("the branch holds something else", where=commit.branch)
        if there != head:
            self.life.write("push")
            self.branches[commit.branch] = head
            self.pushed.append(commit)
        return made

    async def discard(self, checkout: Checkout) -> None:
        self.checkouts.pop(checkout.path[1:], None)

    def _files(self, checkout: Checkout) -> Files:
        return self.checkouts[checkout.path[1:]]


def _tree(files: Files) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:40]


@dataclass(slots=True)
class MemoryPulls(Pulls):
    """The Pulls port over the branches of a workspace."""

    life: Life
    branches: Mapping[str, CommitId]
    orders: list[PullOrder] = field(default_factory=list)
    closed: set[int] = field(default_factory=set)
    merged: set[int] = field(default_factory=set)

    async def ensure(self, order: PullOrder) -> PullRequest | None:
        number = await self.find(order.branch)
        if number is None or number in self.closed:
            self.life.write("pull request")
            self.orders.append(order)
            number = 100 + len(self.orders)
        return PullRequest(number, f"https://example.org/pull/{number}", draft=order.draft)

    async def head(self, number: int) -> CommitId | None:
        is_open = number not in self.closed and number <= 100 + len(self.orders)
        return self.branches[self.orders[number - 101].branch] if is_open else None

    async def is_merged(self, number: int) -> bool:
        return number in self.merged

    async def find(self, branch: str) -> int | None:
        numbers = (101 + n for n, order in enumerate(self.orders) if order.branch == branch)
        return max(numbers, default=None)

    async def open_on(self, thread: ThreadNumber) -> tuple[int, ...]:
        mine = [n for n, order in enumerate(self.orders, 101) if order.branch.startswith(branch_prefix(thread))]
        return tuple(number for number in mine if number not in self.closed)


Script = Callable[[ModelRequest], list[Json]]
"""The content of the next answer."""


@dataclass(slots=True)
class ScriptedAnswers:
    """The Model port: answers by a script, at one price."""

    script: Script
    requests: list[ModelRequest] = field(default_factory=list)
    meanwhile: dict[int, Callable[[], Awaitable[object]]] = field(default_factory=dict)
    """What happens while a request waits for its answer, by the number of the request."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.requests.append(replace(request, messages=list(request.messages)))
        if (happens := self.meanwhile.pop(len(self.requests), None)) is not None:
            await happens()
        content = self.script(request)
        called = any(block["type"] == "tool_use" for block in content)
        yield AnswerStarted()
        message = {"role": "assistant", "content": content}
        yield AnswerCompleted(message, "tool_use" if called else "end_turn", Usage(100, 10), PRICE_USD, request.model)

    def abilities(self, model: str) -> Abilities:
        return Abilities(200_000, summarizes=False, binds=False, id=model)
