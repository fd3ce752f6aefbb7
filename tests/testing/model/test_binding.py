"""Preserved thinking: which replayed blocks are taken, which are refused, and with which words."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from anthropic import BadRequestError
from anthropic.types.compaction_block_misplaced_error import CompactionBlockMisplacedError
from anthropic.types.compaction_incomplete_turn_error import CompactionIncompleteTurnError
from anthropic.types.compaction_nothing_to_summarize_error import CompactionNothingToSummarizeError
from anthropic.types.compaction_signature_invalid_error import CompactionSignatureInvalidError

from bot.testing.model.reply import call, say, several, think, verbatim
from bot.testing.model.request_view import ModelRequest

OPUS = "claude-opus-5-5"
BINDING = "thinking-binding-controls-2026-08-01"
READ = {"name": "Read", "input_schema": {"type": "object"}}
MARK = {"cache_control": {"type": "ephemeral"}}
BOUND = (
    "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block". That setting requires the '
    "`thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header. "
)
SYSTEM = "The `system` prompt differs from the one this block was created with."
TOOLS = "The `tools` differ from the ones this block was created with."
MESSAGES = "The messages before it differ from the ones this block was created with."
MISSING = "The `thinking` block that preceded this one when it was created is missing from this request."

Body = dict[str, Any]


def policy(request: ModelRequest) -> Any:
    if request.step < 3:
        return several(think(f"thought {request.step}"), call("Read", n=request.step))
    return say("done")


def conversation(api: Any, model: str = OPUS) -> Body:
    """A request with three turns of thinking and calls in it, as a loop would send it next."""
    body: Body = {
        "model": model, "max_tokens": 999, "system": "s", "tools": [READ],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Go"}]}],
    }  # fmt: skip
    for _ in range(3):
        content = api.send(body)["content"]
        result = {"type": "tool_result", "tool_use_id": content[-1]["id"], "content": "x"}
        body["messages"] += [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
    return deepcopy(body)


def refusal(api: Any, body: Body, *betas: str) -> str:
    with pytest.raises(BadRequestError) as error:
        api.send(body, *betas)
    return error.value.api_message or ""


@pytest.fixture
def api(serve: Callable[..., Any]) -> Any:
    return serve(policy)


def strip(body: Body, *turns: int) -> None:
    for turn in turns:
        content = body["messages"][1 + 2 * turn]["content"]
        body["messages"][1 + 2 * turn]["content"] = [block for block in content if block["type"] != "thinking"]


@pytest.mark.req("L9")
def test_an_unchanged_history_is_taken(api: Any) -> None:
    body = conversation(api)
    assert [block["type"] for block in body["messages"][1]["content"]] == ["thinking", "tool_use"]
    assert api.send(body)["content"][0]["text"] == "done"


@pytest.mark.req("L9")
def test_markers_effort_and_max_tokens_bind_nothing(api: Any) -> None:
    body = conversation(api)
    body["messages"][0]["content"][0] |= MARK
    body["tools"] = [{**READ, **MARK}]
    body |= {"max_tokens": 5, "output_config": {"effort": "low"}}
    assert api.send(body)["stop_reason"] == "end_turn"


@pytest.mark.req("L9")
def test_a_changed_history_is_refused_at_its_first_block(api: Any) -> None:
    good = conversation(api)
    body = deepcopy(good) | {"system": "t"}
    assert refusal(api, body) == f"messages.1.content.0: {BOUND}{SYSTEM}"
    body = deepcopy(good) | {"tools": [{**READ, "description": "d"}]}
    assert refusal(api, body) == f"messages.1.content.0: {BOUND}{TOOLS}"
    body = deepcopy(good)
    body["messages"][0]["content"][0]["text"] = "Go!"
    assert refusal(api, body) == f"messages.1.content.0: {BOUND}{MESSAGES}"
    body = deepcopy(good)
    body["messages"][2]["content"][0]["content"] = "[cleared]"
    assert refusal(api, body) == f"messages.3.content.0: {BOUND}{MESSAGES}"
    body = deepcopy(good)
    body["messages"][4]["content"].append({"type": "text", "text": "a reminder, too late"})
    assert refusal(api, body) == f"messages.5.content.0: {BOUND}{MESSAGES}"


@pytest.mark.req("L9")
def test_thinking_may_be_left_out_from_the_ends(api: Any) -> None:
    good = conversation(api)
    for gone in ((0,), (0, 1), (2,), (1, 2), (0, 1, 2)):
        body = deepcopy(good)
        strip(body, *gone)
        assert api.send(body)["stop_reason"] == "end_turn", gone
    strip(good, 1)
    assert refusal(api, good) == f"messages.5.content.0: {BOUND}{MISSING}"


def test_thoughts_of_one_answer_are_whole(serve: Callable[..., Any]) -> None:
    api = serve(lambda request: several(think("one"), think("two"), say("and"), think("three"), say("done")))
    go = {"role": "user", "content": "Go"}
    body: Body = {"model": OPUS, "max_tokens": 99, "messages": [go]}
    content = api.send(body)["content"]
    assert api.send(body | {"messages": [go, {"role": "assistant", "content": content}, go]})["type"] == "message"
    hollow = {"role": "assistant", "content": [content[0], *content[2:]]}
    assert refusal(api, body | {"messages": [go, hollow, go]}) == f"messages.1.content.2: {BOUND}{MISSING}"


def test_the_order_of_tools_binds_nothing(api: Any) -> None:
    write = {"name": "Write", "input_schema": {"type": "object"}}
    go = {"role": "user", "content": "Go"}
    body: Body = {"model": OPUS, "max_tokens": 99, "tools": [READ, write], "messages": [go]}
    content = api.send(body)["content"]
    result = {"type": "tool_result", "tool_use_id": content[-1]["id"], "content": "x"}
    messages = [go, {"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
    assert api.send(body | {"messages": messages, "tools": [write, READ]})["stop_reason"] == "tool_use"


def test_two_continuations_of_one_prefix_are_taken(api: Any) -> None:
    body = conversation(api)
    for text in ("left", "right"):
        branch = deepcopy(body)
        branch["messages"][-1]["content"].append({"type": "text", "text": text})
        assert api.send(branch)["stop_reason"] == "end_turn"


def test_a_forged_block_cannot_be_dropped(api: Any) -> None:
    drop = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    for forged in ({"thinking": "I was never thought."}, {"signature": "abc"}, {"signature": "abc.def"}):
        body = conversation(api) | {"thinking": drop}
        body["messages"][1]["content"][0] |= forged
        assert refusal(api, body, BINDING) == "messages.1.content.0: Invalid `signature` in `thinking` block."


def test_redacted_thinking_is_taken_back(serve: Callable[..., Any]) -> None:
    redacted = {"type": "redacted_thinking", "data": "opaque"}
    api = serve(lambda request: several(verbatim(redacted), say("done")))
    go = {"role": "user", "content": "Go"}
    body: Body = {"model": OPUS, "max_tokens": 99, "messages": [go]}
    content = api.send(body)["content"]
    assert content[0] == redacted
    assert api.send(body | {"messages": [go, {"role": "assistant", "content": content}, go]})["content"] == content


def test_drop_block_reports_each_dropped_block(api: Any) -> None:
    body = conversation(api)
    body["messages"][2]["content"][0]["content"] = "[cleared]"
    body["thinking"] = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    answer = api.send(body, BINDING)
    assert answer["input_transformations"] == [
        {"type": "thinking_dropped", "path": f"messages.{index}.content.0", "reason": "prefix_binding_mismatch"}
        for index in (3, 5)
    ]
    body["thinking"] = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}
    assert refusal(api, body, BINDING).startswith("messages.3.content.0: ")


def test_another_model_judges_no_block_of_the_first(api: Any) -> None:
    body = conversation(api) | {"model": "claude-opus-5", "system": "t"}
    assert api.send(body)["stop_reason"] == "end_turn"


def test_older_models_do_not_bind(api: Any) -> None:
    body = conversation(api, "claude-opus-5") | {"system": "t"}
    assert api.send(body)["stop_reason"] == "end_turn"


@pytest.mark.req("L8")
def test_another_process_judges_the_same(api: Any, serve: Callable[..., Any]) -> None:
    body, later = conversation(api), serve(policy)
    assert later.send(body)["stop_reason"] == "end_turn"
    assert refusal(later, body | {"system": "t"}).endswith(SYSTEM)


COMPACT = "compact-2026-09-04"


@pytest.mark.req("C3")
def test_compaction_keeps_a_bound_tail(serve: Callable[..., Any]) -> None:
    def summarizing(request: ModelRequest) -> Any:
        return say("the summary") if request.compacting else policy(request)

    api = serve(summarizing)
    body = conversation(api)
    head, tail = body["messages"][:3], body["messages"][3:]
    answer = api.send(body | {"messages": head, "compaction": {"type": "summarize"}}, COMPACT)
    (block,) = answer["content"]
    assert (block["type"], block["content"], answer["stop_reason"]) == ("compaction", "the summary", "compaction")
    assert (answer["usage"]["input_tokens"], len(answer["usage"]["iterations"])) == (0, 1)
    compacted = body | {"messages": [{"role": "assistant", "content": [block]}, *tail]}
    assert api.send(compacted, COMPACT)["stop_reason"] == "end_turn"
    compacted["messages"] = [{"role": "assistant", "content": [block]}, *tail[2:]]
    assert refusal(api, compacted, COMPACT).endswith(MESSAGES)


@pytest.mark.req("C3")
def test_compaction_streams_one_whole_block(serve: Callable[..., Any]) -> None:
    api = serve(lambda request: say("the summary"))
    with api.client.beta.messages.stream(
        model=OPUS,
        max_tokens=99,
        messages=[{"role": "user", "content": "Go"}],
        compaction={"type": "summarize"},
        betas=[COMPACT],
    ) as stream:
        final = stream.get_final_message()
    assert (final.content[0].type, final.content[0].content) == ("compaction", "the summary")
    assert final.stop_reason == "compaction"
    assert api.model.usage.input_tokens > 0


@pytest.mark.req("C3")
def test_a_forged_or_misplaced_summary_is_refused(serve: Callable[..., Any]) -> None:
    api = serve(lambda request: say("the summary"))
    go = {"role": "user", "content": "Go"}
    body: Body = {"model": OPUS, "max_tokens": 99, "messages": [go]}
    (block,) = api.send(body | {"compaction": {"type": "summarize"}}, COMPACT)["content"]
    forged = {"role": "assistant", "content": [block | {"content": "another"}]}
    with pytest.raises(CompactionSignatureInvalidError):
        api.send(body | {"messages": [forged, go]}, COMPACT)
    late = {"role": "assistant", "content": [block]}
    with pytest.raises(CompactionBlockMisplacedError):
        api.send(body | {"messages": [go, late, go]}, COMPACT)


@pytest.mark.req("C3")
def test_there_must_be_something_to_summarize(serve: Callable[..., Any]) -> None:
    api = serve(lambda request: say("the summary"))
    summarize: Body = {"model": OPUS, "max_tokens": 99, "tools": [READ], "compaction": {"type": "summarize"}}
    go = {"role": "user", "content": "Go"}
    pending = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "Read", "input": {}}]}
    with pytest.raises(CompactionIncompleteTurnError):
        api.send(summarize | {"messages": [go, pending]}, COMPACT)
    (block,) = api.send(summarize | {"messages": [go]}, COMPACT)["content"]
    with pytest.raises(CompactionNothingToSummarizeError):
        api.send(summarize | {"messages": [{"role": "assistant", "content": [block]}]}, COMPACT)
