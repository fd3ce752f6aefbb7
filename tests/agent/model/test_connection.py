"""The one path to a server: bytes where the library's client takes them, a dictionary where it rewrites them (M3)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bot.agent.model.anthropic_model import AnthropicModel
from bot.agent.model.connection import Connection
from bot.core.transcript import Json, encode_json
from bot.ports import AnswerCompleted, ModelRequest
from bot.testing.host import serve_routes
from bot.testing.model.reply import say
from bot.testing.model.server import ScriptedModel
from tests.agent.conftest import Open
from tests.agent.ground import HandClock, of, stream

SAID: Json = {"role": "user", "content": [{"type": "text", "text": "größer 😀\u2028"}]}
ONE = ModelRequest(
    "claude-opus-5-5",
    ({"type": "text", "text": "You are terse."},),
    (),
    [SAID],
    stored=[encode_json(SAID)],
    peak=600_000,
)
ANSWER: dict[str, Any] = {
    "content": [{"type": "text", "text": "Hello."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 1},
}
EVENTS = (
    {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}},
    {"type": "ping"},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    {"type": "message_stop"},
)


@dataclass
class Platform:
    """A cloud that serves the model at paths of its own, and keeps what it was sent."""

    url: str = ""
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    async def answer(self, request: Request) -> Response:
        if request.method == "GET":  # what the model is
            return JSONResponse({})
        self.asked.append((request.url.path, json.loads(await request.body())))
        if not request.url.path.endswith(":streamRawPredict"):
            return JSONResponse(ANSWER)
        frames = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS)
        return Response(frames, media_type="text/event-stream")


@contextmanager
def platform() -> Iterator[Platform]:
    made = Platform()
    with serve_routes([Route("/{rest:path}", made.answer, methods=["GET", "POST"])]) as made.url:
        yield made


@pytest.mark.req("M12")
@pytest.mark.parametrize("role", ("main", "light"))
async def test_vertex_takes_the_same_path(role: str) -> None:
    """The library's own client rewrites the request for its cloud, streaming and not, and the answer is read alike."""
    with platform() as cloud:
        # It loads every type of the library: at the top it would cost each process that collects this file a second.
        from anthropic import AsyncAnthropicVertex

        def connect() -> AsyncAnthropicVertex:
            return AsyncAnthropicVertex(
                region="global", project_id="p", access_token="t", base_url=cloud.url, max_retries=0
            )

        model = AnthropicModel(HandClock(), "", connection=Connection(connect, rewrites=True))
        (completed,) = of(await stream(model, replace(ONE, role=role)), AnswerCompleted)
        await model.close()
    assert completed.message["content"] == ANSWER["content"]
    path, body = cloud.asked[-1]
    verb = "rawPredict" if role == "light" else "streamRawPredict"
    assert path == f"/projects/p/locations/global/publishers/anthropic/models/claude-opus-5-5:{verb}"
    assert body["messages"][0]["content"][0]["text"] == "größer 😀\u2028"


@pytest.mark.req("M12")
async def test_bedrock_takes_the_same_path() -> None:
    """Without streaming: how its events are framed is known to botocore, which is installed with the client."""
    with platform() as cloud:
        from anthropic import AsyncAnthropicBedrock

        def connect() -> AsyncAnthropicBedrock:
            return AsyncAnthropicBedrock(aws_region="us-east-1", api_key="k", base_url=cloud.url, max_retries=0)

        model = AnthropicModel(HandClock(), "", connection=Connection(connect, rewrites=True))
        light = replace(ONE, model="haiku", role="light")
        (completed,) = of(await stream(model, light), AnswerCompleted)
        await model.close()
    assert completed.message["content"] == ANSWER["content"]
    path, body = cloud.asked[-1]
    assert path == "/model/claude-haiku-5-5/invoke"
    assert body["messages"] == [SAID]
    assert "model" not in body


@pytest.mark.req("M3")
async def test_the_direct_path_sends_the_bytes_that_are_stored(room: Open) -> None:
    """However they were written: they are not parsed and written again."""
    r = room(lambda _: say("Hi."))
    odd = json.dumps(SAID, indent=1).encode()
    yes: Json = {"role": "assistant", "content": "Yes."}
    later, stored = [SAID, yes, SAID, yes, SAID], [odd, encode_json(yes), odd, encode_json(yes), odd]
    await stream(r.model, replace(ONE, role="light", model="haiku", messages=later, stored=stored))
    assert r.api.requests[0].raw.count(odd) == 3


@pytest.mark.req("M12")
async def test_a_server_that_reads_x_api_key_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library adds the headers of ANTHROPIC_CUSTOM_HEADERS to every request, as the settings say."""
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-api-key: theirs-1234\nx-team: blue")
    with ScriptedModel(lambda _: say("Hi."), lacks={"bearer"}) as api:
        model = AnthropicModel(HandClock(), "key", api.base_url)
        assert await model.check_model("opus") == "claude-opus-5-5"
        assert len(of(await stream(model, ONE), AnswerCompleted)) == 1
        await model.close()
    headers = api.requests[0].headers
    assert (headers["x-api-key"], headers["x-team"]) == ("theirs-1234", "blue")
