"""A server that knows less of the API than Anthropic's is asked for less, and nobody has to say so (M6, M12, C3)."""

from dataclasses import replace

import pytest

from bot.agent.model.failures import CallFailure, refused_features
from bot.agent.model.request import BINDING, CLEARING, COMPACTION, INTERLEAVED
from bot.core.errors import Refused
from bot.core.transcript import Json, encode_json
from bot.ports import AnswerCompleted, ModelRequest, Notice, Replay
from bot.testing.model.reply import call, say, sequence, several, think
from tests.agent.conftest import Open
from tests.agent.ground import drive, ended, of, stream
from tests.rows import every_row

ONE = ModelRequest(
    "claude-opus-5-5",
    ({"type": "text", "text": "You are terse."},),
    (),
    [{"role": "user", "content": [{"type": "text", "text": "Hello."}]}],
)
LONG = replace(ONE, peak=600_000)
HAIKU = replace(ONE, model="claude-haiku-4-5")
STRICT: Json = {"name": "T", "description": "T.", "strict": True, "input_schema": {"type": "object", "properties": {}}}
STRICT["input_schema"]["additionalProperties"] = False

REFUSED = {
    "the field of a beta": ("context_management", LONG, "context_management"),
    "a beta": (CLEARING, LONG, "context_management"),
    "a beta without a field": (INTERLEAVED, HAIKU, ""),
    "effort and formats": ("output_config", ONE, "output_config"),
    "effort": ("output_config.effort", ONE, "output_config"),
    "strict tools": ("tools.strict", replace(ONE, tools=(STRICT,)), ""),
    "thinking": ("thinking", ONE, "thinking"),
    "a form of thinking": ("thinking.display", ONE, "thinking"),
}


@pytest.mark.req("M6", "M12", "C2")
@pytest.mark.parametrize(("lacked", "request_", "field"), REFUSED.values(), ids=REFUSED)
async def test_what_a_server_refuses_is_not_sent_to_it_again(
    room: Open, lacked: str, request_: ModelRequest, field: str
) -> None:
    """The answer comes all the same, a notice says what it does without, and the next request does so at once."""
    r = room(lambda _: say("Hi."), lacks={lacked})
    events = await stream(r.model, request_)
    assert [notice.kind for notice in of(events, Notice)] == ["feature"]
    assert "going on without" in of(events, Notice)[0].text
    assert len(of(events, AnswerCompleted)) == 1
    assert of(await stream(r.model, request_), Notice) == []
    first, *later = r.api.requests
    assert len(later) == 2
    assert lacked in first.betas or lacked.partition(".")[0] in first.body
    for request in later:
        assert lacked not in request.betas
        assert field not in request.body
    assert r.clock.slept == []


@pytest.mark.req("M6")
async def test_a_server_that_lacks_much_loses_one_feature_after_another(room: Open) -> None:
    """Each is refused once, so that the request goes through in the end."""
    r = room(lambda _: say("Hi."), lacks={COMPACTION, CLEARING, "output_config", "thinking"})
    events = await stream(r.model, LONG)
    assert len(of(events, Notice)) == 3, "that of summaries was found when the server was asked about the model"
    assert len(of(events, AnswerCompleted)) == 1
    assert not r.model.abilities("opus").summarizes
    assert r.model.abilities("claude-sonnet-5").summarizes is False, "the endpoint refuses it, whatever the model"


@pytest.mark.req("M9")
async def test_what_the_operator_adds_is_not_taken_away(room: Open) -> None:
    """A refused field of PLANGATE_EXTRA_BODY is an error of the operator's, and is told."""
    r = room(lambda _: say("Hi."), lacks={"speed"})
    r.model.extra_body = {"speed": "standard"}
    with pytest.raises(Refused, match="speed"):
        await stream(r.model, ONE)
    assert len(r.api.requests) == 1


@pytest.mark.req("C3")
async def test_a_refused_summary_is_not_asked_for_again(room: Open) -> None:
    """Without its own field a request for a summary would be an ordinary one: who asked takes another way."""
    r = room(lambda _: say("Hi."), lacks={"compaction"})
    assert r.model.abilities("opus").summarizes
    with pytest.raises(Refused, match="compaction"):
        await stream(r.model, replace(ONE, summarize="Briefly."))
    assert not r.model.abilities("opus").summarizes


