"""The stream of events, as the library and as the wire see it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from anthropic import BadRequestError

from bot.testing.model.reply import Reply, Text, call, malformed_call, say, several, stop, think, verbatim
from tests.testing.model.conftest import plain_async_client

HELLO: list[Any] = [{"role": "user", "content": "Hello"}]
OPUS = "claude-opus-5-5"
SHOWN: Any = {"type": "adaptive", "display": "summarized"}
READ: Any = {"name": "Read", "input_schema": {"type": "object"}}
TURN = several(think("Let me see what is there."), say("I read two files."), call("Read", file_path="ä.py", limit=3))


def wire(url: str, **body: Any) -> list[dict[str, Any]]:
    sent = {"model": OPUS, "max_tokens": 999, "messages": HELLO, "stream": True, **body}
    headers = {"x-api-key": "k", "anthropic-version": "2026-10-21"}
    text = httpx2.post(f"{url}/v1/messages", json=sent, headers=headers).text
    frames = [frame.split("\n") for frame in text.strip().split("\n\n")]
    events = [json.loads(data.removeprefix("data: ")) for _, data in frames]
    assert [name.removeprefix("event: ") for name, _ in frames] == [event["type"] for event in events]
    return events


@pytest.mark.req("M7")
def test_events_come_in_the_order_of_the_api(serve: Callable[..., Any]) -> None:
    events = wire(serve(lambda request: TURN).model.base_url, thinking=SHOWN)
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["message_start", "ping"]
    assert kinds[-2:] == ["message_delta", "message_stop"]
    deltas = [[e["delta"]["type"] for e in events if e.get("index") == i and "delta" in e] for i in range(3)]
    assert deltas[0] == [*["thinking_delta"] * 3, "signature_delta"]
    assert deltas[1] == ["text_delta"] * 3
    assert deltas[2] == ["input_json_delta"] * 4
    starts = [event["content_block"] for event in events if event["type"] == "content_block_start"]
    assert [start["type"] for start in starts] == ["thinking", "text", "tool_use"]
    assert (starts[0]["signature"], starts[1]["text"], starts[2]["input"]) == ("", "", {})
    start, delta = events[0]["message"], events[-2]
    assert (start["content"], start["stop_reason"], start["usage"]["output_tokens"]) == ([], None, 1)
    assert (delta["delta"]["stop_reason"], delta["usage"]["input_tokens"]) == (
        "tool_use", start["usage"]["input_tokens"],
    )  # fmt: skip


@pytest.mark.req("M7")
@pytest.mark.parametrize("display", ("summarized", "omitted"))
def test_streaming_or_not_is_the_same_message(serve: Callable[..., Any], display: Any) -> None:
    client = serve(lambda request: TURN).client
    asked: Any = {"model": OPUS, "max_tokens": 999, "messages": HELLO, "tools": [READ]}
    asked["thinking"] = {"type": "adaptive", "display": display}
    whole = client.messages.create(**asked).to_dict()
    with client.messages.stream(**asked) as stream:
        streamed = stream.get_final_message().to_dict()
    assert [{**block, "parsed_output": None} for block in whole["content"]] == [
        {**block, "parsed_output": None} for block in streamed["content"]
    ]
    assert {**whole, "id": 0, "content": 0} == {**streamed, "id": 0, "content": 0}


async def test_the_async_client_sees_the_same_events(serve: Callable[..., Any]) -> None:
    url = serve(lambda request: say("one two three")).model.base_url
    async with (
        plain_async_client(url) as client,
        client.messages.stream(model=OPUS, max_tokens=99, messages=HELLO) as stream,
    ):
        pieces = [piece async for piece in stream.text_stream]
        final = await stream.get_final_message()
    assert len(pieces) == 3
    assert "".join(pieces) == "one two three"
    assert final.stop_reason == "end_turn"


def test_thinking_is_left_out_by_default(serve: Callable[..., Any]) -> None:
    client = serve(lambda request: several(think("x" * 360), say("hi"))).client
    answer = client.messages.create(model=OPUS, max_tokens=999, messages=HELLO)
    thought = answer.content[0]
    assert (thought.type, thought.thinking, bool(thought.signature)) == ("thinking", "", True)
    assert answer.usage.output_tokens_details.thinking_tokens >= 100


def test_thinking_that_is_off_is_not_sent(serve: Callable[..., Any]) -> None:
    client = serve(lambda request: several(think("x"), say("hi"))).client
    answer = client.messages.create(
        model="claude-haiku-5-5", max_tokens=99, messages=HELLO, thinking={"type": "disabled"}
    )
    assert [block.type for block in answer.content] == ["text"]


def test_malformed_input_goes_over_the_wire_as_it_is(serve: Callable[..., Any]) -> None:
    api = serve(lambda request: malformed_call("Read", '{"file_path": nonsense'))
    parts = [e["delta"]["partial_json"] for e in wire(api.model.base_url) if "partial_json" in e.get("delta", {})]
    assert "".join(parts) == '{"file_path": nonsense'
    unreadable = pytest.raises(ValueError, match="Unable to parse tool parameter JSON")
    with api.client.messages.stream(model=OPUS, max_tokens=99, messages=HELLO) as stream, unreadable:
        stream.until_done()


@pytest.mark.req("M10")
def test_a_refusal_says_why(serve: Callable[..., Any]) -> None:
    api = serve(lambda request: several(call("Read"), stop("refusal", category="cyber")))
    with api.client.messages.stream(model=OPUS, max_tokens=99, messages=HELLO) as stream:
        answer = stream.get_final_message()
    assert (answer.stop_reason, answer.stop_details.category) == ("refusal", "cyber")


@pytest.mark.req("M10")
@pytest.mark.parametrize("reason", ("pause_turn", "model_context_window_exceeded", "something_new"))
def test_a_policy_stops_for_any_reason(serve: Callable[..., Any], reason: str) -> None:
    client = serve(lambda request: several(say("a"), stop(reason))).client
    assert client.messages.create(model=OPUS, max_tokens=99, messages=HELLO).stop_reason == reason


@pytest.mark.req("M10")
def test_what_exceeds_max_tokens_is_cut(serve: Callable[..., Any]) -> None:
    client = serve(lambda request: several(say("x" * 72), call("Read", file_path="y" * 72))).client
    ten = client.messages.create(model=OPUS, max_tokens=10, messages=HELLO)
    assert (ten.content[0].text, ten.stop_reason, ten.usage.output_tokens) == ("x" * 36, "max_tokens", 10)
    thirty = client.messages.create(model=OPUS, max_tokens=30, messages=HELLO)
    assert (thirty.content[1].input, thirty.stop_reason) == ({}, "max_tokens")
    with client.messages.stream(model=OPUS, max_tokens=30, messages=HELLO) as stream:
        pieces = "".join(event.partial_json for event in stream if event.type == "input_json")
    assert pieces.startswith('{"file_path": "yyy')
    assert not pieces.endswith("}")


def test_a_verbatim_block_passes_through(serve: Callable[..., Any]) -> None:
    block = {"type": "hologram", "depth": 3}
    api = serve(lambda request: verbatim(block))
    with api.client.messages.stream(model=OPUS, max_tokens=99, messages=HELLO) as stream:
        assert stream.get_final_message().content[0].to_dict() == block


def test_thinking_that_does_not_fit_is_not_signed(serve: Callable[..., Any]) -> None:
    client = serve(lambda request: several(think("x" * 3600), say("hi"))).client
    with client.messages.stream(model=OPUS, max_tokens=100, messages=HELLO) as stream:
        answer = stream.get_final_message()
    (thought,) = answer.content
    assert (thought.type, thought.signature, answer.stop_reason) == ("thinking", "", "max_tokens")
    back: Any = [*HELLO, {"role": "assistant", "content": [thought.to_dict()]}, *HELLO]
    with pytest.raises(BadRequestError, match="Invalid `signature`"):
        client.messages.create(model=OPUS, max_tokens=100, messages=back)


def test_applied_context_edits_are_reported(serve: Callable[..., Any]) -> None:
    api = serve(lambda request: say("hi"))
    edits: Any = {"edits": [{"type": "clear_tool_uses_20250919"}]}
    beta = "context-management-2025-06-27"
    asked: Any = {"model": OPUS, "max_tokens": 99, "messages": HELLO, "context_management": edits, "betas": [beta]}
    with api.client.beta.messages.stream(**asked) as stream:
        assert stream.get_final_message().context_management.applied_edits == []


def test_usage_can_be_overridden(serve: Callable[..., Any]) -> None:
    client = serve(lambda request: Reply((Text("a"),), usage={"input_tokens": 900_000})).client
    with client.messages.stream(model=OPUS, max_tokens=99, messages=HELLO) as stream:
        assert stream.get_final_message().usage.input_tokens == 900_000
