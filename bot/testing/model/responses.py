"""Sends answers over HTTP, complete or with the requested fault."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from bot.testing.model.reply import Fault
from bot.testing.model.stream import frame
from bot.testing.model.wire import ApiError, Json

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


@dataclass(frozen=True, slots=True)
class Plain:
    """A JSON object with status 200, or `page` in its place. `cut` drops the connection in the middle of it."""

    body: Json
    cut: bool = False
    page: bytes = b""

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it as an ASGI application."""
        data = self.page or json.dumps(self.body, ensure_ascii=False).encode()
        await _start(send, 200, {"content-type": "application/json", "content-length": str(len(data))})
        if self.cut:
            # An application that returns in the middle of its body makes the server close the connection.
            await send({"type": "http.response.body", "body": data[: len(data) // 2], "more_body": True})
        else:
            await send({"type": "http.response.body", "body": data})


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error with its status. `retry_after` is in seconds."""

    error: ApiError
    retry_after: float | None = None
    page: bytes = b""
    """An HTML page to send in place of the error."""
    should_retry: bool | None = None
    """The value of the header x-should-retry, or None to omit it."""

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it as an ASGI application."""
        request_id = _request_id()
        data = self.page or json.dumps(self.error.body(request_id)).encode()
        kind = "text/html" if self.page else "application/json"
        headers = {"content-type": kind, "content-length": str(len(data))}
        if self.retry_after is not None:
            headers["retry-after"] = f"{self.retry_after:g}"
        if self.should_retry is not None:
            headers["x-should-retry"] = str(self.should_retry).lower()
        await _start(send, self.error.status, headers, request_id=request_id)
        await send({"type": "http.response.body", "body": data})


@dataclass(frozen=True, slots=True)
class Stream:
    """Server-sent events, `pace` seconds apart, up to the fault if there is one.

    Events between which no time passes are sent in one piece: where the pieces of a stream end has no meaning.
    """

    events: tuple[Json, ...]
    pace: float = 0.0
    fault: Fault | None = None

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the events as an ASGI application."""
        await _start(send, 200, {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"})
        waits = self.pace > 0 or (self.fault is not None and self.fault.kind == "stall")
        pieces = self._frames() if waits else _join(self._frames())
        async for data in pieces:
            await send({"type": "http.response.body", "body": data, "more_body": True})
        if self.fault is not None and self.fault.kind == "reset":
            scope["extensions"]["connection.abort"]["abort"]()
        elif self.fault is None or self.fault.kind != "disconnect":
            await send({"type": "http.response.body", "body": b""})

    async def _frames(self) -> AsyncIterator[bytes]:
        # Every fault strikes before message_stop.
        strikes = len(self.events) if self.fault is None else min(self.fault.after, len(self.events) - 1)
        for index, event in enumerate(self.events):
            if self.fault is not None and index == strikes:
                match self.fault.kind:
                    case "stall":
                        async for data in _quiet(self.fault):
                            yield data
                    case "garble":
                        yield b"event: odd\ndata: " + self.fault.page + b"\n\n"
                    case "error_event":
                        yield frame(ApiError(200, "scripted error", self.fault.error_type).body(_request_id()))
                        return
                    case _:
                        return
            if self.pace:
                await asyncio.sleep(self.pace)
            yield frame(event)


async def _join(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield all pieces as one."""
    yield b"".join([piece async for piece in pieces])


async def _quiet(fault: Fault) -> AsyncIterator[bytes]:
    """Wait for the duration of a stall, and yield its pings."""
    remaining = fault.seconds
    while fault.ping_every and remaining > 0:
        await asyncio.sleep(fault.ping_every)
        remaining -= fault.ping_every
        yield frame({"type": "ping"})
    await asyncio.sleep(max(remaining, 0.0))


Response: TypeAlias = Plain | Refusal | Stream


async def _start(send: Send, status: int, headers: dict[str, str], *, request_id: str = "") -> None:
    all_headers = {"request-id": request_id or _request_id(), **headers}
    pairs = [(name.encode(), value.encode()) for name, value in all_headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})


def _request_id() -> str:
    return f"req_{secrets.token_hex(12)}"
