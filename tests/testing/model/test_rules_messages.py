"""Each rule on messages: the good request passes, its bad twin gets the API's 400 with the place."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic import BadRequestError

Json = dict[str, Any]

OPUS, SONNET_5, HAIKU_4_5 = "claude-opus-5-5", "claude-sonnet-5", "claude-haiku-4-5"
CLEAR_AT = "mid-conversation-system-clear-at-2026-08-21"
EFFORT = "mid-conversation-output-config-2026-07-01"
COMPACT = "compact-2026-09-04"
EDITS = "context-management-2025-06-27"


def user(*content: Json | str) -> Json:
    return {"role": "user", "content": [text(c) if isinstance(c, str) else c for c in content]}


def assistant(*content: Json | str) -> Json:
    return {"role": "assistant", "content": [text(c) if isinstance(c, str) else c for c in content]}


def system(content: Any, **fields: Any) -> Json:
    return {"role": "system", "content": content, **fields}


def text(words: str, **fields: Any) -> Json:
    return {"type": "text", "text": words, **fields}


def use(call_id: str = "a", **fields: Any) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "Read", "input": {}, **fields}


def result(call_id: str = "a", **fields: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "x", **fields}


def body(*messages: Any, model: str = OPUS, **fields: Any) -> Json:
    return {"model": model, "max_tokens": 100, "messages": list(messages), **fields}


SERVED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
DOCUMENT = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}
UNANSWERED = "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use`"
NOT_EMPTY = "all messages must have non-empty content except for the optional final assistant message"
PREFILL = "This model does not support assistant message prefill. The conversation must end with a user message."

ROWS: dict[str, tuple[Json, Json, str]] = {
    "some message": (body(user("a")), body(), "messages: at least one message is required"),
    "messages are a list": (
        body(user("a")),
        {**body(), "messages": "a"},
        "messages: Input should be a valid list",
    ),
    "a message is an object": (body(user("a")), body("a"), "messages.0: Input should be an object"),
    "known role": (
        body(user("a")),
        body({"role": "tool", "content": "a"}),
        "messages.0.role: Input should be 'user' or 'assistant'",
    ),
    "known message fields": (
        body(user("a")),
        body({**user("a"), "id": "msg_1"}),
        "messages.0.id: Extra inputs are not permitted",
    ),
    "content is there": (body(user("a")), body({"role": "user"}), "messages.0.content: Field required"),
    "content is text or blocks": (
        body({"role": "user", "content": "a"}),
        body({"role": "user", "content": 3}),
        "messages.0.content: Input should be a valid list",
    ),
    "content is not empty": (
        body(user("a"), assistant("b"), user("c")),
        body(user("a"), assistant(), user("c")),
        f"messages.1: {NOT_EMPTY}",
    ),
    "a block has a type": (body(user("a")), body(user({"text": "a"})), "messages.0.content.0.type: Field required"),
    "known block types": (
        body(user(IMAGE)),
        body(user({"type": "picture"})),
        "messages.0.content.0: Input tag 'picture' found using 'type' does not match any of the expected tags",
    ),
    "no calls by users": (
        body(user("a")),
        body(user(use())),
        "messages.0.content.0: Input tag 'tool_use' found using 'type' does not match any of the expected tags",
    ),
    "no documents by assistants": (
        body(user(DOCUMENT)),
        body(user("a"), assistant(DOCUMENT), user("b")),
        "messages.1.content.0: Input tag 'document' found using 'type' does not match any of the expected tags",
    ),
    "no citations by users": (
        body(user("a"), assistant(text("b", citations=None)), user("c")),
        body(user(text("a", citations=None))),
        "messages.0.content.0.text.citations: Extra inputs are not permitted",
    ),
    "known block fields": (
        body(user("a"), assistant(text("b", citations=None)), user("c")),
        body(user("a"), assistant(text("b", parsed_output=None)), user("c")),
        "messages.1.content.0.text.parsed_output: Extra inputs are not permitted",
    ),
    "a call has its input": (
        body(user("a"), assistant(use()), user(result())),
        body(user("a"), assistant({"type": "tool_use", "id": "a", "name": "Read"}), user(result())),
        "messages.1.content.0.tool_use.input: Field required",
    ),
    "a call's input is an object": (
        body(user("a"), assistant(use(input={"x": 1})), user(result())),
        body(user("a"), assistant(use(input="x")), user(result())),
        "messages.1.content.0.tool_use.input: Input should be an object",
    ),
    "a call's id is plain": (
        body(user("a"), assistant(use("a-_1")), user(result("a-_1"))),
        body(user("a"), assistant(use("a b")), user(result("a b"))),
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    ),
    "a result's id is a string": (
        body(user("a"), assistant(use()), user(result())),
        body(user("a"), assistant(use()), user({**result(), "tool_use_id": ["a"]})),
        "messages.2.content.0.tool_result.tool_use_id: Input should be a valid string",
    ),
    "text is a string": (
        body(user("a")),
        body(user({"type": "text", "text": 1})),
        "messages.0.content.0.text.text: Input should be a valid string",
    ),
    "user first": (
        body(user("a"), assistant("b"), user("c")),
        body(assistant("b"), user("c")),
        'messages: first message must use the "user" role',
    ),
    "every call answered": (
        body(user("a"), assistant(use()), user(result())),
        body(user("a"), assistant(use()), user("b")),
        UNANSWERED.format("a"),
    ),
    "the last call answered": (
        body(user("a"), assistant(use()), user(result())),
        body(user("a"), assistant(use())),
        UNANSWERED.format("a"),
    ),
    "all results in one message": (
        body(user("a"), assistant(use("a"), use("b")), user(result("a"), result("b"))),
        body(user("a"), assistant(use("a"), use("b")), user(result("a")), user(result("b"))),
        UNANSWERED.format("b"),
    ),
    "results before text": (
        body(user("a"), assistant(use()), user(result(), "b")),
        body(user("a"), assistant(use()), user("b", result())),
        UNANSWERED.format("a"),
    ),
    "no message between call and result": (
        body(user("a"), assistant(use()), user(result()), system("s")),
        body(user("a"), assistant(use()), system("s"), user(result())),
        'messages.2: a "system" message must follow a "user" message',
    ),
    "every result has its call": (
        body(user("a"), assistant(use()), user(result())),
        body(user("a"), assistant("b"), user(result())),
        "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: a.",
    ),
    "one result a call": (
        body(user("a"), assistant(use()), user(result())),
        body(user("a"), assistant(use()), user(result(), result())),
        "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: a",
    ),
    "unique call ids": (
        body(user("a"), assistant(use("a")), user(result("a")), assistant(use("b")), user(result("b"))),
        body(user("a"), assistant(use("a")), user(result("a")), assistant(use("a")), user(result("a"))),
        "messages.3.content.0: `tool_use` ids must be unique",
    ),
    "server tools need no result": (
        body(user("a"), assistant(SERVED, FOUND, "b"), user("c")),
        body(user("a"), assistant(SERVED, FOUND, "b"), user(result("srvtoolu_1"))),
        "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: srvtoolu_1.",
    ),
    "errors say something": (
        body(user("a"), assistant(use()), user(result(content="", is_error=False))),
        body(user("a"), assistant(use()), user(result(content="", is_error=True))),
        "messages.2.content.0.tool_result: content cannot be empty if `is_error` is true",
    ),
    "results hold text or blocks": (
        body(user("a"), assistant(use()), user(result(content=[text("x"), IMAGE]))),
        body(user("a"), assistant(use()), user(result(content={"x": 1}))),
        "messages.2.content.0.tool_result.content: Input should be a valid list",
    ),
    "known blocks in results": (
        body(user("a"), assistant(use()), user(result(content=[text("x")]))),
        body(user("a"), assistant(use()), user(result(content=[use("b")]))),
        "messages.2.content.0.tool_result.content.0: Input tag 'tool_use' found",
    ),
    "no empty text": (
        body(user("a", "b")),
        body(user("a", "")),
        "messages.0.content.1: text content blocks must be non-empty",
    ),
    "no empty text in results": (
        body(user("a"), assistant(use()), user(result(content=[text("x")]))),
        body(user("a"), assistant(use()), user(result(content=[text("")]))),
        "messages.2.content.0.tool_result.content.0: text content blocks must be non-empty",
    ),
    "no empty system text": (
        body(user("a"), system=[text("s")]),
        body(user("a"), system=[text("")]),
        "system.0: text content blocks must be non-empty",
    ),
    "final assistant text is not blank": (
        body(user("a"), assistant(" \n"), user("b"), assistant("c"), user("d")),
        body(user("a"), assistant(" \n"), user("d")),
        "messages.1.content.0: text content blocks must contain non-whitespace text",
    ),
    "no prefill": (body(user("a")), body(user("a"), assistant("b")), PREFILL),
    "prefill on old models has no trailing space": (
        body(user("a"), assistant("b"), model=HAIKU_4_5),
        body(user("a"), assistant("b "), model=HAIKU_4_5),
        "messages: final assistant content cannot end with trailing whitespace",
    ),
    "a paused turn goes on": (body(user("a"), assistant("b", SERVED)), body(user("a"), assistant("b")), PREFILL),
    "system messages by model": (
        body(user("a"), system("s")),
        body(user("a"), system("s"), model=SONNET_5),
        'messages.1: Unexpected role "system". The Messages API accepts a top-level `system` parameter',
    ),
    "system message not first": (
        body(user("a"), system("s")),
        body(system("s"), user("a")),
        'messages.0: a "system" message cannot be the first message',
    ),
    "system message after a user's": (
        body(user("a"), assistant("b", SERVED, FOUND), system("s")),
        body(user("a"), assistant("b"), system("s")),
        'messages.2: a "system" message must follow a "user" message',
    ),
    "system message last or before an assistant's": (
        body(user("a"), system("s"), assistant("b"), user("c")),
        body(user("a"), system("s"), user("c")),
        'messages.1: a "system" message must be last or be followed by an "assistant" message',
    ),
    "system messages are text": (
        body(user("a"), system([text("s")])),
        body(user("a"), system([IMAGE])),
        "messages.1.content.0: Input tag 'image' found",
    ),
    "clear_at is a beta": (
        body(user("a"), system("s")),
        body(user("a"), system("s", clear_at="next_user_message")),
        "messages.1.clear_at: Extra inputs are not permitted",
    ),
    "per-message effort is a beta": (
        body(user("a")),
        body(user("a"), system([], output_config={"effort": "low"})),
        "messages.1.output_config: Extra inputs are not permitted",
    ),
    "compaction blocks are a beta": (
        body(user("a")),
        body(assistant({"type": "compaction", "content": "s", "signature": "x"}), user("a")),
        "messages.0.content.0: Input tag 'compaction' found",
    ),
    "a turn of thinking and a call is whole": (
        body(user("a"), assistant(use()), user(result())),
        body(user("a"), assistant({"type": "thinking", "thinking": "t"}, use()), user(result())),
        "messages.1.content.0.thinking.signature: Field required",
    ),
}


@pytest.mark.parametrize(("good", "bad", "message"), list(ROWS.values()), ids=list(ROWS))
@pytest.mark.req("M3")
def test_rule(ok: Any, good: Json, bad: Json, message: str) -> None:
    """The good request is answered, the bad one refused with this message."""
    assert ok.send(good)["content"] == [{"type": "text", "text": "ok"}]
    with pytest.raises(BadRequestError) as refused:
        ok.send(bad)
    assert refused.value.type == "invalid_request_error"
    assert (refused.value.api_message or "").startswith(message)


def edited(*edits: Json) -> Json:
    return body(user("a"), context_management={"edits": list(edits)})


BETA_ROWS: dict[str, tuple[str, Json, Json, str]] = {
    "no marker on a reminder that clears": (
        CLEAR_AT,
        body(user("a"), system([text("s")], clear_at="next_user_message")),
        body(user("a"), system([text("s", cache_control={"type": "ephemeral"})], clear_at="next_user_message")),
        "messages.1.content.0.text.cache_control: cache_control cannot be set on a system message with `clear_at`",
    ),
    "effort alone may stand anywhere": (
        EFFORT,
        body(user("a"), assistant("b"), system([], output_config={"effort": "low"}), user("c")),
        body(user("a"), assistant("b"), system("s", output_config={"effort": "low"}), user("c")),
        'messages.2: a "system" message must follow a "user" message',
    ),
    "per-message effort is a known level": (
        EFFORT,
        body(user("a"), system([], output_config={"effort": "low"})),
        body(user("a"), system([], output_config={"effort": "huge"})),
        "messages.1.output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'",
    ),
    "a summary is asked for in the known way": (
        COMPACT,
        body(user("a"), compaction={"type": "summarize"}),
        body(user("a"), compaction={"type": "shorten"}),
        "compaction.type: Input should be 'summarize'",
    ),
    "a summary has no format": (
        COMPACT,
        body(user("a"), compaction={"type": "summarize"}),
        body(
            user("a"),
            compaction={"type": "summarize"},
            output_config={
                "format": {"type": "json_schema", "schema": {"type": "object", "additionalProperties": False}}
            },
        ),
        "compaction: cannot be combined with `output_config.format`",
    ),
    "no effort by message where thinking is between tools": (
        EFFORT,
        body(user("a"), system([], output_config={"effort": "low"}), model="claude-sonnet-5-5"),
        body(
            user("a"),
            system([], output_config={"effort": "low"}),
            model="claude-sonnet-5-5",
            thinking={"type": "between_tools"},
        ),
        'messages.1.output_config.effort: not supported with "thinking.type.between_tools"',
    ),
    "tool changes are a beta of their own": (
        "mid-conversation-tool-changes-2026-07-01",
        body(user("a"), system([{"type": "tool_removal", "tool": {"type": "tool_reference", "name": "Read"}}])),
        body(user("a"), system([IMAGE])),
        "messages.1.content.0: Input tag 'image' found",
    ),
    "edits are a list": (
        EDITS,
        edited({"type": "clear_tool_uses_20250919"}),
        body(user("a"), context_management={"edit": []}),
        "context_management.edits: Field required",
    ),
    "an edit is a known one": (
        EDITS,
        edited({"type": "clear_thinking_20251015", "keep": "all"}),
        edited({"type": "clear_everything"}),
        "context_management.edits.0: Input tag 'clear_everything' found",
    ),
    "an edit has known fields": (
        EDITS,
        edited({"type": "clear_tool_uses_20250919", "exclude_tools": ["TodoWrite"]}),
        edited({"type": "clear_tool_uses_20250919", "exclude": []}),
        "context_management.edits.0.clear_tool_uses_20250919.exclude: Extra inputs",
    ),
    "an edit measures what it can": (
        EDITS,
        edited({"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 3}}),
        edited({"type": "clear_tool_uses_20250919", "keep": {"type": "input_tokens", "value": 3}}),
        "context_management.edits.0.clear_tool_uses_20250919.keep.type: Input should be one of",
    ),
    "an edit measures whole numbers": (
        EDITS,
        edited({"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 9}}),
        edited({"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 0.5}}),
        "context_management.edits.0.clear_tool_uses_20250919.trigger.value: Input should be a valid integer",
    ),
    "thinking is cleared first": (
        EDITS,
        edited({"type": "clear_thinking_20251015"}, {"type": "clear_tool_uses_20250919"}),
        edited({"type": "clear_tool_uses_20250919"}, {"type": "clear_thinking_20251015"}),
        "context_management.edits: `clear_thinking_20251015` must come first",
    ),
    "compaction at a threshold begins high": (
        EDITS,
        edited({"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}),
        edited({"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 49_999}}),
        "context_management.edits.0.compact_20260112.trigger.value: Input should be greater",
    ),
    "a summary stands alone": (
        COMPACT,
        body(user("a"), compaction={"type": "summarize"}),
        body(user("a"), compaction={"type": "summarize"}, stop_sequences=["x"]),
        "compaction: cannot be combined with `stop_sequences`",
    ),
}


@pytest.mark.parametrize(("beta", "good", "bad", "message"), list(BETA_ROWS.values()), ids=list(BETA_ROWS))
def test_rule_of_a_beta(ok: Any, beta: str, good: Json, bad: Json, message: str) -> None:
    """With the beta's header the good request is answered and the bad one refused with this message."""
    assert ok.send(good, beta)["type"] == "message"
    with pytest.raises(BadRequestError) as refused:
        ok.send(bad, beta)
    assert (refused.value.api_message or "").startswith(message)
