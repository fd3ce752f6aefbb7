"""Model calls that fail, break off, or stay silent: retries, waits, fallback, and what is booked (M7-M9, L4)."""

import asyncio
import json
from collections.abc import AsyncGenerator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bot.agent.model.answer import MalformedAnswer, StreamedAnswer, assistant_message
from bot.agent.model.anthropic_model import NON_STREAMING_CAP, AnthropicModel, RetryPolicy
from bot.agent.model.connection import timeout
from bot.agent.resources import SessionResources
from bot.agent.session_events import End, Info, ToolFinished, iterate_within
from bot.compose.parts import model_of
from bot.config.environment import settings
from bot.core.errors import Misconfigured, PlangateError, Refused, Transient
from bot.core.transcript import LineKind
from bot.ports import AnswerCompleted, AnswerStarted, Delta, ModelRequest, Notice
from bot.testing.host import host_application, serve_routes
from bot.testing.model.models import MODELS
from bot.testing.model.reply import (
    Call,
    Fault,
    Reply,
    Text,
    Thought,
    call,
    malformed_call,
    say,
    sequence,
    several,
    stop,
    think,
)
from tests.agent.conftest import Open
from tests.agent.ground import ONE, HandClock, Room, Silent, assert_prefixes, drive, ended, of, results, stream
from tests.rows import every_row

WRITE = several(say("I write."), call("Write", file_path="a", content="x"))


async def answer(r: Room, request: ModelRequest = ONE) -> tuple[list[Notice], AnswerCompleted]:
    """The notices and the answer of one request."""
    events = await stream(r.model, request)
    completed = events[-1]
    assert isinstance(completed, AnswerCompleted)
    assert len(of(events, AnswerCompleted)) == 1
    return of(events, Notice), completed


@pytest.mark.req("M7")
async def test_an_answer_streams_in_order_and_is_complete_once(room: Open) -> None:
    r = room(lambda _: several(think("Hm."), say("Hello to you.")))
    events = await stream(r.model, ONE)
    assert isinstance(events[0], AnswerStarted)
    pieces = of(events, Delta)
    assert "".join(piece.text for piece in pieces if piece.kind == "thinking") == "Hm."
    assert "".join(piece.text for piece in pieces if piece.kind == "text") == "Hello to you."
    completed = of(events, AnswerCompleted)[0]
    assert completed.stop_reason == "end_turn"
    assert completed.model == "claude-opus-5-5"
    assert completed.cost_usd == pytest.approx(r.api.usage.cost_usd)
    assert r.api.requests[0].headers["authorization"] == "Bearer key"
    assert r.api.requests[0].headers["anthropic-version"] == "2026-10-21"


BROKEN: dict[str, Fault | Reply] = {
    "529": Fault.status(529),
    "500": Fault.status(500),
    "502": Fault.status(502),
    "503": Fault.status(503),
    "504": Fault.status(504),
    "408": Fault.status(408),
    "409": Fault.status(409),
    "429": Fault.status(429),
    "overloaded after 200": Fault.error_event("overloaded_error", reply=WRITE, after=6),
    "api error after 200": Fault.error_event("api_error", reply=WRITE, after=9),
    "end without message_stop": Fault.truncate(reply=WRITE, after=12),
    "end before its stop reason": Fault.truncate(reply=WRITE, after=6),
    "end before its start": Fault.truncate(reply=WRITE, after=0),
    "cut connection": Fault.disconnect(reply=WRITE, after=10),
    "cut at once": Fault.disconnect(reply=WRITE, after=0),
    "input that is no JSON": malformed_call("Write", '{"file_path": "a", '),
    "input that is no object": malformed_call("Write", '["a"]'),
}


