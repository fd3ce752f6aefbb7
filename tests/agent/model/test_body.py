"""The bytes of a request: those that the library would send, and none rendered twice (M3, L9)."""

import json
from contextlib import suppress
from typing import Any

import pytest
from anthropic import APIError, AsyncAnthropic, DefaultAsyncHttpxClient
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.model.answer import MalformedAnswer, StreamedAnswer, parse_object
from bot.agent.model.request import body, parameters
from bot.agent.model.specs import resolve
from bot.agent.prompts import first_message, system_blocks
from bot.agent.tools.registry import ALL, by_name, schemas
from bot.core.transcript import Json, encode_json, sendable
from bot.ports import ModelRequest
from bot.testing.model.reply import say
from bot.testing.model.request_view import ModelRequest as Seen
from tests.agent.conftest import Open
from tests.agent.ground import ENVIRONMENT, stream

FIRST = first_message(ENVIRONMENT, "Do it.")
TOOLS = schemas(by_name(ALL))
ODD = {"z": 1.5e-7, "a": [None, True, 2**70, -0.0, '\u2028 \x00 \\ " é 😀'], "": {}}


def turn(number: int, **given: Any) -> list[Json]:
    """A call and its result."""
    used = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": given}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": f"lines of {number}\n\t…"}
    thought = {"type": "thinking", "thinking": "", "signature": "c2ln"}
    return [{"role": "assistant", "content": [thought, used]}, {"role": "user", "content": [result]}]


HISTORIES: dict[str, list[Json]] = {
    "one message": [FIRST],
    "a plain text": [{"role": "user", "content": "Do it: größer, 😀"}],
    "odd values in odd order": [FIRST, *turn(1, **ODD)],
    "more turns than marks": [FIRST, *(message for n in range(9) for message in turn(n, file_path=f"{n}.py"))],
    "a summary first": [{"role": "assistant", "content": [{"type": "compaction", "content": "s"}]}, FIRST],
}


def requests(history: list[Json], known: int) -> ModelRequest:
    """A request of which so many messages have their bytes already."""
    stored = [encode_json(message) for message in history[:known]]
    return ModelRequest("claude-opus-5-5", system_blocks("main"), TOOLS, history, user_id="0badcafe", stored=stored)


@pytest.mark.req("M3", "M6")
@pytest.mark.parametrize("name", HISTORIES)
async def test_the_library_would_send_the_same(room: Open, name: str) -> None:
    """Field by field and byte by byte, and with the same headers, whether the messages have their bytes or not."""
    r, ours = room(lambda _: say("ok")), list[Seen]()
    for known in (0, 1, 99):
        before = len(r.api.requests)
        with suppress(Exception):  # whatever the service says to it
            await stream(r.model, requests(HISTORIES[name], known))
        ours.append(r.api.requests[before])
    request = requests(HISTORIES[name], 0)
    plain = DefaultAsyncHttpxClient(verify=False)  # certificates would take 20 ms, for a server without any
    async with AsyncAnthropic(api_key="key", base_url=r.api.base_url, max_retries=0, http_client=plain) as library:
        with suppress(APIError):
            await library.messages.create(**parameters(request, resolve(request.model)), stream=True)
    for mine in ours:
        assert_same(mine, r.api.requests[-1])


def assert_same(mine: Seen, theirs: Seen) -> None:
    """The same fields, bytes and headers."""
    assert {name: encode_json(value) for name, value in mine.body.items()} == {
        name: encode_json(value) for name, value in theirs.body.items()
    }
    for field, value in theirs.body.items():
        piece = b'"%s":%s' % (field.encode(), encode_json(value))
        assert piece in mine.raw
        assert piece in theirs.raw
    own = {"content-length", "x-stainless-read-timeout", "x-stainless-timeout"}
    assert {key: text for key, text in mine.headers.items() if key not in own} == {
        key: text for key, text in theirs.headers.items() if key not in own
    }


@pytest.mark.req("M3", "L9")
def test_what_has_its_bytes_is_not_rendered_again() -> None:
    """Bytes that were stored are sent as they are, however they were written; only marked messages are written anew."""
    history = HISTORIES["more turns than marks"]
    stored = [json.dumps(message, indent=1).encode() for message in history]
    request = ModelRequest("opus", (), (), history, stored=stored)
    sent = body(parameters(request, resolve("opus")), request)
    assert [text in sent for text in stored] == [False] + [True] * 15 + [False, True, False]
    assert json.loads(sent)["messages"][1:16] == history[1:16]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
_messages = st.lists(st.dictionaries(st.text(min_size=1), _json, min_size=1, max_size=3), max_size=4)


@pytest.mark.req("M3")
@settings(max_examples=40)
@given(_messages, st.integers(0, 6))
def test_any_messages_are_joined_to_valid_json(messages: list[Json], known: int) -> None:
    """What comes out is read back as the fields that went in, key order included."""
    made = [sendable(message) for message in messages]
    given_ = [message for message, _ in made]
    request = ModelRequest("opus", (), (), given_, stored=[text for _, text in made[:known]])
    fields = {"model": "opus", "messages": given_, "stream": True}
    sent = json.loads(body(fields, request))
    assert sent == fields
    assert json.dumps(sent["messages"]) == json.dumps(given_)


@pytest.mark.req("M7", "L3")
@pytest.mark.parametrize("text", ('{"a": NaN}', '{"a": [1e999]}', '{"a": -Infinity}', "[1]", '{"a": '))
def test_a_call_that_is_no_json_is_malformed(text: str) -> None:
    """Numbers that only Python reads could never be sent back: such an answer is asked for again."""
    answer = StreamedAnswer()
    answer.feed({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "input": {}}})
    delta = {"type": "input_json_delta", "partial_json": text}
    answer.feed({"type": "content_block_delta", "index": 0, "delta": delta})
    answer.feed({"type": "content_block_stop", "index": 0})
    answer.feed({"type": "message_delta", "delta": {"stop_reason": "tool_use"}})
    answer.feed({"type": "message_stop"})
    with pytest.raises(MalformedAnswer, match="is not"):
        answer.message()
    with pytest.raises(MalformedAnswer, match="is not"):  # without streaming, as a whole
        parse_object(text)
