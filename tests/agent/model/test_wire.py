"""What the wire does around an answer: silence, pings, a connection that stays open behind it (M7, M11)."""

import asyncio
import json
from collections.abc import AsyncGenerator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from bot.agent.model.answer import MalformedAnswer, StreamedAnswer, assistant_message
from bot.agent.model.anthropic_model import AnthropicModel, RetryPolicy
from bot.agent.model.connection import timeout
from bot.agent.session_events import iterate_within
from bot.ports import AnswerCompleted, ModelRequest, Notice
from bot.testing.host import host_application
from bot.testing.model.reply import Fault, Reply, Text, call, say, sequence
from tests.agent.conftest import Open
from tests.agent.ground import HandClock, drive, ended, of, stream
from tests.rows import every_row

ASKED: dict[str, Any] = {
    "model": "claude-opus-5-5",
    "system": ({"type": "text", "text": "You are terse."},),
    "tools": (),
    "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello."}]}],
}
ANSWER: tuple[dict[str, Any], ...] = (
    {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": None},
    {"type": "message_stop"},
)
AT_ONCE: tuple[dict[str, Any], ...] = (
    {
        "type": "message_start",
        "message": {
            "usage": {"input_tokens": 3, "output_tokens": 7},
            "content": [{"type": "text", "text": "Hello."}],
            "stop_reason": "end_turn",
        },
    },
    {"type": "message_stop"},
)


async def lingering(scope: Any, receive: Any, send: Any) -> None:
    """A server that sends its answer and then neither says more nor ends; it knows nothing of models."""
    if scope["path"] != "/v1/messages":
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    for event in ANSWER:
        data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        await send({"type": "http.response.body", "body": data, "more_body": True})
    await asyncio.sleep(3600)


@pytest.mark.req("M7", "M12")
async def test_an_answer_is_whole_at_message_stop() -> None:
    """A connection that stays open behind it, as some gateways keep it, holds nobody up and spoils nothing."""
    with host_application(lingering) as address:
        model = AnthropicModel(HandClock(), "key", address)
        async with asyncio.timeout(30):
            events = await stream(model, ModelRequest(**ASKED))
        await model.close()
    (completed,) = of(events, AnswerCompleted)
    assert completed.message["content"] == [{"type": "text", "text": "Hello."}]
    assert of(events, Notice) == []


@pytest.mark.req("M7")
async def test_a_long_silence_is_told(room: Open) -> None:
    """Once for each silence, while the answer is still waited for; what comes then counts."""
    r = room(lambda _: Fault.stall(1.0, reply=say("Late.")), patience=RetryPolicy(report_silence_after=0.4))
    told: list[str] = []
    (completed,) = of(await stream(r.model, ModelRequest(**ASKED, heartbeat=told.append)), AnswerCompleted)
    assert completed.message["content"][0]["text"] == "Late."
    assert told == ["the model has sent nothing for 0 s; still waiting"]


@pytest.mark.req("M7")
async def test_pings_alone_keep_no_stream_alive(room: Open) -> None:
    """They are bytes and no events: a stream that has nothing else to say is abandoned."""
    dripping = Fault.stall(30, reply=Reply((Text("So"),)), ping_every=0.05)
    r = room(sequence(dripping, say("Done.")), patience=RetryPolicy(silence=20, quiet=0.3))
    events = await stream(r.model, ModelRequest(**ASKED))
    assert len(of(events, Notice)) == 1
    assert [request.stream for request in r.api.requests] == [True, False]


@pytest.mark.req("M7")
async def test_the_first_byte_may_take_longer_than_any_other() -> None:
    """A long prompt is read before anything comes of it; once something has come, silence is borne half as long."""

    async def late() -> AsyncGenerator[str]:
        await asyncio.sleep(0.05)
        yield "first"
        await asyncio.sleep(3600)

    source = iterate_within(late(), 3600, idle=0.001, first=3600)
    assert await anext(source) == "first"
    with pytest.raises(TimeoutError):
        await anext(source)
    assert timeout(RetryPolicy().silence).read == 180


@pytest.mark.req("M11")
async def test_a_light_call_never_streams(room: Open) -> None:
    """Not even when it is made again after a broken connection; it waits first, as no stream is to blame."""
    r = room(sequence(Fault.disconnect(), say("Done.")))
    await stream(r.model, ModelRequest(**{**ASKED, "model": "haiku"}, role="light"))
    assert [request.stream for request in r.api.requests] == [False, False]
    assert [wait > 0 for wait in r.clock.slept] == [True]


@pytest.mark.req("M7", "L9")
def test_a_call_that_was_not_closed_is_no_call() -> None:
    """Its input would be what had not arrived yet: nothing."""
    answer, call = StreamedAnswer(), {"type": "tool_use", "id": "a", "name": "Bash", "input": {}}
    answer.feed({"type": "content_block_start", "index": 0, "content_block": call})
    delta = {"type": "input_json_delta", "partial_json": '{"command": "ls"'}
    answer.feed({"type": "content_block_delta", "index": 0, "delta": delta})
    for event in ANSWER[4:]:
        answer.feed(event)
    with pytest.raises(MalformedAnswer, match="in the middle"):
        answer.message()


CALL: dict[str, Any] = {"type": "tool_use", "id": "a", "name": "LS", "input": {}}


@pytest.mark.req("M7", "M3")
@every_row(
    "blocks",
    (
        None,
        ["text"],
        [{"text": "?"}],
        [{"type": "text"}],
        [{"type": "text", "text": None}],
        [{**CALL, "input": "{}"}],
        [{**CALL, "name": None}],
        [{"type": "tool_use", "name": "LS", "input": {}}],
        [{**CALL, "id": None}],
        [{**CALL, "id": ["a"]}],
        [CALL, CALL],
    ),
)
def test_what_could_not_be_acted_upon_is_no_answer(blocks: Any) -> None:
    """Nor could it be sent back: it is dropped as a whole and asked for again."""
    with pytest.raises(MalformedAnswer):
        assistant_message(blocks)
    assert assistant_message([CALL, {**CALL, "id": "b"}])["content"] == [CALL, {**CALL, "id": "b"}]


def feed(*events: dict[str, Any]) -> StreamedAnswer:
    """Return the answer that those events make."""
    answer = StreamedAnswer()
    for event in events:
        answer.feed(deepcopy(event))
    return answer


@pytest.mark.req("C3", "M7")
def test_a_summary_may_come_as_a_delta() -> None:
    """The service's own summary, also what it needs back besides, wherever in the stream it is."""
    begun = {"type": "content_block_start", "index": 0, "content_block": {"type": "compaction", "content": None}}
    delta = {"type": "compaction_delta", "content": "So far.", "encrypted_content": "e30="}
    answer = feed(ANSWER[0], begun, {"type": "content_block_delta", "index": 0, "delta": delta}, *ANSWER[3:]).message()
    assert answer["content"] == [{"type": "compaction", "content": "So far.", "encrypted_content": "e30="}]


@pytest.mark.req("M7")
def test_why_an_answer_ended_is_told_once() -> None:
    """A later message_delta that tells only of usage takes nothing back."""
    later = {"type": "message_delta", "delta": {"stop_reason": None}, "usage": {"output_tokens": 7}}
    answer = feed(*ANSWER[:5], later, ANSWER[5])
    assert answer.message()["content"] == [{"type": "text", "text": "Hello."}]
    assert (answer.stop_reason, answer.usage["output_tokens"]) == ("end_turn", 7)


@pytest.mark.req("M7")
def test_an_answer_may_be_whole_in_its_first_event() -> None:
    answer = StreamedAnswer()
    for event in deepcopy(AT_ONCE):
        answer.feed(event)
    assert answer.message() == {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]}
    assert answer.stop_reason == "end_turn"
    assert answer.usage_so_far()["output_tokens"] == 7


@pytest.mark.req("M7", "L3")
async def test_a_call_in_the_first_event_runs(room: Open) -> None:
    r = room(sequence(replace(call("LS", path="."), at_once=True), replace(say("Done."), at_once=True)))
    assert ended(await drive(r.session())).text == "Done."
    assert [result.is_error for result in r.api.requests[1].results] == [False]
