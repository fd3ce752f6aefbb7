"""Connections: clouds, stored bytes, lazy types of the library, and workload identity (M7, M9)."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anthropic
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bot.agent.model.anthropic_model import AnthropicModel, RetryPolicy
from bot.agent.model.connection import Connection, WorkloadIdentity
from bot.compose.parts import model_of
from bot.config.environment import settings
from bot.config.settings import Identity, Secret, Settings
from bot.core.errors import Misconfigured, Refused, Transient
from bot.core.transcript import Json, encode_json
from bot.ports import AnswerCompleted, ModelRequest
from bot.testing.host import host_application, serve_routes
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
async def test_vertex_gets_a_rewritten_request_and_its_answer_is_read_alike(role: str) -> None:
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
async def test_bedrock_gets_a_rewritten_request_without_streaming() -> None:
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
    r = room(lambda _: say("Hi."))
    odd = json.dumps(SAID, indent=1).encode()
    yes: Json = {"role": "assistant", "content": "Yes."}
    later, stored = [SAID, yes, SAID, yes, SAID], [odd, encode_json(yes), odd, encode_json(yes), odd]
    await stream(r.model, replace(ONE, role="light", model="haiku", messages=later, stored=stored))
    assert r.api.requests[0].raw.count(odd) == 3


@pytest.mark.req("M12")
async def test_custom_headers_are_added_to_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-api-key: theirs-1234\nx-team: blue")
    with ScriptedModel(lambda _: say("Hi."), lacks={"bearer"}) as api:
        model = AnthropicModel(HandClock(), "key", api.base_url)
        assert await model.check_model("opus") == "claude-opus-5-5"
        assert len(of(await stream(model, ONE), AnswerCompleted)) == 1
        await model.close()
    headers = api.requests[0].headers
    assert (headers["x-api-key"], headers["x-team"]) == ("theirs-1234", "blue")


PROGRAM = """
import json, sys
from bot.agent.model.connection import direct_connection
direct_connection("none", "http://127.0.0.1:9", None, 90.0).open()
import anthropic
assert not hasattr(anthropic, "_private")
assert "anthropic.lib.bedrock" not in sys.modules, "loaded to look for a private name"
print(json.dumps(sum(name.startswith("anthropic.types") for name in sys.modules)))
"""


def test_a_client_loads_a_part_of_the_types() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 0 < json.loads(done.stdout) < 1_000


def test_every_public_name_stays_importable() -> None:
    """All names of `__all__` resolve where the types are loaded on demand, as in the processes of the tests, and names
    that nobody made do not."""
    parts = ast.parse(Path(str(anthropic.__file__)).read_text()).body
    listed = next(
        part.value for part in parts if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "__all__"
    )
    assert [name for name in ast.literal_eval(listed) if not hasattr(anthropic, name)] == []
    from anthropic import AsyncAnthropicBedrock, AsyncAnthropicVertex, WorkloadIdentityError, resources
    from anthropic.types.beta import BetaMessage

    assert all((AsyncAnthropicBedrock, AsyncAnthropicVertex, WorkloadIdentityError, resources, BetaMessage))
    assert type(anthropic).__module__ == "bot.agent.model.connection"
    assert not hasattr(anthropic, "no_such_name")
    assert anthropic.__version__


WORKSPACE = "ANTHROPIC_WORKSPACE_ID"


@dataclass
class Proofs:
    """GitHub's endpoint for the proofs of one job, with what it was asked."""

    status: int = 200
    text: str = ""
    """What it says instead of a proof."""
    url: str = ""
    asked: list[Request] = field(default_factory=list)

    async def give(self, request: Request) -> Response:
        self.asked.append(request)
        if self.text or self.status != 200:
            return Response(self.text, self.status)
        return JSONResponse({"count": 1, "value": f"proof.number.{len(self.asked)}"})

    def identity(self) -> WorkloadIdentity:
        return WorkloadIdentity("fdrl_1", "org-1", "svac_1", f"{self.url}/token?api-version=2.0", lambda: "job-secret")


@contextmanager
def proofs(status: int = 200, text: str = "") -> Iterator[Proofs]:
    github = Proofs(status, text)
    with host_application(Starlette(routes=[Route("/token", github.give)])) as github.url:
        yield github


@contextmanager
def api(lifetime: int = 600) -> Iterator[ScriptedModel]:
    with ScriptedModel(lambda _: say("Hello.")) as model:
        model.federation.lifetime = lifetime
        yield model


def client(model: ScriptedModel, github: Proofs, tries: int = 1) -> AnthropicModel:
    return AnthropicModel(
        HandClock(), "", model.base_url, patience=RetryPolicy(tries=tries), identity=github.identity()
    )


async def test_a_job_proves_its_identity_once_and_needs_no_key() -> None:
    with api() as model, proofs() as github:
        one = client(model, github)
        await stream(one, ONE)
        await stream(one, ONE)
        await one.close()
    (asked,) = github.asked
    assert asked.headers["authorization"] == "bearer job-secret"
    assert dict(asked.query_params) == {"api-version": "2.0", "audience": "https://api.anthropic.com"}
    (body,) = model.federation.exchanges
    assert {name: body[name] for name in body if name != "grant_type"} == {
        "assertion": "proof.number.1",
        "federation_rule_id": "fdrl_1",
        "organization_id": "org-1",
        "service_account_id": "svac_1",
    }
    assert {request.headers["authorization"][:20] for request in model.requests} == {"Bearer sk-ant-oat01-"}


async def test_every_token_has_a_proof_of_its_own() -> None:
    with api(lifetime=20) as model, proofs() as github:
        one = client(model, github)
        await stream(one, ONE)
        await stream(one, ONE)
        await one.close()
    assert [body["assertion"] for body in model.federation.exchanges] == [f"proof.number.{n}" for n in (1, 2, 3)], (
        "one to learn about the model, and one for each answer"
    )


