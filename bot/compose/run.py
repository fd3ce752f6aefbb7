"""What one run from the terminal came to, on a local repository or on a thread of GitHub, and who hears it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bot.agent.events import AgentEvent
from bot.agent.limits import Ledger
from bot.terminal import Story
from bot.workflow.record import Record

Listener = Callable[[AgentEvent], None]


@dataclass(slots=True)
class Run:
    """What a run came to."""

    record: Record
    ledger: Ledger
    story: Story
    uncommitted: int = 0
    transcript: Path | None = None


def both(first: Listener, second: Listener) -> Listener:
    """Give a listener that hands each event to two."""

    def listener(event: AgentEvent) -> None:
        first(event)
        second(event)

    return listener
