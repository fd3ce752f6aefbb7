"""Wakes what waits for news of a thread in this process. It carries no content: whoever wakes reads the journal."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bot.core.names import ThreadAddress


@dataclass(slots=True)
class Announcements:
    """The listeners of each thread. All methods belong to one event loop."""

    _listeners: dict[tuple[int, int], set[asyncio.Event]] = field(default_factory=lambda: defaultdict(set))

    def announce(self, address: ThreadAddress) -> None:
        """Wake every listener of a thread."""
        for news in self._listeners.get((address.repository, address.number), ()):
            news.set()

    @contextmanager
    def listen(self, address: ThreadAddress) -> Iterator[asyncio.Event]:
        """Yield an event that is set at each announcement while the context is open."""
        key, news = (address.repository, address.number), asyncio.Event()
        self._listeners[key].add(news)
        try:
            yield news
        finally:
            self._listeners[key].discard(news)
            if not self._listeners[key]:
                del self._listeners[key]
