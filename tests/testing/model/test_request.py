"""What a policy can read from a request, and the constructors it answers with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bot.testing.model.models import MODELS, Model, Prices, cost_usd
from bot.testing.model.reply import Fault, Reply, Text, answer, call, say, sequence, several, stop, think
from bot.testing.model.request_view import ModelRequest, ToolCall, ToolResult


def request(**body: Any) -> ModelRequest:
    return ModelRequest(json.dumps(body).encode(), {"anthropic-beta": "a, b"}, body)


def test_a_policy_sees_texts_calls_and_results() -> None:
    seen = request(
        model="m", max_tokens=7, stream=True, system=[{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
        tools=[{"name": "Read"}, {"type": "web_search_20260318", "name": "web_search"}],
        output_config={"effort": "low"},
        messages=[
            {"role": "user", "content": "task"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "Read", "input": {"p": 1}}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "found"}]},
                    {"type": "text", "text": "hurry"},
                ],
            },
            {"role": "assistant", "content": [{"type": "tool_use", "id": "b", "name": "Bash", "input": {}}]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "b", "content": "no", "is_error": True}],
            },
        ],
    )  # fmt: skip
    assert (seen.model, seen.max_tokens, seen.stream, seen.system, seen.effort) == ("m", 7, True, "one\ntwo", "low")
    assert seen.tools == ("Read", "web_search")
    assert (seen.has_tool("Read"), seen.has_tool("Write")) == (True, False)
    assert seen.calls == (ToolCall("a", "Read", {"p": 1}), ToolCall("b", "Bash", {}))
    assert seen.results == (ToolResult("b", "Bash", "no", is_error=True),)
    assert seen.all_results == (ToolResult("a", "Read", "found", is_error=False), *seen.results)
    assert (seen.step, seen.texts(), seen.last_user_text) == (2, ("task", "hurry", ""), "hurry")
    assert (seen.betas, seen.compacting) == (frozenset({"a", "b"}), False)


def test_an_empty_request_has_nothing_to_see() -> None:
    seen = request()
    assert (seen.model, seen.system, seen.tools, seen.messages, seen.effort) == ("", "", (), [], None)
    assert (seen.last_user_text, seen.calls, seen.results, seen.step) == ("", (), (), 0)


def test_several_replies_join_in_order() -> None:
    whole = several(think("t"), Reply((Text("a"),), pace=2), call("Read", name="n"), stop("refusal", category="bio"))
    assert [type(block).__name__ for block in whole.blocks] == ["Thought", "Text", "Call"]
    assert (whole.stop_reason, whole.pace) == ("refusal", 2)
    assert whole.stop_details == {"type": "refusal", "category": "bio", "explanation": None}


def test_a_structured_answer_is_json() -> None:
    assert answer({"title": "ä"}) == say('{"title": "ä"}')


def test_a_sequence_ends_with_an_error() -> None:
    policy = sequence(say("a"), Fault.status(529))
    assert (policy(request()), policy(request())) == (say("a"), Fault.status(529))
    with pytest.raises(AssertionError, match="the script has 2 replies"):
        policy(request())


@pytest.mark.req("M12")
def test_each_kind_of_token_has_its_price() -> None:
    usage = {
        "input_tokens": 1000, "output_tokens": 2000, "cache_read_input_tokens": 10_000,
        "cache_creation_input_tokens": 3000,
        "cache_creation": {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 2000},
    }  # fmt: skip
    assert cost_usd("claude-opus-5-5", usage) == pytest.approx((4 + 40 + 2 + 5 + 16) / 1000)
    plain = {"input_tokens": 100_000, "output_tokens": 0}
    assert cost_usd("claude-haiku-5-5", plain) == pytest.approx(0.01)
    assert cost_usd("claude-haiku-5-5", {**plain, "input_tokens": 100_001}) == pytest.approx(0.05, rel=1e-4)
    with pytest.raises(KeyError):
        cost_usd("claude-opus-9", usage)


@pytest.mark.req("M12")
def test_the_library_knows_every_model() -> None:
    from typing import get_args

    from anthropic.types.model import Model as Known

    known = {value for part in get_args(Known) for value in get_args(part)}
    assert set(MODELS) <= known


def test_a_window_of_its_own_bounds_prompt_and_answer(serve: Any) -> None:
    small = Model(
        "claude-small-1", Prices(1, 1, 1, 1, 1), frozenset({"disabled"}), default_thinking="disabled", window=100
    )
    api = serve(lambda request: say("x" * 3600), models={small.id: small})
    body: dict[str, Any] = {"model": small.id, "max_tokens": 900, "messages": [{"role": "user", "content": "a"}]}
    cut = api.send(body)
    assert (cut["stop_reason"], cut["usage"]["output_tokens"]) == ("model_context_window_exceeded", 92)
    with pytest.raises(Exception, match=r"prompt is too long: \d+ tokens > 100 maximum"):
        api.send({**body, "messages": [{"role": "user", "content": "a" * 400}]})
