"""The result of one run from the terminal, on a local repository or a GitHub thread, and its listeners."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bot.agent.limits import Ledger
from bot.agent.session_events import AgentEvent
from bot.core.thread.state import ThreadState
from bot.terminal import SessionPrinter

Listener = Callable[[AgentEvent], None]


@dataclass(slots=True)
class TerminalRun:
    """The result of a run."""

    state: ThreadState
    ledger: Ledger
    printer: SessionPrinter
    uncommitted: int = 0
    transcript: Path | None = None


def combine_listeners(first: Listener, second: Listener) -> Listener:
    """Return a listener that passes each event to two listeners."""

    def listener(event: AgentEvent) -> None:
        first(event)
        second(event)

    return listener
