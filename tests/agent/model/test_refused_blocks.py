"""A refusal that lasts and is about one block of the history: the block is left out, and the request goes on (M9)."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from bot.agent.assembly import begin_session
from bot.agent.history.cutting import NO_PICTURE, images, picture_digest
from bot.agent.model.failures import status_failure, view_without_refused
from bot.agent.session_events import End
from bot.core.errors import Refused
from bot.core.exchange import HistoryView
from bot.core.transcript import Json
from bot.core.turn import Picture
from bot.core.work import ToolOutput
from bot.ports import ModelRequest, Notice, Replay
from bot.testing.model.reply import Fault, Policy, Reply, call, say, sequence
from bot.testing.model.request_view import ModelRequest as Seen
from tests.agent.conftest import Open
from tests.agent.ground import ENVIRONMENT, assert_prefixes, drive, ended, of, stream
from tests.rows import every_row
from tests.toolhost.pictures import png

pytestmark = pytest.mark.req("M9", "M3")


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


@pytest.mark.parametrize(("status", "kind"), ((401, ""), (500, ""), (529, ""), (200, "overloaded_error")))
def test_only_a_lasting_refusal_leaves_something_out(status: int, kind: str) -> None:
    failure = status_failure(status, kind, "messages.1.content.0: Invalid `signature` in `thinking` block", {})
    assert view_without_refused(failure, HistoryView(), HISTORY, drops=True) is None


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


async def test_redacted_thinking_that_is_refused_is_left_out(room: Open) -> None:
    redacted: Json = {"type": "redacted_thinking", "data": "x"}
    r = room(refusing("messages.1.content.0: Invalid `data` in `redacted_thinking` block", has_thinking, say("Yes.")))
    history = [*HISTORY[:1], {"role": "assistant", "content": [redacted, {"type": "text", "text": "-"}]}, *HISTORY[:1]]
    events = await stream(r.model, ModelRequest("claude-opus-5-5", (), (), history))
    assert [notice.kind for notice in of(events, Notice)] == ["thinking", "thinking"]
    assert history[1]["content"][0] == redacted


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


async def test_a_picture_that_a_tool_returned_becomes_a_note(room: Open) -> None:
    """Pictures that the service accepted before stay."""
    r = room(sequence(call("Read", file_path="a.png"), say("Done.")))
    session = r.session(None)
    begin_session(session, ENVIRONMENT, "Look at a.png.", [Picture("by @will", image=GOOD)])
    r.host.answer = lambda _operation, _arguments: ToolOutput("a picture", blocks=(BAD,))
    assert ended(await drive(session)).text == "Done."
    assert len(r.api.refusals) == 1
    assert list(images(r.api.requests[-1].messages)) == [GOOD]


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


@every_row("said", LACKING)
async def test_an_ability_that_a_model_lacks_is_not_asked_of_it_again(room: Open, said: str) -> None:
    """Other models of the same server keep it."""
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


@pytest.mark.parametrize("said", ("claude-x does not support images", "This model is not available.", "odd"))
async def test_a_refusal_that_names_no_ability_in_use_is_final(room: Open, said: str) -> None:
    r = room(lambda _: Fault("status", 400, message=said))
    with pytest.raises(Refused, match=said):
        await stream(r.model, ModelRequest("claude-opus-5-5", (), (), [{"role": "user", "content": "Hi."}]))
    assert len(r.api.requests) == 1
