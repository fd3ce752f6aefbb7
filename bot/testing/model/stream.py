"""The server-sent events of one answer, in the order and pieces that the API sends.

https://platform.claude.com/docs/en/build-with-claude/streaming
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from bot.testing.model.model_answer import ModelAnswer
from bot.testing.model.wire import Json

PIECES = 3
LONGEST_PIECE = 400


def frame(event: Json) -> bytes:
    """Return one event in its wire format."""
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def events(answer: ModelAnswer, *, pings: int = 1, at_once: bool = False) -> Iterator[Json]:
    """Yield all events of an answer, from message_start to message_stop. If `at_once`, the first holds all of it."""
    message = answer.message
    if at_once:
        yield from ({"type": "message_start", "message": message}, {"type": "message_stop"})
        return
    usage = {**message["usage"], "output_tokens": min(1, message["usage"]["output_tokens"])}
    start = {
        **message,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "usage": usage,
    }
    yield {"type": "message_start", "message": start}
    for _ in range(pings):
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
