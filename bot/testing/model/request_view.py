"""The view of a request that policies use to decide the model's next reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.testing.model.wire import Json, blocks, text_of


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool_use block of the conversation."""

    id: str
    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """One tool_result block of the conversation, with the name of the called tool. Texts are joined by newlines."""

    id: str
    name: str
    text: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request as received: the bytes, the headers (names in lower case), and the parsed body."""

    raw: bytes
    headers: Mapping[str, str]
    body: Json

    @property
    def model(self) -> str:
        """The id of the requested model."""
        return str(self.body.get("model", ""))

    @property
    def system(self) -> str:
        """The system prompt as one text."""
        return text_of(self.body.get("system"))

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the declared tools, in the order of the request."""
        return tuple(str(tool.get("name", tool.get("type"))) for tool in blocks(self.body.get("tools")))

    @property
    def messages(self) -> list[Json]:
        """The messages as received."""
        return blocks(self.body.get("messages"))

    @property
    def stream(self) -> bool:
        """Whether the request asks for server-sent events."""
        return bool(self.body.get("stream"))

    @property
    def max_tokens(self) -> int:
        """The cap on the output."""
        return int(self.body.get("max_tokens", 0))

    @property
    def effort(self) -> str | None:
        """The top-level effort, or None if the request leaves it to the model."""
        effort = (self.body.get("output_config") or {}).get("effort")
        return effort if isinstance(effort, str) else None

    @property
    def betas(self) -> frozenset[str]:
        """The values of the anthropic-beta header."""
        return frozenset(value.strip() for value in self.headers.get("anthropic-beta", "").split(",") if value.strip())

    @property
    def compacting(self) -> bool:
        """Whether the request asks for a summary of the conversation in a compaction block."""
        return self.body.get("compaction") is not None

    @property
    def step(self) -> int:
        """The number of assistant turns so far."""
        return sum(message.get("role") == "assistant" for message in self.messages)

    @property
    def last_user_text(self) -> str:
        """The newest user text: that of the last user message that has any."""
        return next((text for text in reversed(self.texts()) if text), "")

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """All tool_use blocks so far, in order."""
        return tuple(
            ToolCall(block["id"], block["name"], block["input"])
            for message in self.messages
            if message.get("role") == "assistant"
            for block in blocks(message.get("content"))
            if block.get("type") == "tool_use"
        )

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results of the last user message."""
        last = next((message for message in reversed(self.messages) if message.get("role") == "user"), {})
        return self._results_in([last])

    @property
    def all_results(self) -> tuple[ToolResult, ...]:
        """All tool results so far, in order."""
        return self._results_in([message for message in self.messages if message.get("role") == "user"])

    def texts(self) -> tuple[str, ...]:
        """Return the text of each user message, in order; empty for a message with only tool results."""
        return tuple(text_of(message.get("content")) for message in self.messages if message.get("role") == "user")

    def has_tool(self, name: str) -> bool:
        """Return whether a tool with that name is declared."""
        return name in self.tools

    def _results_in(self, messages: list[Json]) -> tuple[ToolResult, ...]:
        names = {call.id: call.name for call in self.calls}
        return tuple(
            ToolResult(
                block["tool_use_id"],
                names.get(block["tool_use_id"], ""),
                text_of(block.get("content")),
                bool(block.get("is_error")),
            )
            for message in messages
            for block in blocks(message.get("content"))
            if block.get("type") == "tool_result"
        )