@pytest.mark.req("M7", "M8", "M9")
@pytest.mark.parametrize("fault", BROKEN.values(), ids=BROKEN)
async def test_a_failed_call_is_made_again(room: Open, fault: Fault | Reply) -> None:
    """Once it works the session goes on as if nothing had been: no tool of the broken answer ran, one notice tells of
    it, and the request that follows is the same, byte for byte."""
    r = room(sequence(fault, call("LS", path="."), say("Done.")))
    session = r.session()
    events = await drive(session)
    assert ended(events).text == "Done."
    assert [name for name, _ in r.host.calls] == ["LS"]
    assert len(results(session)) == 1
    assert [event.kind for event in of(events, Info)] == ["retry"]
    assert [event.name for event in of(events, ToolFinished)] == ["LS"]
    notes = [line.body for line in r.world.transcripts.load(session.id) if line.kind is LineKind.NOTE]
    assert [note["note"] for note in notes if note["note"] != "aside"] == ["retry"]
    assert r.api.requests[0].body["messages"] == r.api.requests[1].body["messages"]
    assert_prefixes(r.api.requests)


@pytest.mark.req("L5", "M7")
@pytest.mark.parametrize("name", ("overloaded after 200", "end without message_stop", "input that is no JSON"))
async def test_a_broken_answer_is_booked_as_far_as_the_service_told(room: Open, name: str) -> None:
    r = room(sequence(BROKEN[name], say("Done.")))
    await drive(r.session())
    booked, billed = r.world.ledger.usage, r.api.usage
    assert billed.requests == 2
    assert (booked.input, booked.cache_read) == (billed.input_tokens, billed.cache_read_input_tokens)
    assert booked.cache_write + booked.cache_write_1h >= billed.cache_creation_input_tokens > 0
    assert 0 < r.world.ledger.cost_usd <= billed.cost_usd + 1e-9
    assert r.resumed().resources.ledger.cost_usd == pytest.approx(r.world.ledger.cost_usd)


@pytest.mark.req("L5")
@pytest.mark.parametrize("block", (Text("w" * 9000), Thought("w" * 9000), Call("Write", {"content": "w" * 9000})))
async def test_a_long_answer_that_broke_off_is_booked_by_its_length(room: Open, block: Text | Thought | Call) -> None:
    r = room(sequence(Fault.truncate(reply=Reply((block,)), after=20), say("Done.")))
    await drive(r.session())
    assert 2000 < r.world.ledger.usage.output < 3100


@pytest.mark.req("L5", "M9")
async def test_the_last_broken_answer_is_booked_too(room: Open) -> None:
    r = room(sequence(Fault.error_event("invalid_request_error", reply=WRITE, after=6)))
    events = await drive(r.session())
    assert [event.kind for event in of(events, Info)] == ["void"]
    assert r.world.ledger.usage.context > 0


@pytest.mark.req("M8")
@pytest.mark.parametrize(
    "name", ("end without message_stop", "cut connection", "api error after 200", "input that is no JSON")
)
async def test_a_broken_stream_is_asked_for_once_without_streaming(room: Open, name: str) -> None:
    r = room(sequence(BROKEN[name], BROKEN["500"], say("Done.")))
    notices, completed = await answer(r)
    assert [request.stream for request in r.api.requests] == [True, False, True]
    assert [request.max_tokens for request in r.api.requests] == [64_000, NON_STREAMING_CAP, 64_000]
    assert r.clock.slept[0] == 0.0
    assert r.clock.slept[1] > 0.0
    assert len(notices) == 2
    assert completed.message["content"] == [{"type": "text", "text": "Done."}]


@pytest.mark.req("M8", "M10", "L9")
@pytest.mark.parametrize("end", (call("LS", path="."), stop("refusal", category="cyber")), ids=["call", "refusal"])
async def test_a_plain_answer_is_worth_the_same(room: Open, end: Reply) -> None:
    whole = several(think("Hm."), say("I look."), end)
    plain = room(sequence(Fault.truncate(reply=whole, after=3), whole))
    streamed = room(sequence(whole))
    _, one = await answer(plain)
    _, two = await answer(streamed)
    assert one == two


