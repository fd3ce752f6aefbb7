"""The view of a request that policies use, and the JSON that the API reads and writes.

A plain string stands for one text block. Cache markers are not part of what the model sees.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

THINKING = frozenset({"thinking", "redacted_thinking"})

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def blocks(content: object) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def text_of(content: object) -> str:
    return "\n".join(block.get("text", "") for block in blocks(content) if block.get("type") == "text")


def canonical(value: object) -> bytes:
    """Return the canonical bytes of a JSON value. The order of keys matters, as it does for the prompt cache."""
    return _ENCODER.encode(value).encode()


def without_cache_mark(block: Json) -> Json:
    return {key: value for key, value in block.items() if key != "cache_control"}


def digest(*parts: bytes | str) -> str:
    """Return a sha256 in hex over the parts, each delimited by its length."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        sha.update(len(data).to_bytes(8, "big"))
        sha.update(data)
    return sha.hexdigest()


# https://platform.claude.com/docs/en/api/errors
TYPES = {
    400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
    404: "not_found_error", 408: "timeout_error", 409: "conflict_error", 413: "request_too_large",
    429: "rate_limit_error", 500: "api_error", 503: "api_error", 504: "timeout_error", 529: "overloaded_error",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ApiError:
    """A refusal: an HTTP status, an error type, a message, and for some errors a machine-readable code."""

    status: int
    message: str
    type: str = ""
    code: str | None = None

    def body(self, request_id: str) -> Json:
        error: Json = {"type": self.type or TYPES.get(self.status, "api_error"), "message": self.message}
        if self.code is not None:
            error["details"] = {"error_code": self.code}
        return {"type": "error", "error": error, "request_id": request_id}


def invalid(message: str, *, code: str | None = None) -> ApiError:
    return ApiError(400, message, code=code)


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResult:
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
        return str(self.body.get("model", ""))

    @property
    def system(self) -> str:
        return text_of(self.body.get("system"))

    @property
    def tools(self) -> tuple[str, ...]:
        return tuple(str(tool.get("name", tool.get("type"))) for tool in blocks(self.body.get("tools")))

    @property
    def messages(self) -> list[Json]:
        return blocks(self.body.get("messages"))

    @property
    def stream(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def max_tokens(self) -> int:
        return int(self.body.get("max_tokens", 0))

    @property
    def effort(self) -> str | None:
        effort = (self.body.get("output_config") or {}).get("effort")
        return effort if isinstance(effort, str) else None

    @property
    def betas(self) -> frozenset[str]:
        return frozenset(value.strip() for value in self.headers.get("anthropic-beta", "").split(",") if value.strip())

    @property
    def compacting(self) -> bool:
        return self.body.get("compaction") is not None

    @property
    def step(self) -> int:
        return sum(message.get("role") == "assistant" for message in self.messages)

    @property
    def last_user_text(self) -> str:
        return next((text for text in reversed(self.texts()) if text), "")

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        said = (message for message in self.messages if message.get("role") == "assistant")
        every = (block for message in said for block in blocks(message.get("content")))
        return tuple(ToolCall(b["id"], b["name"], b["input"]) for b in every if b.get("type") == "tool_use")

    @property
    def results(self) -> tuple[ToolResult, ...]:
        last = next((message for message in reversed(self.messages) if message.get("role") == "user"), {})
        return self._results_in([last])

    @property
    def all_results(self) -> tuple[ToolResult, ...]:
        return self._results_in([message for message in self.messages if message.get("role") == "user"])

    def texts(self) -> tuple[str, ...]:
        return tuple(text_of(message.get("content")) for message in self.messages if message.get("role") == "user")

    def has_tool(self, name: str) -> bool:
        return name in self.tools

    def _results_in(self, messages: list[Json]) -> tuple[ToolResult, ...]:
        names = {call.id: call.name for call in self.calls}
        every = (block for message in messages for block in blocks(message.get("content")))
        return tuple(
            (
            ToolResult(ident, names.get(ident, ""), text_of(block.get("content")), bool(block.get("is_error")))
            for block in every
            if block.get("type") == "tool_result" and (ident := block["tool_use_id"])
        ),
        )  # fmt: skip
