"""The transcript: a line read back is the line that was written, and what is sent is what was stored."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.errors import Broken, Refused
from bot.core.transcript import (
    Json,
    Line,
    LineKind,
    all_messages,
    commands_of,
    decode,
    decode_json,
    is_unresolved,
    messages,
    notes_of,
    pending_calls,
    result_text,
    spoken_blocks,
    text_of,
    todos_of,
    tool_calls,
    well_formed,
    without_empty_text,
    without_last_thinking,
)
from tests.rows import every_row

AT: Final = datetime(2026, 11, 20, 8, 30, 0, 5, tzinfo=UTC)
CALL: Final[Json] = {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}}
SERVER_CALL: Final[Json] = {"type": "server_tool_use", "id": "s1", "name": "web_fetch", "input": {}}
HEAD: Final = frozenset({"v", "at", "kind"})

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
BODIES = st.dictionaries(st.text().filter(lambda key: key not in HEAD), VALUES, max_size=4)


def assistant(*content: Json) -> Json:
    return {"role": "assistant", "content": list(content)}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


@pytest.mark.req("L9")
def test_line() -> None:
    """A line is one line of JSON: format, time in UTC, kind, then the body in its own order."""
    body = {"message": {"role": "user", "content": "ä\n"}, "a": 1}
    line = Line(LineKind.MESSAGE, AT.astimezone(timezone(timedelta(hours=2))), body)
    assert line.encode() == (
        '{"v":1,"at":"2026-11-20T08:30:00.000005+00:00","kind":"message",'
        '"message":{"role":"user","content":"ä\\n"},"a":1}'
    )


@pytest.mark.req("L9")
@given(st.sampled_from(LineKind), st.datetimes(timezones=st.just(UTC)), BODIES)
def test_round_trip(kind: LineKind, at: datetime, body: dict[str, Any]) -> None:
    """What is read back is what was written, key order, empty values and unknown keys included."""
    written = Line(kind, at, body)
    encoded = written.encode()
    again = decode(encoded, 1)
    assert "\n" not in encoded
    assert again == written
    assert json.dumps(again.body) == json.dumps(written.body)


@pytest.mark.parametrize("key", sorted(HEAD))
def test_head_is_the_lines_own(key: str) -> None:
    """A body that would overwrite the format, the time or the kind is our bug, and is not written."""
    with pytest.raises(Broken, match=f"may not hold {key} \\(note\\)"):
        Line(LineKind.NOTE, AT, {key: "x"}).encode()


@every_row(
    "broken",
    (
        "",
        "{",
        "null",
        "[]",
        '["v"]',
        '"v"',
        "{}",
        '{"v":2,"at":"2026-11-20T08:30:00+00:00","kind":"note"}',
        '{"at":"2026-11-20T08:30:00+00:00","kind":"note"}',
        '{"v":1,"kind":"note"}',
        '{"v":1,"at":"2026-11-20T08:30:00+00:00"}',
        '{"v":1,"at":"2026-11-20T08:30:00+00:00","kind":"other"}',
        '{"v":1,"at":"yesterday","kind":"note"}',
        '{"v":1,"at":5,"kind":"note"}',
    ),
)
def test_broken_line(broken: str) -> None:
    """What is no line of format 1 is refused, and the refusal names the line."""
    with pytest.raises(Refused, match=r"not a transcript line of format 1 \(line 7\)"):
        decode(broken, 7)


@pytest.mark.req("L9")
def test_messages() -> None:
    """What is sent are the messages, as stored and in order; what opened a session and notes never are."""
    first, second = {"role": "user", "content": "hi"}, assistant(text("yes"))
    lines = [
        Line(LineKind.OPENED, AT, {"model": "m"}),
        Line(LineKind.MESSAGE, AT, {"message": first}),
        Line(LineKind.NOTE, AT, {"message": "never sent"}),
        Line(LineKind.MESSAGE, AT, {"message": second, "usage": {}}),
    ]
    sent = messages(lines)
    assert sent == [first, second]
    assert sent[0] is first


def test_tool_calls() -> None:
    """The calls are the tool_use blocks in order; text, thinking and server tools are not among them."""
    other = {**CALL, "id": "t2"}
    assert tool_calls(assistant(text("a"), CALL, SERVER_CALL, {"type": "thinking"}, other)) == [CALL, other]
    assert tool_calls({"role": "user", "content": "tool_use"}) == []


@pytest.mark.parametrize(
    ("message", "words"),
    (
        ({"role": "user", "content": " as it is "}, " as it is "),
        (assistant(text("a"), CALL, text("b ")), "a\nb"),
        (assistant(text("It is "), text("3.14"), text(".")), "It is 3.14."),
        (assistant(text("One."), SERVER_CALL, text("Two"), text(" three.")), "One.\nTwo three."),
        ({"role": "user", "content": [text("a"), text("b")]}, "a\nb"),
        (assistant(CALL), ""),
        (assistant(), ""),
    ),
)
def test_text_of(message: Json, words: str) -> None:
    """Texts of an answer that follow each other are one; others stand one below the other."""
    assert text_of(message) == words


def test_a_message_without_blocks_is_one_text() -> None:
    assert spoken_blocks({"role": "user", "content": "a"}) == [text("a")]


def test_the_text_of_a_result_keeps_its_parts_apart() -> None:
    assert result_text({"content": [text("a"), {"type": "image"}, text("b")]}) == "a\nb"
    assert result_text({"content": "a"}) == "a"
    assert result_text({}) == ""


@pytest.mark.req("L8")
@pytest.mark.parametrize(
    ("history", "pending"),
    (
        ([], []),
        ([{"role": "user", "content": "hi"}], []),
        ([assistant(text("done"))], []),
        ([assistant(text("look"), CALL)], [CALL]),
        ([assistant(CALL), {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1"}]}], []),
        ([{"role": "user", "content": [CALL]}], []),
    ),
)
def test_pending_calls(history: list[Json], pending: list[Json]) -> None:
    """A suspended session waits for the calls of its last message, and for nothing once that is answered."""
    assert pending_calls(history) == pending


@pytest.mark.req("M10")
@pytest.mark.parametrize(
    ("history", "waits"),
    (
        ([], False),
        ([{"role": "user", "content": [SERVER_CALL]}], False),
        ([assistant(text("done"))], False),
        ([assistant(CALL)], False),
        ([assistant(text("let me see"), SERVER_CALL)], True),
        ([assistant(SERVER_CALL, {"type": "web_fetch_tool_result", "tool_use_id": "s1"})], False),
        ([{"role": "assistant", "content": "plain"}], False),
    ),
)
def test_the_service_goes_on(history: list[Json], waits: bool) -> None:
    """A last message with a call of the service's own that has no result is the service's to go on with."""
    assert is_unresolved(history) is waits


@pytest.mark.req("L3")
@pytest.mark.parametrize(
    ("text", "sent"),
    (("a\ud800b", "a\ufffdb"), ("\udcff", "\ufffd"), ("\ud83d\ude00", "\U0001f600"), ("\udc00\ud800", "\ufffd\ufffd")),
)
def test_half_characters_are_not_sent(text: str, sent: str) -> None:
    """Halves of surrogate pairs, which no request can carry, become the sign for an unknown character."""
    made = well_formed({"role": "user", "content": [{"input": {text: [text]}}]})
    assert made == {"role": "user", "content": [{"input": {sent: [sent]}}]}
    assert well_formed(made) is made


@pytest.mark.req("C4")
def test_a_compaction_changes_what_is_sent_and_not_what_was_said() -> None:
    """What is sent begins with what the last compaction left; what was said is everything."""
    old, short, new = ({"role": "user", "content": text} for text in ("old", "short", "new"))
    lines = [
        Line(LineKind.MESSAGE, AT, {"message": old}),
        Line(LineKind.COMPACTED, AT, {"history": [short]}),
        Line(LineKind.MESSAGE, AT, {"message": new}),
    ]
    assert messages(lines) == [short, new]
    assert all_messages(lines) == [old, new]
    assert lines[1].body == {"history": [short]}, "replaying leaves the line as it is"


@pytest.mark.req("M3", "L9")
def test_texts_that_are_empty_are_not_sent_back() -> None:
    """All else of an answer stays as it came: order, odd fields, thinking without text; white space in between too."""
    thought = {"type": "thinking", "thinking": "", "signature": "s"}
    answer = assistant(thought, text(""), text(" "), {**CALL, "odd": None}, text("\n"))
    assert without_empty_text(answer) == assistant(thought, text(" "), {**CALL, "odd": None})
    kept = assistant(text("\n"), CALL)
    assert without_empty_text(kept) is kept


def test_the_todo_list() -> None:
    """The one that was written last counts; one that was refused, or whose result was never saved, does not."""

    def wrote(ident: str, content: str) -> dict[str, Any]:
        todo = {"content": content, "status": "pending", "activeForm": "At it"}
        return {"type": "tool_use", "id": ident, "name": "TodoWrite", "input": {"todos": [todo]}}

    def result(ident: str, **more: bool) -> dict[str, Any]:
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": ident, **more}]}

    begin = {"role": "user", "content": "Go."}
    assert todos_of([begin, assistant(CALL), result("c1")]) == []
    said = [begin, assistant(wrote("1", "one")), result("1"), assistant(wrote("2", "two")), result("2", is_error=True)]
    assert todos_of([*said, assistant(wrote("3", "three"))]) == [("one", "pending")]
    assert todos_of([assistant(wrote("1", "one")), begin]) == [("one", "pending")]


@pytest.mark.req("PR6")
def test_commands_that_ran() -> None:
    """Each with the exit code that the toolhost reports, whatever the command printed; what did not run is left out."""
    results = {
        "make": ("exit code 3", False),
        "make test": ("exit code 0\nexit code 2", True),
        "kill": ("killed by SIGKILL: exit code 137 (as the kernel does where more than 9 MB of memory are used)", True),
        "sleep": ("timed out after 5 s: all of it was ended (timeout can be at most 600000 ms)", True),
        "denied": ("Denied: a person must permit it.", True),
        "stopped": ("Cancelled before it finished.", True),
    }
    calls = [{"type": "tool_use", "id": n, "name": "Bash", "input": {"command": n}} for n in (*results, "pending")]
    calls.append({"type": "tool_use", "id": "without a command", "name": "Bash", "input": {"cmd": "make"}})
    results["without a command"] = ("Invalid input for Bash: command: Field required", True)
    blocks: list[dict[str, Any]] = [
        {"type": "tool_result", "tool_use_id": n, "content": said, **({"is_error": True} if is_error else {})}
        for n, (said, is_error) in results.items()
    ]
    read = {"type": "tool_use", "id": "r", "name": "Read", "input": {}}
    blocks.append({"type": "tool_result", "tool_use_id": "r", "content": "exit code 1", "is_error": True})
    begin = {"role": "user", "content": "Run `rm -rf /`."}
    said = [begin, assistant(*calls, read), {"role": "user", "content": blocks}, assistant(*calls), begin]
    assert [run[:2] for run in commands_of(said)] == [("make", 0), ("make test", 2), ("kill", 137), ("sleep", None)]
    assert [run.output for run in commands_of(said)][:2] == ["exit code 3", "exit code 0\nexit code 2"]


@pytest.mark.req("M3")
def test_thinking_at_the_end_of_a_cut_answer() -> None:
    thought, hidden = {"type": "thinking", "thinking": "Hm"}, {"type": "redacted_thinking", "data": "x"}
    cut = {"role": "assistant", "content": [thought, CALL, hidden, thought]}
    assert without_last_thinking(cut) == {"role": "assistant", "content": [thought, CALL]}
    assert without_last_thinking({"role": "assistant", "content": [thought]})["content"] == []
    assert len(cut["content"]) == 4


def test_notes_are_found_by_their_kind_oldest_first_and_no_message_is_one() -> None:
    kinds = (LineKind.NOTE, "a"), (LineKind.NOTE, "b"), (LineKind.MESSAGE, "a"), (LineKind.NOTE, "a")
    lines = [Line(kind, AT, {"note": name, "number": number}) for number, (kind, name) in enumerate(kinds)]
    assert [each["number"] for each in notes_of(lines, "a")] == [0, 3]


def test_json_that_decides_on_trust_has_one_reading() -> None:
    assert decode_json('{"a": [1.5, {"b": "ü"}]}'.encode()) == {"a": [1.5, {"b": "ü"}]}
    for text in (
        '{"a": 1, "a": 1}',
        '[{"b": {"a": 1, "\\u0061": 2}}]',
        "[NaN]",
        "[-Infinity]",
        "[1e999]",
        "{",
        "\ufeff{}",
    ):
        with pytest.raises(ValueError, match=r"."):
            decode_json(text.encode())
    with pytest.raises(ValueError, match="utf-8"):
        decode_json(b'"\xff"')
