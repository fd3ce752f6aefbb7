"""Wakes listeners to news of threads in this process. It carries no content: a listener reads what is there."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bot.core.names import ThreadAddress

Sees = Callable[[int], bool]


@dataclass(slots=True)
class Announcements:
    """The listeners of each thread, and of the list of all threads. All methods belong to one event loop."""

    _listeners: dict[tuple[int, int], set[asyncio.Event]] = field(default_factory=lambda: defaultdict(set))
    _of_list: dict[asyncio.Event, Sees] = field(default_factory=dict)

    def announce(self, address: ThreadAddress) -> None:
        """Wake every listener of a thread: its journal was written to."""
        for news in self._listeners.get((address.repository, address.number), ()):
            news.set()

    def announce_list(self, repository: int) -> None:
        """Wake the listeners of the list who may see a repository: the thread index has changed there."""
        for news, sees in self._of_list.items():
            if sees(repository):
                news.set()

    @contextmanager
    def subscribe(self, address: ThreadAddress) -> Iterator[asyncio.Event]:
        """Yield an event that is set at each announcement of a thread while the context is open."""
        key, news = (address.repository, address.number), asyncio.Event()
        self._listeners[key].add(news)
        try:
            yield news
        finally:
            self._listeners[key].discard(news)
            if not self._listeners[key]:
                del self._listeners[key]

    @contextmanager
    def subscribe_to_list(self, sees: Sees) -> Iterator[asyncio.Event]:
        """Yield an event that is set at each announcement of the list while the context is open.

        `sees` returns whether the listener may see a repository, by its numeric id. What they may not see wakes nobody:
        they could tell from the time of a sign of life that something happened there.
        """
        news = asyncio.Event()
        self._of_list[news] = sees
        try:
            yield news
        finally:
            del self._of_list[news]
