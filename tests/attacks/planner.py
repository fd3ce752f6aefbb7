"""A planning session with a crew on a real sandbox, whose gate the test chooses, and somebody who listens for calls."""

import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.agent.assembly import SessionSettings, assemble_session
from bot.agent.limits import Ledger
from bot.agent.model.anthropic_model import AnthropicModel
from bot.agent.permissions.tool_gate import CallKind, Decision, Mode, PermissionGate, Ruling
from bot.agent.prompts import Environment
from bot.agent.resources import SessionPlace, SessionResources
from bot.agent.session import Session
from bot.agent.subagents.types import TYPES
from bot.clock import SystemClock
from bot.core.names import SessionId
from bot.ports import Access, Toolhost
from bot.workspace.local_repository import LocalRepository
from bot.workspace.workspace import GitWorkspace
from tests.memory_store import MemoryTranscripts
from tests.stories.ground import PROMPT, Person


class Permissive(PermissionGate):
    """A gate that lets everything through: what is left is the sandbox."""

    def decide(self, mode: Mode, kind: CallKind, tool: str, tool_input: dict[str, Any]) -> Ruling:  # noqa: ARG002 - the gate's
        return Ruling(Decision.ALLOW)


@dataclass(frozen=True, slots=True)
class Planner:
    """A session that plans, the toolhost it has, and where its checkout lies."""

    session: Session
    host: Toolhost
    tree: Path


@asynccontextmanager
async def planner(person: Person, gate: PermissionGate) -> AsyncIterator[Planner]:
    """Yield a planning session with that gate, on a real sandbox with read access; sub-agents have their own."""
    clock, ledger = SystemClock(), Ledger()
    model = AnthropicModel(clock, "test", base_url=person.base_url)
    source = await LocalRepository.open(person.repository)
    workspace = GitWorkspace.on(source, person.data)
    checkout = await workspace.checkout("attacked", source.head)
    host = await workspace.open(checkout, Access.READ)
    try:
        environment = Environment(checkout.shown_as, "Linux", "2026-11-21", "shop", str(source.head))
        session, _ = assemble_session(
            SessionSettings(SessionId("attack"), TYPES),
            SessionResources(model, MemoryTranscripts(), clock, gate, ledger),
            place=SessionPlace(workspace, checkout, host, environment),
        )
        session.begin({"role": "user", "content": [{"type": "text", "text": PROMPT}]})
        yield Planner(session, host, Path(checkout.path))
    finally:
        await workspace.close()
        await model.close()


@dataclass(slots=True)
class Listener:
    """Somebody on the machine's loopback who notes every call."""

    port: int
    calls: list[str] = field(default_factory=list)


@contextmanager
def listening() -> Iterator[Listener]:
    """Listen on a port of this machine, for streams and for datagrams."""
    with socket.create_server(("127.0.0.1", 0)) as stream, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(("127.0.0.1", stream.getsockname()[1]))
        listener = Listener(stream.getsockname()[1])
        ends = threading.Event()
        for each in (stream, datagrams):
            each.settimeout(0.1)

        def take() -> None:
            while not ends.is_set():
                for receive in (stream.accept, lambda: datagrams.recvfrom(1)):
                    try:
                        listener.calls.append(str(receive()))
                    except TimeoutError:
                        continue

        thread = threading.Thread(target=take)
        thread.start()
        try:
            yield listener
        finally:
            ends.set()
            thread.join()