@pytest.mark.req("M7")
@pytest.mark.parametrize(
    ("endless", "patience"),
    (
        (Fault.stall(30, reply=WRITE), RetryPolicy(silence=0.2)),
        (Fault.stall(30, reply=Reply((Text("So"),)), ping_every=0.05), RetryPolicy(silence=20, quiet=0.3)),
        (Reply((Text("word " * 3000),), pace=0.05), RetryPolicy(total=0.4)),
    ),
    ids=["silence", "pings alone", "a trickle"],
)
async def test_a_stream_that_takes_too_long_is_abandoned(
    room: Open, endless: Fault | Reply, patience: RetryPolicy
) -> None:
    r = room(sequence(endless, say("Done.")), patience=patience)
    (notice,), completed = await answer(r)
    assert "connection to the model failed" in notice.text
    assert [request.stream for request in r.api.requests] == [True, False]
    assert completed.message["content"][0]["text"] == "Done."


@pytest.mark.req("M7")
@pytest.mark.parametrize(("given", "silence", "quiet"), (("", 90, 300), ("45", 45, 300), ("600", 600, 1200)))
def test_an_operator_says_how_long_silence_is_borne(given: str, silence: float, quiet: float) -> None:
    patience = model_of(settings({"PLANGATE_STALL_SECONDS": given})).patience
    assert (patience.silence, patience.quiet) == (silence, quiet)


@pytest.mark.req("M9")
async def test_waits_grow_and_are_capped(room: Open) -> None:
    r = room(lambda _: Fault.status(500), patience=RetryPolicy(tries=9, longest_wait=20))
    with pytest.raises(Transient, match="500"):
        await stream(r.model, ONE)
    assert len(r.api.requests) == 9
    waits = r.clock.slept
    assert len(waits) == 8
    assert all(0.5 * 2**n <= wait <= 0.5 * 2**n + 0.5 for n, wait in enumerate(waits[:4]))
    assert max(waits) <= 10
    assert len(set(waits)) > 1


@pytest.mark.req("M9")
@pytest.mark.parametrize(("asked", "waited"), ((7.0, 7.0), (18_000.0, 60.0), (0.0, 0.0)))
async def test_retry_after_is_honoured_up_to_a_cap(room: Open, asked: float, waited: float) -> None:
    r = room(sequence(Fault.status(429, retry_after=asked), say("Done.")))
    await answer(r)
    assert r.clock.slept == [waited]


FINAL = [Fault.status(code) for code in (400, 401, 402, 403, 404, 413, 422)]
FINAL += [Fault.status(529, should_retry=False), Fault.status(429, error_code="ramp_limit_exceeded")]


@pytest.mark.req("M9")
@pytest.mark.parametrize("fault", FINAL, ids=lambda fault: fault.code)
async def test_a_failure_that_no_retry_helps_is_final_and_says_the_cure(room: Open, fault: Fault) -> None:
    r = room(lambda _: fault)
    with pytest.raises(Refused, match=f"HTTP {fault.code}"):
        await stream(r.model, ONE)
    assert len(r.api.requests) == 1
    assert r.clock.slept == []


@pytest.mark.req("M9")
async def test_an_error_event_that_no_retry_helps_is_final(room: Open) -> None:
    r = room(lambda _: Fault.error_event("invalid_request_error"))
    with pytest.raises(Refused):
        await stream(r.model, ONE)


@pytest.mark.req("M9")
async def test_a_refused_connection_is_tried_again(room: Open) -> None:
    r = room(lambda _: say("?"))
    away = AnthropicModel(r.clock, "key", "http://127.0.0.1:9", patience=RetryPolicy(tries=3))
    with pytest.raises(Transient, match="connection to the model failed"):
        await stream(away, ONE)
    assert len(r.clock.slept) == 2
    await away.close()


