"""Each rule on messages: the good request passes, its bad twin gets the API's 400 with the place."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rows import every_row
from tests.testing.model.messages import IMAGE, assistant, body, result, text, use, user
from tests.testing.model.rules import Json, refused

SERVED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
UNANSWERED = "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use`"
NOT_EMPTY = "all messages must have non-empty content except for the optional final assistant message"
PREFILL = "This model does not support assistant message prefill. The conversation must end with a user message."

ROWS: dict[str, tuple[Json, Json, str]] = {
    "some message": (body(user("a")), body(), "messages: at least one message is required"),
    "messages are a list": (body(user("a")), {**body(), "messages": "a"}, "messages: Input should be a valid list"),
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
    "a paused turn goes on": (body(user("a"), assistant("b", SERVED)), body(user("a"), assistant("b")), PREFILL),
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


@every_row(("good", "bad", "message"), list(ROWS.values()))
@pytest.mark.req("M3")
def test_rule(ok: Any, good: Json, bad: Json, message: str) -> None:
    assert refused(ok, good, bad).startswith(message)
