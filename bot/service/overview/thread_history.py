"""A thread's journal, folded entry by entry: the one source of everything that is shown of the thread."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bot.core.entry import Entry
from bot.core.events import JournalEvent, decode_event
from bot.core.thread.state import ThreadState, apply


@dataclass(frozen=True, slots=True)
class JournalStep:
    """One entry, and the thread's state before and after it."""

    entry: Entry
    event: JournalEvent
    before: ThreadState
    after: ThreadState


def journal_steps(entries: Iterable[Entry]) -> Iterator[JournalStep]:
    """Yield the steps of a whole journal. Raises as `core.thread.state.apply` does."""
    state = ThreadState()
    for entry in entries:
        event = decode_event(entry.kind, entry.body)
        after = apply(state, event, entry.at)
        yield JournalStep(entry, event, state, after)
        state = after