@pytest.mark.req("M9")
async def test_a_failed_connection_names_the_certificate_name_or_protocol(room: Open) -> None:
    r = room(lambda _: say("?"))
    plain = r.api.base_url.replace("http://", "https://")  # it speaks no TLS
    away = AnthropicModel(r.clock, "key", plain, patience=RetryPolicy(tries=1))
    with pytest.raises(Transient, match="SSL"):
        await stream(away, ONE)
    await away.close()


@pytest.mark.req("M9")
async def test_without_a_key_nothing_is_sent_and_the_error_has_the_cure() -> None:
    model = AnthropicModel(HandClock(), "")
    with pytest.raises(Misconfigured, match="ANTHROPIC_API_KEY"):
        await stream(model, ONE)
    await model.close()


@pytest.mark.req("M9", "M12")
async def test_a_model_is_looked_up_by_alias_or_id(room: Open) -> None:
    r = room(lambda _: say("?"))
    assert await r.model.check_model("opus") == "claude-opus-5-5"
    with pytest.raises(Refused, match="404"):
        await r.model.check_model("claude-nobody")
    away = AnthropicModel(r.clock, "key", "http://127.0.0.1:9")
    with pytest.raises(Transient):
        await away.check_model("opus")
    await away.close()


@pytest.mark.req("M9", "M12")
@pytest.mark.parametrize("page", ("<html>", "[1]", "{nope", ""))
async def test_a_listing_in_another_form_is_a_failed_call(page: str) -> None:
    async def emit(_: Request) -> Response:
        return Response(page, media_type="text/html")

    with serve_routes([Route("/v1/models/{name}", emit)]) as url:
        model = AnthropicModel(HandClock(), "key", url)
        with pytest.raises(Transient):
            await model.check_model("opus")
        await model.close()


@pytest.mark.req("M12", "L9")
async def test_sessions_that_start_at_once_learn_the_same_of_a_model(room: Open) -> None:
    new = replace(MODELS["claude-opus-5-5"], id="claude-next-7")
    r = room(lambda _: say("Done."), models={**MODELS, new.id: new})
    await asyncio.gather(*(stream(r.model, replace(ONE, model=new.id)) for _ in range(3)))
    assert [request.effort for request in r.api.requests] == ["medium"] * 3


@pytest.mark.req("M12")
async def test_what_a_server_tells_holds_for_both_ids_of_a_model() -> None:
    async def emit(_: Request) -> Response:
        return JSONResponse({"id": "their-model-20260101", "max_input_tokens": 64_000})

    with serve_routes([Route("/v1/models/{name}", emit)]) as url:
        model = AnthropicModel(HandClock(), "key", url)
        assert await model.check_model("their-model") == "their-model-20260101"
        asked, answered = model.spec("their-model"), model.spec("their-model-20260101")
        await model.close()
    assert (asked.id, asked.window) == ("their-model", 64_000)
    assert (answered.id, answered.window) == ("their-model-20260101", 64_000)


async def test_a_warmed_model_answers_as_any(room: Open) -> None:
    r = room(lambda _: say("Done."))
    r.model.warm()
    assert (await answer(r))[1].stop_reason == "end_turn"


@pytest.mark.req("M9", "L4")
async def test_a_session_goes_on_from_its_transcript_after_the_last_try(room: Open) -> None:
    down = [Fault.status(529)] * 3
    r = room(sequence(call("LS", path="."), *down, say("Done.")), patience=RetryPolicy(tries=3))
    session = r.session()
    assert ended(await drive(session)).end is End.FAILED
    assert ended(await drive(r.resumed())).text == "Done."
    assert_prefixes(r.api.requests)


