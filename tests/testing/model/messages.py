"""The messages that tests of rules send: each kind of turn and block, with further fields where a rule wants them."""

from __future__ import annotations

from typing import Any

from tests.testing.model.rules import OPUS, Json

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


def user(*content: Json | str) -> Json:
    return {"role": "user", "content": [text(c) if isinstance(c, str) else c for c in content]}


def assistant(*content: Json | str) -> Json:
    return {"role": "assistant", "content": [text(c) if isinstance(c, str) else c for c in content]}


def text(words: str, **fields: Any) -> Json:
    return {"type": "text", "text": words, **fields}


def use(call_id: str = "a", **fields: Any) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "Read", "input": {}, **fields}


def result(call_id: str = "a", **fields: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "x", **fields}


def body(*messages: Any, model: str = OPUS, **fields: Any) -> Json:
    return {"model": model, "max_tokens": 100, "messages": list(messages), **fields}
