"""Workload identity: GitHub's proof becomes Anthropic's token, and what goes wrong on the way is told with its cure."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bot.agent.model.anthropic_model import AnthropicModel, RetryPolicy
from bot.agent.model.connection import WorkloadIdentity
from bot.compose.parts import model_of
from bot.config.environment import settings
from bot.config.settings import Identity, Secret, Settings
from bot.core.errors import Misconfigured, Refused, Transient
from bot.testing.host import host_application
from bot.testing.model.reply import say
from bot.testing.model.server import ScriptedModel
from tests.agent.ground import HandClock, stream
from tests.agent.model.test_failing import ONE

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


async def test_a_job_is_let_in_without_a_key() -> None:
    """One proof, meant for Anthropic, becomes one token that all requests carry."""
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
    """A token that is nearly over is renewed with a fresh proof, not with the one of before."""
    with api(lifetime=20) as model, proofs() as github:
        one = client(model, github)
        await stream(one, ONE)
        await stream(one, ONE)
        await one.close()
    assert [body["assertion"] for body in model.federation.exchanges] == [f"proof.number.{n}" for n in (1, 2, 3)], (
        "one to learn about the model, and one for each answer"
    )


@pytest.mark.parametrize(("status", "text"), ((401, "no"), (403, "{}"), (200, "a page"), (200, "[]"), (200, "{}")))
async def test_without_a_proof_the_job_is_told_what_to_look_at(status: int, text: str) -> None:
    """What GitHub refuses, or does not answer as documented, ends the work with the cure; no secret is in it."""
    with api() as model, proofs(status, text) as github:
        one = client(model, github, tries=3)
        with pytest.raises(Refused, match="id-token: write") as caught:
            await stream(one, ONE)
        await one.close()
    assert len(github.asked) <= 2 * 2  # to learn about the model, and to ask it; the library tries twice after a 401
    assert "job-secret" not in str(caught.value)
    assert model.requests == ()


async def test_a_proof_that_no_rule_matches() -> None:
    """Anthropic's refusal ends the work with the cure."""
    with api() as model, proofs(text='{"value": "nonsense"}') as github:
        one = client(model, github, tries=3)
        with pytest.raises(Refused, match="federation rule"):
            await stream(one, ONE)
        await one.close()
    assert len(github.asked) <= 2 * 2  # to learn about the model, and to ask it; the library tries twice after a 401


async def test_a_failing_endpoint_is_asked_again() -> None:
    """GitHub's trouble is no refusal: as often as the patience allows, then "try again later"."""
    with api() as model, proofs(503) as github:
        one = client(model, github, tries=3)
        with pytest.raises(Transient):
            await stream(one, ONE)
        await one.close()
    assert len(github.asked) == 1 + 3, "to learn about the model, and to ask it"


async def test_nobody_at_the_endpoint_is_trouble_as_well() -> None:
    """An address where nobody listens is asked again, and its secret is not told."""
    with api() as model:
        one = client(model, Proofs(url="http://127.0.0.1:9"), tries=2)
        with pytest.raises(Transient, match="no proof of this job") as caught:
            await stream(one, ONE)
        await one.close()
    assert "job-secret" not in str(caught.value)


async def test_an_address_without_tls_is_not_spoken_to() -> None:
    """A proof never goes over the network in the clear: only this machine may be without TLS."""
    identity = Proofs(url="http://127.0.0.1:9").identity()
    one = AnthropicModel(HandClock(), "", "http://model.example", identity=identity)
    with pytest.raises(Misconfigured, match="ANTHROPIC_BASE_URL"):
        one.warm()


async def test_a_key_comes_first() -> None:
    """Where there is a key as well, no proof is asked for."""
    with api() as model, proofs() as github:
        one = AnthropicModel(HandClock(), "key", model.base_url, identity=github.identity())
        await stream(one, ONE)
        await one.close()
    assert github.asked == []
    assert model.requests[0].headers["authorization"] == "Bearer key"


async def test_the_settings_of_an_action_are_enough() -> None:
    """The model that is joined from settings speaks as the workload, to the server that the settings name."""
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
async def test_the_variables_of_an_operator_are_enough(tmp_path: Path, source: str) -> None:
    """Whatever runs speaks as the workload that the environment names; a proof in a file is read when it is needed."""
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


async def test_a_rule_for_more_than_one_workspace() -> None:
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
def test_an_identity_that_is_not_whole_is_no_identity(left: str) -> None:
    """What is missing is named; a key outranks it."""
    proof = {"ANTHROPIC_IDENTITY_TOKEN": "proof"}
    for environ, where in ((NAMED | proof | {left: ""}, left), (NAMED, "ANTHROPIC_IDENTITY_TOKEN_FILE")):
        with pytest.raises(Misconfigured) as caught:
            settings(environ)
        assert caught.value.where == where
    assert settings(NAMED | {"ANTHROPIC_API_KEY": "key"}).identity is None
