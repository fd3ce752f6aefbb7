"""Assembles one streamed answer, and changes nothing that the API sent (L3, L9, M7).

Works on the raw server-sent events, so that unknown block types, unknown fields and key order survive. Source:
https://platform.claude.com/docs/en/build-with-claude/streaming
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bot.agent.history.cutting import BYTES_PER_TOKEN
from bot.core.codepoints import with_visible_codepoints
from bot.core.errors import Transient
from bot.core.markdown.elements import shorten_line
from bot.core.transcript import Json, finite_number
from bot.ports import AnswerStarted, CallReceived, Delta, Usage

_DELTA_KEYS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
_SUMMARY_KEYS = frozenset({"content", "encrypted_content"})

LONGEST_WHY = 300
"""Characters of the service's explanation of a refusal."""
CUTS = frozenset({"max_tokens", "refusal", "model_context_window_exceeded"})
"""Stop reasons that may arrive in the middle of a tool call, whose block is closed nevertheless."""


class MalformedAnswer(Transient):
    """The answer broke the protocol or stopped before message_stop: no part of it may be used."""


@contextmanager
def reading() -> Iterator[None]:
    """Raise MalformedAnswer if a part of an answer is missing or of the wrong type while it is read."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise MalformedAnswer(f"the model's answer is not in the form of the Messages API: {error!r}") from error


@dataclass(slots=True)
class StreamedAnswer:
    """An answer that grows with every event; `complete` only after message_stop."""

    blocks: list[Json] = field(default_factory=list)
    stop_reason: str | None = None
    why: str = ""
    """The service's explanation of a refusal."""
    usage: Json = field(default_factory=dict)
    complete: bool = False
    _length: int = 0
    """Bytes of thinking, text and inputs so far."""
    _fault: MalformedAnswer | None = None
    """What is wrong with a call's input; ignored if the answer turns out to be cut there."""
    _json: dict[int, list[str]] = field(default_factory=dict)

    @reading()
    def feed(self, event: Json) -> AnswerStarted | CallReceived | Delta | None:
        """Process one event, and return what to pass on to the session. Raises MalformedAnswer for an invalid event."""
        match event.get("type"):
            case "message_start":
                message = event["message"]
                self.usage.update(message.get("usage") or {})
                self.blocks += message.get("content") or []  # the whole answer, after a programmatic tool call
                self.stop_reason = message.get("stop_reason")
                return AnswerStarted()
            case "content_block_start":
                if event["index"] != len(self.blocks):
                    raise MalformedAnswer("the model's answer leaves out a block")
                self.blocks.append(event["content_block"])
            case "content_block_delta":
                return self._delta(event["index"], event["delta"])
            case "content_block_stop":
                self._close(event["index"])
                return self._call(event["index"])
            case "message_delta":
                self.stop_reason = event["delta"].get("stop_reason") or self.stop_reason  # it may come again
                self.why = refusal(event["delta"].get("stop_details")) or self.why
                used = event.get("usage") or {}
                self.usage.update({key: value for key, value in used.items() if value is not None})
            case "message_stop":
                self.complete = True
            case _:
                pass  # ping, and events that are newer than this program
        return None

    def usage_so_far(self) -> Json:
        """Return the usage so far. The service reports the output tokens at the end; until then they are estimated."""
        if self.stop_reason is not None or not self.usage:
            return self.usage
        return {**self.usage, "output_tokens": self._length // BYTES_PER_TOKEN}

    def message(self) -> Json:
        """Return the whole message; raises MalformedAnswer unless message_stop was seen and every block is complete.

        If a stop reason in CUTS explains an unfinished call, its input is empty: no tool of such an answer runs.
        """
        if not self.complete or self.stop_reason is None:
            raise MalformedAnswer("the model's answer ended in the middle")
        if self.stop_reason not in CUTS:
            if self._fault is not None:
                raise self._fault
            if any(map("".join, self._json.values())):
                raise MalformedAnswer("the model's answer ended in the middle of a tool call")
        return assistant_message(self.blocks)

    def _delta(self, index: int, delta: Json) -> Delta | None:
        """Append a delta to its block. Raises MalformedAnswer for a block that never began."""
        if index >= len(self.blocks):
            raise MalformedAnswer("the model's answer names a block that never began")
        kind = delta.get("type", "")
        if kind == "citations_delta":
            self.blocks[index]["citations"] = [*(self.blocks[index].get("citations") or []), delta["citation"]]
            return None
        if kind == "compaction_delta":  # replaces these fields, as in the library
            self.blocks[index] |= {key: value for key, value in delta.items() if key in _SUMMARY_KEYS}
            return None
        key = _DELTA_KEYS.get(kind)
        if key is None:
            return None
        if key != "signature":
            self._length += len(delta[key].encode(errors="surrogatepass"))
        if key == "partial_json":
            self._json.setdefault(index, []).append(delta[key])
            return None
        self.blocks[index][key] = self.blocks[index].get(key, "") + delta[key]
        return Delta(key, delta[key]) if key != "signature" else None

    def _close(self, index: int) -> None:
        """Parse the input of a tool call whose block has ended. Remember a fault in it."""
        pieces = self._json.pop(index, None)
        if not pieces or not (text := "".join(pieces)).strip():
            return
        try:
            self.blocks[index]["input"] = parse_object(text)
        except MalformedAnswer as fault:
            self._fault = fault

    def _call(self, index: int) -> CallReceived | None:
        """Return the tool call of a block that has ended, unless something is wrong with it or with one before it."""
        block = self.blocks[index] if index < len(self.blocks) else {}
        if block.get("type") != "tool_use" or self._fault is not None:
            return None
        return CallReceived(assistant_message([block])["content"][0])


def parse_object(text: str | bytes) -> Json:
    """Parse a JSON object that can be sent back; raises MalformedAnswer for anything else."""
    try:
        value = json.loads(text, parse_constant=finite_number, parse_float=finite_number)
    except (ValueError, RecursionError) as error:
        raise MalformedAnswer(f"a part of the model's answer is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise MalformedAnswer("a part of the model's answer is not a JSON object")
    return value


@reading()
def assistant_message(blocks: Any) -> Json:
    """Return the assistant message of these blocks; raises MalformedAnswer if they cannot be acted on or sent back."""
    calls: list[str] = []
    for block in blocks:
        match block["type"]:
            case "text" if not isinstance(block["text"], str):
                raise MalformedAnswer("a text block of the model's answer holds no text")
            case "tool_use" if not isinstance(block["input"], dict):
                raise MalformedAnswer("a tool call's input is not a JSON object")
            case "tool_use" if not (isinstance(block["name"], str) and isinstance(block["id"], str)):
                raise MalformedAnswer("a tool call has no name or no id")
            case "tool_use":
                calls.append(block["id"])
            case _:
                pass
    if len(set(calls)) < len(calls):
        raise MalformedAnswer("two tool calls of the model's answer have one id")
    return {"role": "assistant", "content": list(blocks)}


def refusal(details: Any) -> str:
    """Return the service's explanation of a refusal as one line of untrusted text, or ""."""
    parts = [details.get(name) for name in ("category", "explanation")] if isinstance(details, dict) else []
    return shorten_line(
        with_visible_codepoints(": ".join(text for text in parts if isinstance(text, str) and text)), LONGEST_WHY
    )


def usage_of(raw: Json) -> Usage:
    """Return a response's usage; missing or null fields count as 0.

    If the service summarized, the top-level counts leave out the summary, so the counts of all iterations are added.
    """
    iterations = raw.get("iterations") or []
    if any(iteration.get("type") == "compaction" for iteration in iterations):
        return sum((usage_of(iteration) for iteration in iterations), Usage())

    def number(value: Any) -> int:
        return value if isinstance(value, int) else 0

    split, served = raw.get("cache_creation") or {}, raw.get("server_tool_use") or {}
    return Usage(
        input=number(raw.get("input_tokens")),
        output=number(raw.get("output_tokens")),
        cache_read=number(raw.get("cache_read_input_tokens")),
        cache_write=number(raw.get("cache_creation_input_tokens")),
        cache_write_1h=number(split.get("ephemeral_1h_input_tokens")),
        searches=number(served.get("web_search_requests")),
    )
