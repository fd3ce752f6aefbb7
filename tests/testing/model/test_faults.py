"""Faults as the library shows them: statuses, errors in mid-stream, silence, and streams that end too early."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from anthropic import APIConnectionError, APIStatusError, InternalServerError, OverloadedError, RateLimitError

from bot.testing.model.reply import Fault, call, say, sequence

HELLO: list[Any] = [{"role": "user", "content": "Hello"}]
ASKED: dict[str, Any] = {"model": "claude-opus-5-5", "max_tokens": 99, "messages": HELLO}


@pytest.mark.req("M9")
def test_an_overload_passes(serve: Callable[..., Any]) -> None:
    client = serve(sequence(Fault.status(529), say("hi"))).client
    with pytest.raises(OverloadedError) as error:
        client.messages.create(**ASKED)
    assert error.value.type == "overloaded_error"
    assert client.messages.create(**ASKED).content[0].text == "hi"


@pytest.mark.req("M9")
def test_a_rate_limit_may_tell_when_to_come_back(serve: Callable[..., Any]) -> None:
    client = serve(sequence(Fault.status(429, retry_after=1.5), Fault.status(429))).client
    for expected in ("1.5", None):
        with pytest.raises(RateLimitError) as error:
            client.messages.create(**ASKED)
        assert error.value.response.headers.get("retry-after") == expected


@pytest.mark.req("M9")
def test_an_error_in_mid_stream_tells_its_type_alone(serve: Callable[..., Any]) -> None:
    client = serve(lambda request: Fault.error_event("overloaded_error", reply=say("one two three"), after=5)).client
    with client.messages.stream(**ASKED) as stream:
        with pytest.raises(APIStatusError) as error:
            stream.until_done()
        assert stream.current_message_snapshot.content[0].text
    assert (error.value.status_code, error.value.type) == (200, "overloaded_error")
    assert not isinstance(error.value, OverloadedError)


def test_an_error_without_a_stream_has_its_status(serve: Callable[..., Any]) -> None:
    client = serve(sequence(Fault.error_event("overloaded_error"), Fault.error_event("odd_error"))).client
    with pytest.raises(OverloadedError):
        client.messages.create(**ASKED)
    with pytest.raises(InternalServerError) as error:
        client.messages.create(**ASKED)
    assert (error.value.status_code, error.value.type) == (500, "odd_error")


@pytest.mark.req("M7")
def test_a_stall_ends_in_a_read_timeout(serve: Callable[..., Any]) -> None:
    client = serve(lambda request: Fault.stall(3600)).client
    quick = client.with_options(timeout=httpx2.Timeout(5, read=0.05))
    with quick.messages.stream(**ASKED) as stream, pytest.raises(httpx2.ReadTimeout):
        stream.until_done()
    with pytest.raises(APIConnectionError):
        quick.messages.create(**ASKED)


def test_a_short_stall_goes_on(serve: Callable[..., Any]) -> None:
    client = serve(lambda request: Fault.stall(0.01, reply=say("late"))).client
    with client.messages.stream(**ASKED) as stream:
        assert stream.get_final_text() == "late"
    assert client.messages.create(**ASKED).content[0].text == "late"


@pytest.mark.req("M7")
@pytest.mark.parametrize("after", (2, 5, 1000))
def test_a_stream_without_its_end_raises_nothing(serve: Callable[..., Any], after: int) -> None:
    client = serve(lambda request: Fault.truncate(reply=call("Read", file_path="a"), after=after)).client
    kinds = []
    with client.messages.stream(**ASKED) as stream:
        kinds += [event.type for event in stream]
    assert "message_start" in kinds
    assert "message_stop" not in kinds


@pytest.mark.req("M8")
@pytest.mark.parametrize("fault", (Fault.truncate(), Fault.disconnect()), ids=["truncate", "disconnect"])
def test_a_cut_answer_is_a_failed_connection(serve: Callable[..., Any], fault: Fault) -> None:
    client = serve(lambda request: fault).client
    with pytest.raises((APIConnectionError, httpx2.RemoteProtocolError)):
        client.messages.create(**ASKED)


def test_a_cut_stream_is_an_error_of_the_transport(serve: Callable[..., Any]) -> None:
    client = serve(lambda request: Fault.disconnect(reply=say("one two three"))).client
    with client.messages.stream(**ASKED) as stream, pytest.raises(httpx2.RemoteProtocolError):
        stream.until_done()


def test_a_proxy_answers_with_a_page(serve: Callable[..., Any]) -> None:
    client = serve(lambda request: Fault.status(502, page=b"<h1>Bad gateway</h1>")).client
    with pytest.raises(InternalServerError, match="<h1>Bad gateway</h1>") as error:
        client.messages.create(**ASKED)
    assert error.value.type is None


def test_an_error_may_have_a_code(serve: Callable[..., Any]) -> None:
    client = serve(lambda request: Fault.status(429, error_code="enforced_spend_limit_reached")).client
    with pytest.raises(RateLimitError) as error:
        client.messages.create(**ASKED)
    assert error.value.error_code == "enforced_spend_limit_reached"


def test_a_connection_is_reset_in_mid_stream(serve: Callable[..., Any]) -> None:
    client = serve(lambda request: Fault.reset(reply=say("one two three"))).client
    with client.messages.stream(**ASKED) as stream, pytest.raises(httpx2.TransportError):
        stream.until_done()


def test_odd_bytes_come_in_a_stream_or_for_an_answer(serve: Callable[..., Any]) -> None:
    client = serve(lambda request: Fault.garble(b"odd", reply=say("one"))).client
    raw = client.messages.with_streaming_response.create
    with raw(**ASKED, stream=True) as response:
        assert b"\ndata: odd\n" in response.read()
    assert client.messages.with_raw_response.create(**ASKED).http_response.content == b"odd"


def test_a_stall_may_send_pings(serve: Callable[..., Any]) -> None:
    client = serve(lambda request: Fault.stall(0.2, reply=say("late"), ping_every=0.05)).client
    with client.messages.with_streaming_response.create(**ASKED, stream=True) as response:
        assert response.read().count(b"event: ping") >= 4