SAID = {
    "context_management: Extra inputs are not permitted": ["clearing of old tool results"],
    '{"detail":[{"type":"extra_forbidden","loc":["body","output_config"],"msg":"Extra inputs"}]}': ["output_config"],
    'json: unknown field "thinking"': ["thinking"],
    "Unrecognized request argument supplied: output_config": ["output_config"],
    'Invalid JSON payload received. Unknown name "output_config": Cannot find field.': ["output_config"],
    "output_config.effort: Extra inputs are not permitted": ["effort"],
    "thinking.adaptive.block_binding: Extra inputs are not permitted": ["control of thinking blocks"],
    "tools.0.custom.strict: Extra inputs are not permitted": ["structured output"],
    "invalid beta flag": ["clearing of old tool results", "control of thinking blocks"],
    f"Unexpected value(s) `{BINDING}` for the `anthropic-beta` header.": ["control of thinking blocks"],
    "messages.1.content.0.thinking: Extra inputs are not permitted": [],
    "output_config.effort: This model does not support effort level 'max'.": [],
    "max_tokens: 128000 > 64000, which is the maximum allowed": [],
    "messages.3.content.1: Invalid `signature` in `thinking` block. Set `thinking.block_binding`, an unknown field": [],
    "prompt is too long: 210000 tokens > 200000 maximum; see context_management": [],
}


@pytest.mark.req("M6", "M9")
@every_row("said", SAID)
def test_what_a_refusal_is_about(said: str) -> None:
    """In the words of the service, of proxies and of other servers; what is none of a feature's stays an error."""
    binding = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    fields = {"thinking": binding, "output_config": {"effort": "low"}, "context_management": {}, "tools": [STRICT]}
    for status in (400, 422):
        found = refused_features(CallFailure(said, retryable=False, status=status), fields, (CLEARING, BINDING))
        assert [feature.name for feature in found] == SAID[said]
    assert refused_features(CallFailure(said, retryable=False, status=401), fields, (CLEARING, BINDING)) == ()


@pytest.mark.req("M6")
async def test_models_with_a_budget_think_between_their_calls(room: Open) -> None:
    """4.5 models do so when a beta asks for it; nothing is named to models that always do."""
    r = room(lambda _: say("Hi."))
    for model in ("claude-haiku-4-5", "claude-sonnet-4-5", "claude-opus-4-5", "claude-opus-4-6", "claude-opus-5-5"):
        await stream(r.model, replace(ONE, model=model))
    assert [set(request.betas) for request in r.api.requests] == [{INTERLEAVED}] * 3 + [set()] * 2


def tampered(history: list[Json]) -> None:
    """Change what the service signed."""
    history[1]["content"][0]["thinking"] = "Something else."


def reworded(history: list[Json]) -> None:
    """Change what came before the first thinking."""
    history[0]["content"][1]["text"] += " "


HOW = {
    "a changed prefix": ("claude-opus-5-5", reworded, [Replay.MATCHING]),
    "a changed thought": ("claude-opus-5-5", tampered, [Replay.MATCHING, Replay.NONE]),
    "without the control": ("claude-opus-4-6", tampered, [Replay.NONE]),
    "with a budget": ("claude-haiku-4-5", tampered, [Replay.NONE]),
}


@pytest.mark.req("L9", "M3")
@pytest.mark.parametrize(("model", "spoil", "replays"), HOW.values(), ids=HOW)
async def test_thinking_that_is_refused_does_not_end_a_session(
    room: Open, model: str, spoil: object, replays: list[Replay]
) -> None:
    """The service drops what no longer matches where the model has that control, else no thinking is sent; the stored
    history keeps all of it, and whoever resumes sends it the same way, without another refusal."""
    steps = [several(think("Hm."), call("LS", path=str(number))) for number in range(3)]
    r = room(sequence(*steps, say("Done."), say("Indeed.")))
    session = r.session(model=model)
    reply = [
        event
        async for event in r.model.stream(
            ModelRequest(model, session.prefix.system, session.prefix.tools, session.history)
        )
    ]
    done = reply[-1]
    assert isinstance(done, AnswerCompleted)
    results = [{"type": "tool_result", "tool_use_id": done.message["content"][1]["id"], "content": "x"}]
    session.commit(done, {"role": "user", "content": results})
    assert callable(spoil)
    spoil(session.history)
    session.encoded[:] = [encode_json(message) for message in session.history]
    events = await drive(session)
    assert ended(events).text == "Done."
    assert len(r.api.refusals) == len(replays)
    assert "thinking` block" in r.api.refusals[0].message
    assert session.view.thinking is replays[-1]
    assert session.history[1]["content"][0]["type"] == "thinking"

    again = r.resumed()
    assert again.view.thinking is replays[-1]
    again.add({"role": "user", "content": [{"type": "text", "text": "Really?"}]})
    assert ended(await drive(again)).text == "Indeed."
    sent = r.api.requests[-1]
    blocks = [block for message in sent.messages for block in message["content"] if block["type"] == "thinking"]
    assert bool(blocks) is (replays[-1] is Replay.MATCHING)
    assert (BINDING in sent.betas) is (replays[-1] is Replay.MATCHING)
