"""One job: read the JSON of requests as the API renders it, so that every rule sees one form.

A plain string stands for one text block. Cache markers are not part of what the model sees.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

THINKING = frozenset({"thinking", "redacted_thinking"})


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
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


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
