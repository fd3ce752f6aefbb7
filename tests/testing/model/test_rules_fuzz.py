"""A malformed request is refused, whatever is wrong with it: it never breaks the server."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.testing.model.messages_service import MessagesService
from bot.testing.model.models import MODELS
from bot.testing.model.request_view import ApiError, ModelRequest

MARK = {"type": "ephemeral"}
STRICT = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"anyOf": [{"type": "null"}]}}},
    "required": ["a"],
    "additionalProperties": False,
}
GOOD: dict[str, Any] = {
    "model": "claude-opus-5-5",
    "max_tokens": 100,
    "system": [{"type": "text", "text": "s", "cache_control": MARK}],
    "tools": [{"name": "Read", "description": "d", "strict": True, "input_schema": STRICT}],
    "thinking": {"type": "adaptive", "display": "summarized"},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": STRICT}},
    "metadata": {"user_id": "u"},
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "Read", "input": {}}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "x"}]}],
        },
    ],
}
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, 0, -1, 1.5, True, "", "x", [], {}, [None], ["x"], [{}], {"type": "x"}, [{"type": 3}], [[]]]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in inner for found in [(*path, key), *places(item, (*path, key))]]


def outcome(body: dict[str, Any]) -> Any:
    return MessagesService(MODELS, lambda: 0.0).admit(ModelRequest(b"", {}, body))


def test_the_good_request_is_good() -> None:
    assert not isinstance(outcome(GOOD), ApiError)


@settings(max_examples=150)
@given(path=st.sampled_from(places(GOOD)), value=ODD)
def test_one_odd_value_never_breaks_the_server(path: tuple[Any, ...], value: Any) -> None:
    body = deepcopy(GOOD)
    target = body
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    found = outcome(body)
    assert not isinstance(found, ApiError) or found.status in {400, 404}
