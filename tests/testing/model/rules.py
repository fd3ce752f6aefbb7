"""The ground of tests of rules: a smallest body, the models, and the check of a good request beside its bad twin."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic import BadRequestError

Json = dict[str, Any]

OPUS, OPUS_4_6, OPUS_4_5 = "claude-opus-5-5", "claude-opus-4-6", "claude-opus-4-5"
HAIKU, HAIKU_4_5 = "claude-haiku-5-5", "claude-haiku-4-5"
CLOSED: Json = {"type": "object", "additionalProperties": False}


def body(model: str = OPUS, **fields: Any) -> Json:
    return {"model": model, "max_tokens": 2000, "messages": [{"role": "user", "content": "a"}], **fields}


def tool(name: str = "Read", **fields: Any) -> Json:
    return {"name": name, "input_schema": {"type": "object", "properties": {}}, **fields}


def refused(ok: Any, good: Json, bad: Json, *betas: str) -> str:
    """See the good request answered and its twin refused with a 400, and give the refusal's message."""
    assert ok.send(good, *betas)["type"] == "message"
    with pytest.raises(BadRequestError) as error:
        ok.send(bad, *betas)
    assert error.value.type == "invalid_request_error"
    return error.value.api_message or ""