@pytest.mark.req("L4")
async def test_an_overloaded_model_gives_way_after_three_answers(room: Open) -> None:
    down = [Fault.status(529), Fault.error_event("overloaded_error"), Fault.status(529)]
    r = room(
        sequence(several(think("Hm."), call("LS", path=".")), *down, call("LS", path="src"), say("Done.")),
        fallback="sonnet",
    )
    session = r.session()
    events = await drive(session)
    assert ended(events).text == "Done."
    assert [event.kind for event in of(events, Info)] == ["retry", "retry", "fallback"]
    assert [request.model for request in r.api.requests] == ["claude-opus-5-5"] * 4 + ["claude-sonnet-5-5"] * 2
    assert [block["content"] for block in results(session)] == ['LS {"path": "."}', 'LS {"path": "src"}']
    assert {model for _, model in r.world.ledger.rows} == {"claude-opus-5-5", "claude-sonnet-5-5"}
    assert r.api.refusals == ()


@pytest.mark.req("L4")
@pytest.mark.parametrize("fallback", ("", "opus"), ids=["none", "the same model"])
async def test_without_another_model_there_is_no_fallback(room: Open, fallback: str) -> None:
    """Then the tries go on, up to their end."""
    r = room(sequence(*[Fault.status(529)] * 5, say("Done.")))
    notices, completed = await answer(r, replace(ONE, fallback=fallback))
    assert {notice.kind for notice in notices} == {"retry"}
    assert completed.model == "claude-opus-5-5"


@pytest.mark.req("L4")
async def test_only_overload_in_a_row_counts(room: Open) -> None:
    r = room(sequence(Fault.status(529), Fault.status(529), Fault.status(500), Fault.status(529), say("Done.")))
    _, completed = await answer(r, replace(ONE, fallback="sonnet"))
    assert completed.model == "claude-opus-5-5"


@pytest.mark.req("L1")
async def test_a_model_port_without_an_answer_is_broken(room: Open) -> None:
    r = room(lambda _: say("?"))
    w = r.world
    world = SessionResources(Silent(), w.transcripts, w.clock, w.gate, w.ledger)
    with pytest.raises(PlangateError, match="without an answer"):
        await drive(r.session(world=world))


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
async def test_an_answer_is_whole_at_message_stop_though_the_connection_stays_open() -> None:
    with host_application(lingering) as address:
        model = AnthropicModel(HandClock(), "key", address)
        async with asyncio.timeout(30):
            events = await stream(model, ONE)
        await model.close()
    (completed,) = of(events, AnswerCompleted)
    assert completed.message["content"] == [{"type": "text", "text": "Hello."}]
    assert of(events, Notice) == []


@pytest.mark.req("M7")
async def test_each_long_silence_is_told_once(room: Open) -> None:
    r = room(lambda _: Fault.stall(1.0, reply=say("Late.")), patience=RetryPolicy(report_silence_after=0.4))
    told: list[str] = []
    (completed,) = of(await stream(r.model, replace(ONE, heartbeat=told.append)), AnswerCompleted)
    assert completed.message["content"][0]["text"] == "Late."
    assert told == ["the model has sent nothing for 0 s; still waiting"]


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
async def test_a_light_call_never_streams_even_after_a_broken_connection(room: Open) -> None:
    r = room(sequence(Fault.disconnect(), say("Done.")))
    await stream(r.model, replace(ONE, model="haiku", role="light"))
    assert [request.stream for request in r.api.requests] == [False, False]
    assert [wait > 0 for wait in r.clock.slept] == [True]


@pytest.mark.req("M7", "L9")
def test_a_call_that_was_not_closed_is_no_call() -> None:
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
    begun = {"type": "content_block_start", "index": 0, "content_block": {"type": "compaction", "content": None}}
    delta = {"type": "compaction_delta", "content": "So far.", "encrypted_content": "e30="}
    answer = feed(ANSWER[0], begun, {"type": "content_block_delta", "index": 0, "delta": delta}, *ANSWER[3:]).message()
    assert answer["content"] == [{"type": "compaction", "content": "So far.", "encrypted_content": "e30="}]


@pytest.mark.req("M7")
def test_why_an_answer_ended_is_told_once() -> None:
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
