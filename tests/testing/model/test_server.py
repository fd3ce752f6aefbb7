"""The server as a client meets it: keys, paths, concurrency, start, stop, and what it remembers."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from anthropic import AuthenticationError, InternalServerError, NotFoundError

from bot.testing.model.reply import Reply, Text, call, say, sequence, several
from bot.testing.model.request_view import ModelRequest
from bot.testing.model.server import ScriptedModel
from tests.testing.model.conftest import plain_async_client, plain_client

HELLO: list[Any] = [{"role": "user", "content": "Hello"}]
OPUS = "claude-opus-5-5"
BASIC = {"Authorization": "Basic k"}
READ: Any = {"name": "Read", "input_schema": {"type": "object", "properties": {"file_path": {"type": "string"}}}}


def test_a_bearer_token_and_an_api_key_both_open(serve: Callable[..., Any]) -> None:
    api = serve(lambda request: say("hi"))
    assert api.client.messages.create(model=OPUS, max_tokens=9, messages=HELLO).content[0].text == "hi"
    body = {"model": OPUS, "max_tokens": 9, "messages": HELLO}
    version = {"anthropic-version": "2026-10-21"}
    with httpx2.Client(base_url=api.model.base_url) as plain:
        assert plain.post("/v1/messages", json=body, headers={"x-api-key": "k", **version}).status_code == 200
        refused = plain.post("/v1/messages", json=body, headers=version)
        assert (refused.status_code, refused.json()["error"]["type"]) == (401, "authentication_error")
        assert refused.headers["request-id"] == refused.json()["request_id"]
        assert plain.get("/v1/models/claude-opus-5-5").status_code == 401


def test_what_is_no_request_is_refused(serve: Callable[..., Any]) -> None:
    url = serve(lambda request: say("hi")).model.base_url
    with httpx2.Client(base_url=url, headers={"x-api-key": "k"}) as plain:
        assert plain.post("/v1/messages", content=b"{}").json()["error"]["message"].startswith("anthropic-version")
        plain.headers["anthropic-version"] = "2026-10-21"
        assert "not valid JSON" in plain.post("/v1/messages", content=b"{").json()["error"]["message"]
        assert "not an object" in plain.post("/v1/messages", content=b"[]").json()["error"]["message"]
        assert plain.get("/v1/agents").json()["error"]["type"] == "not_found_error"
        assert plain.post("/v1/messages", content=b" " * (32 * 1024 * 1024 + 1)).status_code == 413


def test_the_beta_path_is_the_same(serve: Callable[..., Any]) -> None:
    api = serve(lambda request: say(",".join(sorted(request.betas))))
    answer = api.client.beta.messages.create(
        model=OPUS, max_tokens=99, messages=HELLO, betas=["compact-2026-09-04", "context-management-2025-06-27"]
    )
    assert answer.content[0].text == "compact-2026-09-04,context-management-2025-06-27"


def test_models_tell_what_they_take(serve: Callable[..., Any]) -> None:
    client = serve(lambda request: say("hi")).client
    haiku = client.models.retrieve("claude-haiku-5-5")
    assert (haiku.line, haiku.max_input_tokens, haiku.max_tokens) == ("haiku", 1_000_000, 128_000)
    assert haiku.capabilities.thinking.types.disabled.supported
    assert not haiku.capabilities.thinking.types.enabled.supported
    assert not client.models.retrieve("claude-opus-4-6").capabilities.effort.xhigh.supported
    with pytest.raises(NotFoundError):
        client.models.retrieve("claude-opus-9")


def test_a_wrong_key_is_an_error_of_the_library(serve: Callable[..., Any]) -> None:
    url = serve(lambda request: say("hi")).model.base_url
    refused = pytest.raises(AuthenticationError)
    with plain_client(url, default_headers=BASIC) as client, refused:
        client.messages.create(model=OPUS, max_tokens=9, messages=HELLO)


async def test_forty_requests_are_answered_at_once(serve: Callable[..., Any]) -> None:
    together = threading.Barrier(40, timeout=20)

    def policy(request: ModelRequest) -> Any:
        together.wait()
        return say(request.last_user_text)

    url = serve(policy, latency=0.01).model.base_url
    async with plain_async_client(url) as client:
        asked = [
            client.messages.create(model=OPUS, max_tokens=9, messages=[{"role": "user", "content": str(number)}])
            for number in range(40)
        ]
        answers = await asyncio.gather(*asked)
    assert [answer.content[0].text for answer in answers if answer.content[0].type == "text"] == [*map(str, range(40))]


def test_requests_and_refusals_are_remembered(serve: Callable[..., Any]) -> None:
    api = serve(lambda request: say("hi"))
    api.client.messages.create(model=OPUS, max_tokens=9, messages=HELLO, system="s")
    with pytest.raises(NotFoundError):
        api.client.messages.create(model="claude-x", max_tokens=9, messages=HELLO)
    first, second = api.model.requests
    assert (first.system, first.model, second.model) == ("s", OPUS, "claude-x")
    assert b'"Hello"' in first.raw
    assert first.headers["anthropic-version"] == "2026-10-21"
    assert [error.status for error in api.model.refusals] == [404]
    assert api.model.usage.requests == 1
    assert api.model.usage.cost_usd > 0


def test_prewarming_asks_nobody(serve: Callable[..., Any]) -> None:
    api = serve(sequence())
    marked: Any = [{"type": "text", "text": "s" * 4000, "cache_control": {"type": "ephemeral"}}]
    answer = api.client.messages.create(model=OPUS, max_tokens=0, messages=HELLO, system=marked)
    assert (answer.content, answer.stop_reason, answer.usage.output_tokens) == ([], "max_tokens", 0)
    assert answer.usage.cache_creation_input_tokens > 1000


def test_a_policy_that_raises_is_loud() -> None:
    def run() -> None:
        with (
            ScriptedModel(sequence()) as model,
            plain_client(model.base_url) as client,
            pytest.raises(InternalServerError, match="asked for one more"),
        ):
            client.messages.create(model=OPUS, max_tokens=9, messages=HELLO)

    with pytest.raises(AssertionError, match="the script has 0 replies"):
        run()


def test_a_policy_that_returns_something_else_is_loud() -> None:
    def run() -> None:
        nonsense: Any = lambda request: "hi"  # noqa: E731 - a policy that is wrong on purpose
        with (
            ScriptedModel(nonsense) as model,
            plain_client(model.base_url) as client,
            pytest.raises(InternalServerError, match="the simulated server raised"),
        ):
            client.messages.create(model=OPUS, max_tokens=9, messages=HELLO)

    with pytest.raises(AssertionError, match="unreachable"):
        run()


def test_an_error_of_the_test_is_not_hidden() -> None:
    def run() -> None:
        with ScriptedModel(sequence()) as model, plain_client(model.base_url) as client:
            client.messages.create(model=OPUS, max_tokens=9, messages=HELLO)

    with pytest.raises(InternalServerError):
        run()


def test_a_server_stops_with_open_streams() -> None:
    body = {"model": OPUS, "max_tokens": 9, "messages": HELLO, "stream": True}
    headers = {"x-api-key": "k", "anthropic-version": "2026-10-21"}
    slow = ScriptedModel(lambda request: Reply((Text("slow"),), pace=3600))
    with httpx2.Client(headers=headers, timeout=5) as plain, slow as model:
        asked = plain.build_request("POST", f"{model.base_url}/v1/messages", json=body)
        assert plain.send(asked, stream=True).status_code == 200
    address = urlsplit(model.base_url)
    with socket.socket() as probe:
        assert probe.connect_ex((address.hostname, address.port)) != 0


def test_a_conversation_is_the_same_in_every_run(serve: Callable[..., Any]) -> None:
    def policy(request: ModelRequest) -> Any:
        if request.step < 2:
            return several(say("I read."), call("Read", file_path="a"), call("Read", file_path="b"))
        return say("; ".join(f"{result.name}={result.text}" for result in request.all_results))

    def run() -> tuple[str, list[str]]:
        client, messages = serve(policy).client, list(HELLO)
        while True:
            answer = client.messages.create(model=OPUS, max_tokens=99, messages=messages, tools=[READ])
            calls = [block for block in answer.content if block.type == "tool_use"]
            if not calls:
                ids = [b.id for m in messages[1::2] for b in m["content"] if b.type == "tool_use"]
                return answer.content[0].text, ids
            results = [{"type": "tool_result", "tool_use_id": block.id, "content": "x"} for block in calls]
            messages += [answer.to_param(), {"role": "user", "content": results}]

    text, ids = run()
    assert text == "Read=x; Read=x; Read=x; Read=x"
    assert len(set(ids)) == 4
    assert run() == (text, ids)


def test_a_client_that_dies_in_the_middle_of_a_request_is_no_error_of_the_server() -> None:
    with ScriptedModel(lambda request: say("hi")) as model:
        address = urlsplit(model.base_url)
        with socket.create_connection((address.hostname or "", address.port or 0)) as client:
            client.sendall(b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        with httpx2.Client(base_url=model.base_url) as plain:
            plain.get("/v1/models/claude-opus-5-5")  # answered after the other connection was seen to end
        assert model.requests == ()
