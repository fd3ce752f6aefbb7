"""Where histories are cut, and what of a turn may be sent anew (C1, C3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.history import cutting
from bot.core.transcript import Json
from tests.agent.ground import valid


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


def answer(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def used(ident: str) -> Json:
    return {"type": "tool_use", "id": ident, "name": "LS", "input": {}}


def result(ident: str, words: str) -> Json:
    return {"type": "tool_result", "tool_use_id": ident, "content": words}


@st.composite
def histories(draw: st.DrawFn) -> list[Json]:
    """Valid histories: calls with their results, answers with more words, words of people."""
    history = [user(text("task"))]
    for turn in range(draw(st.integers(0, 8))):
        thought = [{"type": "thinking", "thinking": "", "signature": "s"}] * draw(st.integers(0, 1))
        calls = [f"{turn}-{index}" for index in range(draw(st.integers(0, 3)))]
        history.append(answer(*thought, text("so"), *map(used, calls)))
        said = [text("more")] * (not calls or draw(st.booleans()))
        history.append(user(*(result(ident, "x" * draw(st.integers(0, 300))) for ident in calls), *said))
        if draw(st.booleans()):
            history.append(user(text("given again")))
    return history


@pytest.mark.req("C1", "C3")
@given(histories(), st.integers(0, 500))
def test_no_call_is_parted_from_its_result(history: list[Json], room: int) -> None:
    """Both sides of a cut are valid, the first ends with a user's turn, the last turn stays, and what stays fits."""
    start = cutting.cut_point(history, room)
    if start is None:
        assert all(message["role"] == "user" for message in history)
        return
    head, kept = history[:start], history[start:]
    assert valid(head)
    assert valid(kept)
    assert (head[-1]["role"], kept[0]["role"]) == ("user", "assistant")
    several = sum(message["role"] == "assistant" for message in kept) > 1
    assert not several or cutting.tokens(kept) <= room


@pytest.mark.req("C2", "C3")
@given(histories(), st.integers(0, 200))
def test_what_stays_can_be_sent_in_a_fresh_history(history: list[Json], room: int) -> None:
    """Without thinking and with results that were cut, every call has its result still."""
    start = cutting.cut_point(history, 10_000)
    kept = cutting.turns_without_thinking(cutting.cut_to_fit(history[start:], room)) if start else []
    assert valid(kept)
    assert all(block["type"] != "thinking" for message in kept for block in message["content"])
    assert all(message["content"] for message in kept)


@pytest.mark.req("C3")
def test_a_message_of_thinking_alone_ends_what_can_stay() -> None:
    """Without its thinking it would be empty, which the service refuses."""
    assert cutting.turns_without_thinking([answer({"type": "redacted_thinking", "data": "x"}), user(text("on"))]) == []


@pytest.mark.req("C2")
def test_an_image_counts_what_it_costs_and_gives_way() -> None:
    """Not by its bytes; in a result that is too long only text stays, with a note."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 10**6}}
    assert 4_784 <= cutting.tokens(image) < 5_000
    seen = {"type": "tool_result", "tool_use_id": "a", "content": [text("é" * 500), image]}
    (cut,) = cutting.cut_to_fit([user(seen)], 100)
    assert cut["content"][0]["content"] == "é" * 150 + cutting.CUT


@pytest.mark.req("C1")
def test_what_is_new_is_what_came_after_the_last_answer() -> None:
    """The usage of that answer counts all before."""
    history = [user(text("a")), answer(text("b")), user(text("c")), user(text("d"))]
    assert list(cutting.messages_since_answer(history)) == history[2:]
    assert list(cutting.messages_since_answer(history[:1])) == history[:1]
