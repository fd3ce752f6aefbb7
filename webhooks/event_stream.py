"""Server-sent events over one connection: limited in number, kept alive, and ended for clients that do not read.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from webhooks.access import Problem
from webhooks.client_limits import EXTENSION

MOST_STREAMS: Final = 100
"""Maximum number of open streams. It leaves connections for other clients (`webhooks.client_limits.ClientLimits`)."""
STREAMS_PER_PERSON: Final = 6
"""Open streams of one person, who may have several tabs. Once half of all streams are open, a person gets only one."""
STREAM_SECONDS: Final = 600.0
"""Seconds that a stream lasts. The client then connects again, and its right to read is checked again."""
SEND_SECONDS: Final = 10.0
"""Seconds that a client may take to read when its buffers are full."""
RETRY_MILLISECONDS: Final = 1_000
"""How long a browser waits before it connects again."""


@dataclass(slots=True)
class Streams:
    """Counts the open streams of one service."""

    most: int = MOST_STREAMS
    seconds: float = STREAM_SECONDS
    send_seconds: float = SEND_SECONDS
    _open: Counter[int] = field(init=False, default_factory=Counter)
    """Number of open streams of each person, by the account's number; 0 for the operator."""
    is_over: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    """Set when the service ends, and every stream with it."""

    def end(self) -> None:
        """End every stream, so that none delays the end of the service. Clients connect again, to the next process."""
        self.is_over.set()

    @property
    def count(self) -> int:
        """Number of open streams."""
        return self._open.total()

    def check(self, person: int = 0) -> None:
        """Raise Problem if there are too many, or too many of one person."""
        own = (STREAMS_PER_PERSON if self.count < self.most // 2 else 1) if person else self.most
        if self.count >= self.most or self._open[person] >= own:
            fix = "try again later, or read the journal"
            raise Problem(503, "too many event streams are open", "events", fix, headers={"retry-after": "10"})

    @contextmanager
    def open(self, person: int) -> Iterator[None]:
        """Count a stream while the context is open. Raises Problem as `check` does."""
        self.check(person)
        self._open[person] += 1
        try:
            yield
        finally:
            self._open -= Counter((person,))  # removes persons without a stream


def encode_event(name: str, value: Any, id: int) -> bytes:
    """Return one event. Its data is JSON on one line."""
    return f"id: {id}\nevent: {name}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n".encode()


SIGN_OF_LIFE: Final = b": alive\n\n"


class EventStream(Response):
    """The response that sends a stream's events to a person.

    It ends when the events or the service end, when the client leaves, or after STREAM_SECONDS.
    """

    media_type = "text/event-stream"

    def __init__(self, streams: Streams, events: AsyncGenerator[bytes], *, person: int = 0) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})  # nginx would collect events
        del self.headers["content-length"]
        self._streams = streams
        self._events = events
        self._person = person

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the end. A client that does not read is cut off."""
        connection = scope.get("extensions", {}).get(EXTENSION, {})
        connection.get("hold", _do_nothing)()
        with self._streams.open(self._person):
            sending = asyncio.create_task(self._send_all(send))
            leaving = asyncio.create_task(_wait_for_end(receive))
            ending = asyncio.create_task(self._streams.is_over.wait())
            tasks: set[asyncio.Task[Any]] = {sending, leaving, ending}
            try:
                await asyncio.wait(tasks, timeout=self._streams.seconds, return_when=asyncio.FIRST_COMPLETED)
                await self._end(sending, send)
            except TimeoutError:
                connection.get("cut_off", _do_nothing)()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                await self._events.aclose()

    async def _send_all(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        await self._send(send, f"retry: {RETRY_MILLISECONDS}\n\n".encode())
        async for event in self._events:
            await self._send(send, event)

    async def _send(self, send: Send, body: bytes) -> None:
        async with asyncio.timeout(self._streams.send_seconds):
            await send({"type": "http.response.body", "body": body, "more_body": True})

    async def _end(self, sending: "asyncio.Task[None]", send: Send) -> None:
        """End the response, between two events. Raises TimeoutError if the client does not read."""
        if not sending.done():
            sending.cancel()
            await asyncio.wait({sending})
        elif (error := sending.exception()) is not None:
            raise error
        async with asyncio.timeout(self._streams.send_seconds):
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _wait_for_end(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _do_nothing() -> None:
    pass
