"""Sends answers over HTTP, complete or with the requested fault.

https://platform.claude.com/docs/en/build-with-claude/streaming
"""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from starlette.types import Receive, Scope, Send

from bot.testing.model.messages_service import ModelAnswer
from bot.testing.model.reply import Fault
from bot.testing.model.request_view import ApiError, Json

PIECES = 3
LONGEST_PIECE = 400


def frame(event: Json) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def events(answer: ModelAnswer, *, at_once: bool = False) -> Iterator[Json]:
    """Yield all events of an answer, from message_start to message_stop. If `at_once`, the first holds all of it."""
    message = answer.message
    if at_once:
        yield from ({"type": "message_start", "message": message}, {"type": "message_stop"})
        return
    usage = {**message["usage"], "output_tokens": min(1, message["usage"]["output_tokens"])}
    start = {**message, "content": [], "stop_reason": None, "stop_sequence": None, "stop_details": None, "usage": usage}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(message["content"]):
        opened, deltas = _block_events(block, answer.malformed.get(index))
        yield {"type": "content_block_start", "index": index, "content_block": opened}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield _message_delta(message)
    yield {"type": "message_stop"}


def _message_delta(message: Json) -> Json:
    stopped = {name: message[name] for name in ("stop_reason", "stop_sequence", "stop_details")}
    # The usage of a message_delta is cumulative and does not repeat the split of cache writes.
    usage = {name: value for name, value in message["usage"].items() if name not in {"cache_creation", "service_tier"}}
    event: Json = {"type": "message_delta", "delta": stopped, "usage": usage}
    if "context_management" in message:
        event["context_management"] = message["context_management"]
    return event


def _block_events(block: Json, malformed: str | None) -> tuple[Json, list[Json]]:
    """Return a block as content_block_start shows it, and the deltas that complete it."""
    match block["type"]:
        case "text":
            return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
        case "thinking":
            thoughts = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
            signed = [{"type": "signature_delta", "signature": block["signature"]}] if block["signature"] else []
            return {**block, "thinking": "", "signature": ""}, [*thoughts, *signed]
        case "tool_use" | "server_tool_use":
            text = malformed if malformed is not None else json.dumps(block["input"], ensure_ascii=False)
            parts = ["", *_pieces(text)] if block["input"] or malformed is not None else [""]
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]
        case _:
            return block, []


def _pieces(text: str) -> Iterator[str]:
    size = max(1, min(LONGEST_PIECE, -(-len(text) // PIECES)))
    for start in range(0, len(text), size):
        yield text[start : start + size]


@dataclass(frozen=True, slots=True)
class Plain:
    body: Json
    cut: bool = False
    page: bytes = b""

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        data = self.page or json.dumps(self.body, ensure_ascii=False).encode()
        await _start(send, 200, {"content-type": "application/json", "content-length": str(len(data))})
        if self.cut:
            # An application that returns in the middle of its body makes the server close the connection.
            await send({"type": "http.response.body", "body": data[: len(data) // 2], "more_body": True})
        else:
            await send({"type": "http.response.body", "body": data})


@dataclass(frozen=True, slots=True)
class Refusal:
    error: ApiError
    retry_after: float | None = None
    page: bytes = b""
    should_retry: bool | None = None

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
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

    Events without a pause between them are sent in one piece, since the borders of pieces have no meaning.
    """

    events: tuple[Json, ...]
    pace: float = 0.0
    fault: Fault | None = None

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
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
    yield b"".join([piece async for piece in pieces])


async def _quiet(fault: Fault) -> AsyncIterator[bytes]:
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
