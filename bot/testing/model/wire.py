"""Reads the JSON of requests as the API renders it, and writes its errors.

A plain string stands for one text block. Cache markers are not part of what the model sees.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

THINKING = frozenset({"thinking", "redacted_thinking"})

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def blocks(content: object) -> list[Json]:
    """Return the content of a message, `system`, or a tool result as a list of blocks. A string is one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def text_of(content: object) -> str:
    """Return all text blocks of a content, joined with newlines."""
    return "\n".join(block.get("text", "") for block in blocks(content) if block.get("type") == "text")


def canonical(value: object) -> bytes:
    """Return the canonical bytes of a JSON value. The order of keys matters, as it does for the prompt cache."""
    return _ENCODER.encode(value).encode()


def without_cache_mark(block: Json) -> Json:
    """Return the block without its cache marker."""
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
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


@dataclass(frozen=True, slots=True)
class ApiError:
    """A refusal: an HTTP status, an error type, a message, and for some errors a machine-readable code."""

    status: int
    message: str
    type: str = ""
    code: str | None = None

    def body(self, request_id: str) -> Json:
        """Return the JSON object that the API responds with."""
        error: Json = {"type": self.type or TYPES.get(self.status, "api_error"), "message": self.message}
        if self.code is not None:
            error["details"] = {"error_code": self.code}
        return {"type": "error", "error": error, "request_id": request_id}


def invalid(message: str, *, code: str | None = None) -> ApiError:
    """Return a 400 invalid_request_error with this message."""
    return ApiError(400, message, code=code)
