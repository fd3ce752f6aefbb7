"""What a refusal means, and doing without the feature or the block that it is about (M6, M9, L9)."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from bot.agent.assembly import begin_session
from bot.agent.history.cutting import NO_PICTURE, images, picture_digest
from bot.agent.model.failures import CallFailure, refused_features, status_failure, view_without_refused
from bot.agent.model.request import BINDING, CLEARING, COMPACTION, INTERLEAVED
from bot.agent.session_events import End
from bot.core.errors import Refused
from bot.core.exchange import HistoryView
from bot.core.transcript import Json, encode_json
from bot.core.turn import Picture
from bot.core.work import ToolOutput
from bot.ports import AnswerCompleted, ModelRequest, Notice, Replay
from bot.testing.model.reply import Fault, Policy, Reply, call, say, sequence, several, think
from bot.testing.model.request_view import ModelRequest as Seen
from tests.agent.conftest import Open
from tests.agent.ground import ENVIRONMENT, ONE, assert_prefixes, drive, ended, of, stream
from tests.rows import every_row
from tests.toolhost.pictures import png

OVERFULL = (
    "prompt is too long: 210000 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000, decrease input length",
    "This model's maximum context length is 131072 tokens. However, you requested 140000 tokens.",
    "Your input exceeds the context window of this model.",
    "the request exceeds the available context size, try increasing it",
    "The input (140000 tokens) is longer than the model's context length (131072 tokens).",
    "The input token count (140000) exceeds the maximum number of tokens allowed (131072).",
    "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
    "Invalid request: Your request exceeded model token limit: 131072",
    "invalid params, context window exceeds limit (2013)",
    "Bad request. (context_length_exceeded)",
)
OTHERWISE_WRONG = (
    "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens for their-model",
    "The long context beta is not yet available for this subscription.",
    "context_management: Extra inputs are not permitted",
    "messages.0.content.1.image: image exceeds 5 MB maximum",
    "metadata.user_id: the value exceeds the maximum length of 256",
    "A maximum of 4 blocks with cache_control may be provided. Found 5.",
)


@pytest.mark.req("M9")
@pytest.mark.parametrize(
    ("headers", "seconds"),
    (
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "Sat, 21 Nov"}, None),
        ({}, None),
    ),
)
def test_retry_after_is_read_in_milliseconds_before_seconds(headers: dict[str, str], seconds: float | None) -> None:
    assert status_failure(429, "rate_limit_error", "slow down", headers).retry_after == seconds


@pytest.mark.req("M9")
def test_a_spend_limit_of_the_account_is_final() -> None:
    assert not status_failure(429, "rate_limit_error", "Your spend limit is reached", {}).retryable
    assert status_failure(429, "rate_limit_error", "Your spend limit is reached", {"retry-after": "1"}).retryable
    assert not status_failure(200, "invalid_request_error", "?", {}).retryable


RAMP = "Usage grows too fast (ramp_limit_exceeded)"


@pytest.mark.req("M9")
@every_row(
    ("status", "text", "headers", "retryable", "fix"),
    (
        (529, "overloaded", {"x-should-retry": "false"}, False, "says not to retry"),
        (500, "odd", {"x-should-retry": "false"}, False, "says not to retry"),
        (401, "no key", {"x-should-retry": "false"}, False, "check ANTHROPIC_API_KEY"),
        (400, "odd", {"x-should-retry": "true"}, True, ""),
        (429, "slow down", {"x-should-retry": "true"}, True, ""),
        (429, RAMP, {}, False, "ramp limit"),
        (429, "w" * 1000 + RAMP, {}, False, "ramp limit"),
        (429, RAMP, {"retry-after": "3600"}, False, "ramp limit"),
        (429, RAMP, {"x-should-retry": "true"}, False, "ramp limit"),
        (429, RAMP, {"retry-after": "7"}, True, "ramp limit"),
    ),
)
def test_the_server_knows_best_whether_to_try_again(
    status: int, text: str, headers: dict[str, str], retryable: bool, fix: str
) -> None:
    """x-should-retry outranks the status; a ramp limit is waited for only as long as the server names, in a minute."""
    found = status_failure(status, "", text, headers)
    assert found.retryable is retryable
    assert fix in found.fix


@pytest.mark.req("M10", "M12")
def test_a_context_that_is_too_full_is_told_from_other_mistakes() -> None:
    """In the words of the service and of other servers that speak its API: the history is shortened then; nothing
    else that a request may be refused for is taken for it."""
    said = {
        text: status_failure(400, "invalid_request_error", text, {}).too_long for text in OVERFULL + OTHERWISE_WRONG
    }
    assert said == dict.fromkeys(OVERFULL, True) | dict.fromkeys(OTHERWISE_WRONG, False)
    assert not status_failure(401, "authentication_error", OVERFULL[0], {}).too_long


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
async def test_a_refused_feature_is_not_sent_again(room: Open, lacked: str, request_: ModelRequest, field: str) -> None:
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
    r = room(lambda _: say("Hi."), lacks={COMPACTION, CLEARING, "output_config", "thinking"})
    events = await stream(r.model, LONG)
    assert len(of(events, Notice)) == 3, "that of summaries was found when the server was asked about the model"
    assert len(of(events, AnswerCompleted)) == 1
    assert not r.model.abilities("opus").summarizes
    assert r.model.abilities("claude-sonnet-5").summarizes is False, "the endpoint refuses it, whatever the model"


@pytest.mark.req("M9")
async def test_a_refused_field_of_the_operator_is_an_error(room: Open) -> None:
    r = room(lambda _: say("Hi."), lacks={"speed"})
    r.model.extra_body = {"speed": "standard"}
    with pytest.raises(Refused, match="speed"):
        await stream(r.model, ONE)
    assert len(r.api.requests) == 1


@pytest.mark.req("C3")
async def test_a_refused_summary_is_not_asked_for_as_an_ordinary_answer(room: Open) -> None:
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
def test_a_refusal_names_its_feature_in_the_words_of_each_server(said: str) -> None:
    binding = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    fields = {"thinking": binding, "output_config": {"effort": "low"}, "context_management": {}, "tools": [STRICT]}
    for status in (400, 422):
        found = refused_features(CallFailure(said, retryable=False, status=status), fields, (CLEARING, BINDING))
        assert [feature.name for feature in found] == SAID[said]
    assert refused_features(CallFailure(said, retryable=False, status=401), fields, (CLEARING, BINDING)) == ()


@pytest.mark.req("M6")
async def test_models_with_a_budget_think_between_their_calls(room: Open) -> None:
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


def image(content: bytes) -> Json:
    data = base64.b64encode(content).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


GOOD, BAD = image(png()), image(png()[:-12])
THOUGHT: Json = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
HISTORY: list[Json] = [
    {"role": "user", "content": [{"type": "text", "text": "Look."}, GOOD, image(png(3))]},
    {"role": "assistant", "content": [THOUGHT, {"type": "tool_use", "id": "a", "name": "Read", "input": {}}]},
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "a", "content": [GOOD, BAD]}, {"type": "text", "text": "-"}],
    },
]
MODIFIED = "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."
REFUSALS: dict[str, tuple[Replay, set[str]] | None] = {
    f"messages.1.content.0: {MODIFIED} These blocks must remain as they were.": (Replay.NONE, set()),
    "messages.1.content.0: Invalid `data` in `redacted_thinking` block": (Replay.NONE, set()),
    "messages.1.content.0: Invalid `signature` in `thinking` block": (Replay.NONE, set()),
    "messages.1.content.1.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`": (Replay.NONE, set()),
    "Invalid `signature` in `thinking` block": (Replay.NONE, set()),
    "messages.1.content.0: this cannot be sent back": (Replay.NONE, set()),
    "messages.2.content.0.tool_result.content.1.image.source.base64: Could not process image": (Replay.WHOLE, {"bad"}),
    "messages.2.content.0: Could not process image": (Replay.WHOLE, {"good", "bad"}),
    "Could not process image": (Replay.WHOLE, {"good", "bad"}),
    "messages.0.content.1: refused": (Replay.WHOLE, {"good"}),
    "messages.0.content.2.image.source.base64.data: larger than 8000 pixels": (Replay.WHOLE, {"other"}),
    "messages.0.content.0.text: text content blocks must be non-empty": None,
    "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: a.": None,
    "messages.7.content.9: refused": None,
    "max_tokens: 128000 > 64000": None,
    "thinking.block_binding: Extra inputs are not permitted": None,
}


@pytest.mark.req("M9", "M3")
@every_row("said", REFUSALS)
def test_a_refusal_leaves_out_what_it_points_at(said: str) -> None:
    names = {"good": GOOD, "bad": BAD, "other": image(png(3))}
    for kind, status in (("invalid_request_error", 400), ("", 422), ("invalid_request_error", 200)):
        view = view_without_refused(status_failure(status, kind, said, {}), HistoryView(), HISTORY, drops=False)
        expected = REFUSALS[said]
        if expected is None:
            assert view is None
            continue
        assert view is not None
        assert view.thinking is expected[0]
        left_out = {name for name, block in names.items() if picture_digest(block) in view.left_out}
        assert left_out == expected[1]


@pytest.mark.req("M9", "M3")
@pytest.mark.parametrize(("status", "kind"), ((401, ""), (500, ""), (529, ""), (200, "overloaded_error")))
def test_only_a_lasting_refusal_leaves_something_out(status: int, kind: str) -> None:
    failure = status_failure(status, kind, "messages.1.content.0: Invalid `signature` in `thinking` block", {})
    assert view_without_refused(failure, HistoryView(), HISTORY, drops=True) is None


@pytest.mark.req("M9", "M3")
def test_nothing_is_left_out_twice() -> None:
    """So that a server that refuses whatever it is sent ends the session, and not before."""
    view, history, tries = HistoryView(), [{"role": "user", "content": [GOOD, BAD]}], 0
    failure = status_failure(400, "", "Could not process image", {})
    while (found := view_without_refused(failure, view, history, drops=True)) is not None:
        view, tries = found, tries + 1
        history = [{"role": "user", "content": [{"type": "text", "text": NO_PICTURE}]}]
    assert tries == 1
    failure = status_failure(400, "", "messages.0.content.0: Invalid `data` in `redacted_thinking` block", {})
    while (found := view_without_refused(failure, view, HISTORY, drops=True)) is not None:
        view, tries = found, tries + 1
    assert (tries, view.thinking) == (3, Replay.NONE)


def refusing(said: str, holds: Any, *replies: Reply) -> Policy:
    """A policy that refuses every request that holds something."""
    rest = sequence(*replies)
    return lambda seen: Fault("status", 400, message=said) if holds(seen) else rest(seen)


def has_thinking(seen: Seen) -> bool:
    return any(block["type"] == "redacted_thinking" for message in seen.messages for block in message["content"])


@pytest.mark.req("M9", "M3")
async def test_redacted_thinking_that_is_refused_is_left_out(room: Open) -> None:
    redacted: Json = {"type": "redacted_thinking", "data": "x"}
    r = room(refusing("messages.1.content.0: Invalid `data` in `redacted_thinking` block", has_thinking, say("Yes.")))
    history = [*HISTORY[:1], {"role": "assistant", "content": [redacted, {"type": "text", "text": "-"}]}, *HISTORY[:1]]
    events = await stream(r.model, ModelRequest("claude-opus-5-5", (), (), history))
    assert [notice.kind for notice in of(events, Notice)] == ["thinking", "thinking"]
    assert history[1]["content"][0] == redacted


@pytest.mark.req("M9", "M3")
async def test_a_picture_that_cannot_be_processed_becomes_a_note(room: Open) -> None:
    """The service refuses it once: the session, and whoever resumes it, send the same bytes from then on, and the
    stored history keeps the picture."""
    r = room(sequence(call("Read", file_path="a.py"), say("Done."), say("Indeed.")))
    session = r.session(None)
    shown = [Picture("by @will", image=GOOD), Picture("by @will", image=BAD)]
    begin_session(session, ENVIRONMENT, "Fix what the pictures show.", shown)
    assert ended(await drive(session)).text == "Done."
    (refusal,) = r.api.refusals
    assert refusal.message == "Could not process image"

    again = r.resumed()
    assert list(images(again.history)) == [GOOD, BAD]
    again.add({"role": "user", "content": [{"type": "text", "text": "Really?"}]})
    assert ended(await drive(again)).text == "Indeed."
    assert len(r.api.refusals) == 1
    assert_prefixes(r.api.requests[1:])
    assert NO_PICTURE.encode() in r.api.requests[-1].raw


@pytest.mark.req("M9", "M3")
async def test_a_picture_that_a_tool_returned_becomes_a_note(room: Open) -> None:
    r = room(sequence(call("Read", file_path="a.png"), say("Done.")))
    session = r.session(None)
    begin_session(session, ENVIRONMENT, "Look at a.png.", [Picture("by @will", image=GOOD)])
    r.host.answer = lambda _operation, _arguments: ToolOutput("a picture", blocks=(BAD,))
    assert ended(await drive(session)).text == "Done."
    assert len(r.api.refusals) == 1
    assert list(images(r.api.requests[-1].messages)) == [GOOD]


@pytest.mark.req("M9", "M3")
async def test_a_session_ends_if_leaving_out_does_not_help(room: Open) -> None:
    r = room(lambda _: Fault("status", 400, message="Could not process image"))
    session = r.session(None)
    begin_session(session, ENVIRONMENT, "Look.", [Picture("by @will", image=GOOD)])
    assert ended(await drive(session)).end is End.FAILED
    assert len(r.api.requests) == 2


EFFORT = "This model does not support effort level 'xhigh'. Supported levels: high."
LACKING = {
    EFFORT: "output_config",
    f"output_config.effort: {EFFORT}": "output_config",
    "This model does not support the effort parameter.": "output_config",
    "adaptive thinking is not supported on this model": "thinking",
    "thinking is currently not available for this model": "thinking",
}


@pytest.mark.req("M9", "M3")
@every_row("said", LACKING)
async def test_an_ability_that_a_model_lacks_is_not_asked_of_it_again(room: Open, said: str) -> None:
    opus = ModelRequest("claude-opus-5-5", (), (), HISTORY[:1])
    r = room(
        lambda seen: (
            Fault("status", 400, message=said)
            if seen.model == opus.model and LACKING[said] in seen.body
            else say("Yes.")
        )
    )
    assert [notice.kind for notice in of(await stream(r.model, opus), Notice)] == ["feature"]
    assert of(await stream(r.model, opus), Notice) == []
    await stream(r.model, replace(opus, model="claude-sonnet-5-5"))
    assert LACKING[said] in r.api.requests[-1].body


@pytest.mark.req("M9", "M3")
@pytest.mark.parametrize("said", ("claude-x does not support images", "This model is not available.", "odd"))
async def test_a_refusal_that_names_no_ability_in_use_is_final(room: Open, said: str) -> None:
    r = room(lambda _: Fault("status", 400, message=said))
    with pytest.raises(Refused, match=said):
        await stream(r.model, ModelRequest("claude-opus-5-5", (), (), [{"role": "user", "content": "Hi."}]))
    assert len(r.api.requests) == 1
