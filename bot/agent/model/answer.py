"""Puts one streamed answer together, byte for byte as the API meant it (L3, L9, M7).

Works on the raw server-sent events, so that unknown block types, unknown fields and key order survive.
Source: https://platform.claude.com/docs/en/build-with-claude/streaming
"""

import json
from dataclasses import dataclass, field
from typing import Any

from bot.core.errors import Transient
from bot.core.transcript import Json
from bot.ports import Began, Delta, Usage

_DELTA_KEYS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class Malformed(Transient):
    """The stream broke the protocol or stopped before message_stop: nothing of it may be used."""


@dataclass(slots=True)
class Answer:
    """An answer that grows with every event; `complete` only after message_stop."""

    blocks: list[Json] = field(default_factory=list)
    stop_reason: str | None = None
    usage: Json = field(default_factory=dict)
    complete: bool = False
    _json: dict[int, list[str]] = field(default_factory=dict)

    def feed(self, event: Json) -> Began | Delta | None:
        """Take one event; give what may be shown of it. Raises Malformed for input that is no JSON object."""
        match event.get("type"):
            case "message_start":
                self.usage.update(event["message"].get("usage") or {})
                return Began()
            case "content_block_start":
                self.blocks.append(event["content_block"])
            case "content_block_delta":
                return self._delta(event["index"], event["delta"])
            case "content_block_stop":
                self._close(event["index"])
            case "message_delta":
                self.stop_reason = event["delta"].get("stop_reason")
                self.usage.update({key: value for key, value in event.get("usage", {}).items() if value is not None})
            case "message_stop":
                self.complete = True
            case _:
                pass  # ping, and events that are newer than this program
        return None

    def message(self) -> Json:
        """Give the whole message; raises Malformed unless message_stop was seen."""
        if not self.complete or self.stop_reason is None:
            raise Malformed("the model's answer ended in the middle")
        return {"role": "assistant", "content": self.blocks}

    def _delta(self, index: int, delta: Json) -> Delta | None:
        if index >= len(self.blocks):
            raise Malformed("the model's answer names a block that never began")
        kind = delta.get("type", "")
        if kind == "input_json_delta":
            self._json.setdefault(index, []).append(delta["partial_json"])
            return None
        if kind == "citations_delta":
            self.blocks[index]["citations"] = [*(self.blocks[index].get("citations") or []), delta["citation"]]
            return None
        key = _DELTA_KEYS.get(kind)
        if key is None:
            return None
        self.blocks[index][key] = self.blocks[index].get(key, "") + delta[key]
        return Delta(key, delta[key]) if key != "signature" else None

    def _close(self, index: int) -> None:
        pieces = self._json.pop(index, None)
        if not pieces or not (text := "".join(pieces)).strip():
            return
        try:
            value = json.loads(text)
            json.dumps(value, allow_nan=False)  # Python reads NaN and 1e999; nobody else does, and it is sent back
        except ValueError as error:
            raise Malformed("a tool call's input is not JSON") from error
        if not isinstance(value, dict):
            raise Malformed("a tool call's input is not a JSON object")
        self.blocks[index]["input"] = value


def usage_of(raw: Json) -> Usage:
    """Read a response's usage; fields that are missing or null count as 0.

    Where the service summarised, the counts at the top leave that out: the bill is the sum over the iterations.
    """
    iterations = raw.get("iterations") or []
    if any(each.get("type") == "compaction" for each in iterations):
        return sum((usage_of(each) for each in iterations), Usage())

    def number(value: Any) -> int:
        return value if isinstance(value, int) else 0

    split = raw.get("cache_creation") or {}
    return Usage(
        input=number(raw.get("input_tokens")),
        output=number(raw.get("output_tokens")),
        cache_read=number(raw.get("cache_read_input_tokens")),
        cache_write=number(raw.get("cache_creation_input_tokens")),
        cache_write_1h=number(split.get("ephemeral_1h_input_tokens")),
    )
