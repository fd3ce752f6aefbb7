"""The fold of a thread's events by the gate alone, without a journal."""

from collections.abc import Iterable

from bot.core.gate import Event, Thread, step


def replay(events: Iterable[Event]) -> Thread:
    """Return the thread after these events. Raises IllegalEvent."""
    thread = Thread()
    for event in events:
        thread, _ = step(thread, event)
    return thread