@pytest.mark.parametrize(
    ("status", "text", "cure"),
    (
        (401, "no", "id-token: write"),
        (403, "{}", "id-token: write"),
        (200, "a page", "id-token: write"),
        (200, "[]", "id-token: write"),
        (200, "{}", "id-token: write"),
        (200, '{"value": "nonsense"}', "federation rule"),
    ),
)
async def test_a_refused_proof_ends_the_work_with_the_cure_and_no_secret(status: int, text: str, cure: str) -> None:
    with api() as model, proofs(status, text) as github:
        one = client(model, github, tries=3)
        with pytest.raises(Refused, match=cure) as caught:
            await stream(one, ONE)
        await one.close()
    assert len(github.asked) <= 2 * 2  # to learn about the model, and to ask it; the library tries twice after a 401
    assert "job-secret" not in str(caught.value)
    assert model.requests == ()


async def test_a_failing_endpoint_is_asked_again() -> None:
    with api() as model, proofs(503) as github:
        one = client(model, github, tries=3)
        with pytest.raises(Transient):
            await stream(one, ONE)
        await one.close()
    assert len(github.asked) == 1 + 3, "to learn about the model, and to ask it"


async def test_an_endpoint_where_nobody_listens_is_asked_again() -> None:
    with api() as model:
        one = client(model, Proofs(url="http://127.0.0.1:9"), tries=2)
        with pytest.raises(Transient, match="no proof of this job") as caught:
            await stream(one, ONE)
        await one.close()
    assert "job-secret" not in str(caught.value)


async def test_an_address_without_tls_is_not_spoken_to() -> None:
    identity = Proofs(url="http://127.0.0.1:9").identity()
    one = AnthropicModel(HandClock(), "", "http://model.example", identity=identity)
    with pytest.raises(Misconfigured, match="ANTHROPIC_BASE_URL"):
        one.warm()


async def test_where_there_is_a_key_no_proof_is_asked_for() -> None:
    with api() as model, proofs() as github:
        one = AnthropicModel(HandClock(), "key", model.base_url, identity=github.identity())
        await stream(one, ONE)
        await one.close()
    assert github.asked == []
    assert model.requests[0].headers["authorization"] == "Bearer key"


async def test_the_settings_of_an_action_make_a_model_that_speaks_as_the_workload() -> None:
    with api() as model, proofs() as github:
        whom = Identity("fdrl_1", "org-1", "svac_1", f"{github.url}/token?api-version=2.0", Secret("job-secret"))
        one = model_of(Settings(base_url=model.base_url, identity=whom))
        assert await one.check_model("claude-opus-5-5") == "claude-opus-5-5"
        await one.close()
    assert "job-secret" not in repr(one)
    assert len(model.federation.exchanges) == 1


NAMED = {
    "ANTHROPIC_FEDERATION_RULE_ID": "fdrl_1",
    "ANTHROPIC_ORGANIZATION_ID": "org-1",
    "ANTHROPIC_SERVICE_ACCOUNT_ID": "svac_1",
}


@pytest.mark.parametrize("source", ("file", "token", "job"))
async def test_the_variables_of_an_operator_make_a_model_that_speaks_as_the_workload(
    tmp_path: Path, source: str
) -> None:
    with api() as model, proofs() as github:
        url = f"{github.url}/token?api-version=2.0"
        given = {
            "file": {"ANTHROPIC_IDENTITY_TOKEN_FILE": str(tmp_path / "proof")},
            "token": {"ANTHROPIC_IDENTITY_TOKEN": "proof.number.0"},
            "job": {"ACTIONS_ID_TOKEN_REQUEST_URL": url, "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "job-secret"},
        }[source]
        read = settings(NAMED | given | {"ANTHROPIC_BASE_URL": model.base_url})
        one = model_of(read)
        if source == "file":
            with pytest.raises(Refused, match="the proof cannot be read"):
                await one.check_model("claude-opus-5-5")
            (tmp_path / "proof").write_text("proof.number.0\n")
        assert await one.check_model("claude-opus-5-5") == "claude-opus-5-5"
        await one.close()
    assert [exchange["assertion"] for exchange in model.federation.exchanges] == [
        "proof.number.1" if source == "job" else "proof.number.0"
    ]
    assert "proof.number.0" not in repr(read)


async def test_a_rule_for_several_workspaces_needs_the_variable_that_chooses() -> None:
    """Then the environment says which; without it the error names the variable."""
    given = NAMED | {"ANTHROPIC_IDENTITY_TOKEN": "proof.number.0"}
    with api() as model:
        model.federation.workspaces = 2
        address = {"ANTHROPIC_BASE_URL": model.base_url}
        one, other = (model_of(settings(given | address | more)) for more in ({}, {WORKSPACE: "wrkspc_1"}))
        with pytest.raises(Refused, match=WORKSPACE):
            await one.check_model("opus")
        assert await other.check_model("opus") == "claude-opus-5-5"
        await one.close()
        await other.close()
    assert [exchange["workspace_id"] for exchange in model.federation.exchanges] == ["wrkspc_1"]


@pytest.mark.parametrize("left", sorted(NAMED)[1:])
def test_an_incomplete_identity_names_what_is_missing(left: str) -> None:
    proof = {"ANTHROPIC_IDENTITY_TOKEN": "proof"}
    for environ, where in ((NAMED | proof | {left: ""}, left), (NAMED, "ANTHROPIC_IDENTITY_TOKEN_FILE")):
        with pytest.raises(Misconfigured) as caught:
            settings(environ)
        assert caught.value.where == where
    assert settings(NAMED | {"ANTHROPIC_API_KEY": "key"}).identity is None
