"""Each rule on requests: the good request passes, its bad twin gets the error of the API with the place."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from anthropic import BadRequestError, NotFoundError
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.testing.model.messages_service import MessagesService
from bot.testing.model.models import MODELS
from bot.testing.model.request_view import ApiError, ModelRequest
from tests.rows import every_row

Json = dict[str, Any]

OPUS, OPUS_4_6, OPUS_4_5 = "claude-opus-5-5", "claude-opus-4-6", "claude-opus-4-5"
HAIKU, HAIKU_4_5 = "claude-haiku-5-5", "claude-haiku-4-5"
CLOSED: Json = {"type": "object", "additionalProperties": False}


def body(model: str = OPUS, **fields: Any) -> Json:
    return {"model": model, "max_tokens": 2000, "messages": [{"role": "user", "content": "a"}], **fields}


def tool(name: str = "Read", **fields: Any) -> Json:
    return {"name": name, "input_schema": {"type": "object", "properties": {}}, **fields}


def refused(ok: Any, good: Json, bad: Json, *betas: str) -> str:
    """See the good request answered and its twin refused with a 400, and give the refusal's message."""
    assert ok.send(good, *betas)["type"] == "message"
    with pytest.raises(BadRequestError) as error:
        ok.send(bad, *betas)
    assert error.value.type == "invalid_request_error"
    return error.value.api_message or ""


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


def user(*content: Json | str) -> Json:
    return {"role": "user", "content": [text(c) if isinstance(c, str) else c for c in content]}


def assistant(*content: Json | str) -> Json:
    return {"role": "assistant", "content": [text(c) if isinstance(c, str) else c for c in content]}


def text(words: str, **fields: Any) -> Json:
    return {"type": "text", "text": words, **fields}


def use(call_id: str = "a", **fields: Any) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "Read", "input": {}, **fields}


def result(call_id: str = "a", **fields: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "x", **fields}


def said(*messages: Any, model: str = OPUS, **fields: Any) -> Json:
    return {"model": model, "max_tokens": 100, "messages": list(messages), **fields}


def prop(**schema: Any) -> Json:
    return {"properties": {"x": schema}, "required": ["x"]}


def shaped(schema: Json) -> Json:
    return {"format": {"type": "json_schema", "schema": schema}}


def thinking(form: str, **more: Any) -> Json:
    return {"type": form, **more}


def effort(level: str) -> Json:
    return {"effort": level}


NO_ENABLED = (
    '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
    '"output_config.effort" to control thinking behavior.'
)
PARAMETERS: dict[str, tuple[Json, Json, str]] = {
    "no temperature": (body(), body(temperature=1), "`temperature` is deprecated for this model."),
    "no top_p": (body(), body(top_p=0.9), "`top_p` is deprecated for this model."),
    "no top_k": (body(), body(top_k=5), "`top_k` is deprecated for this model."),
    "known fields": (body(metadata={"user_id": "u"}), body(colour="red"), "colour: Extra inputs are not permitted"),
    "no betas without their header": (body(), body(context_management={"edits": []}),
        "context_management: Extra inputs are not permitted"),
    "max_tokens is there": (body(), {"model": OPUS, "messages": []}, "max_tokens: Field required"),
    "messages are there": (body(), {"model": OPUS, "max_tokens": 1}, "messages: Field required"),
    "model is there": (body(), {"max_tokens": 1}, "model: Field required"),
    "max_tokens is a number": (body(), body(max_tokens="many"), "max_tokens: Input should be a valid integer"),
    "max_tokens is not negative": (body(), body(max_tokens=-1), "max_tokens: Input should be greater than or equal"),
    "max_tokens of the model": (body(max_tokens=128_000), body(max_tokens=128_001),
        f"max_tokens: 128001 > 128000, which is the maximum allowed number of output tokens for {OPUS}"),
    "max_tokens of an old model": (body(HAIKU_4_5, max_tokens=64_000), body(HAIKU_4_5, max_tokens=64_001),
        f"max_tokens: 64001 > 64000, which is the maximum allowed number of output tokens for {HAIKU_4_5}"),
    "user ids are opaque": (body(metadata={"user_id": "8f2c"}), body(metadata={"user_id": "a@b.example"}),
        "metadata.user_id: user_id appears to contain an email address"),
    "system is text or blocks": (body(system="s"), body(system=3), "system: Input should be a valid list"),
    "system blocks are text": (body(system=[{"type": "text", "text": "s"}]), body(system=[{"type": "image"}]),
        "system.0.type: Input should be 'text'"),
    "known system fields": (body(system=[{"type": "text", "text": "s"}]),
        body(system=[{"type": "text", "text": "s", "name": "n"}]), "system.0.name: Extra inputs are not permitted"),
    "known thinking": (body(thinking=thinking("adaptive", display="summarized")), body(thinking=thinking("deep")),
        "thinking: Input tag 'deep' found using 'type' does not match any of the expected tags"),
    "opus 5.5 always thinks": (body(thinking=thinking("adaptive")), body(thinking=thinking("disabled")),
        '"thinking.type.disabled" is not supported for this model.'),
    "no budget any more": (body(), body(thinking=thinking("enabled", budget_tokens=1024)), NO_ENABLED),
    "thinking off needs a modest effort": (body(HAIKU, thinking=thinking("disabled"), output_config=effort("high")),
        body(HAIKU, thinking=thinking("disabled"), output_config=effort("xhigh")),
        '"thinking.type.disabled" is not supported with effort "xhigh" for this model.'),
    "known display": (body(thinking=thinking("adaptive", display="omitted")),
        body(thinking=thinking("adaptive", display="updates")),
        "thinking.adaptive.display: Input should be 'summarized' or 'omitted'"),
    "block_binding is a beta": (body(thinking=thinking("adaptive")),
        body(thinking=thinking("adaptive", block_binding={})),
        "thinking.adaptive.block_binding: Extra inputs are not permitted"),
    "old models have a budget": (body(HAIKU_4_5, thinking=thinking("enabled", budget_tokens=1024)),
        body(HAIKU_4_5, thinking=thinking("adaptive")), '"thinking.type.adaptive" is not supported for this model.'),
    "a budget has a minimum": (body(HAIKU_4_5, thinking=thinking("enabled", budget_tokens=1024)),
        body(HAIKU_4_5, thinking=thinking("enabled", budget_tokens=1023)),
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"),
    "a budget is below max_tokens": (body(OPUS_4_6, thinking=thinking("enabled", budget_tokens=1999)),
        body(OPUS_4_6, thinking=thinking("enabled", budget_tokens=2000)),
        "`max_tokens` must be greater than `thinking.budget_tokens`."),
    "output_config is an object": (body(output_config={}), body(output_config="low"),
        "output_config: Input should be an object"),
    "a budget is given": (body(OPUS_4_5, thinking=thinking("enabled", budget_tokens=1024)),
        body(OPUS_4_5, thinking=thinking("enabled")), "thinking.enabled.budget_tokens: Field required"),
    "a format has a schema": (body(output_config=shaped(CLOSED)),
        body(output_config={"format": {"type": "json_schema"}}), "output_config.format.schema: Field required"),
    "known effort": (body(output_config=effort("max")), body(output_config=effort("extreme")),
        "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'"),
    "known output_config": (body(output_config=effort("low")),
        body(output_config={"task_budget": {"type": "tokens", "total": 20_000}}),
        "output_config.task_budget: Extra inputs are not permitted"),
    "old models have no effort": (body(OPUS_4_5, output_config=effort("high")),
        body(HAIKU_4_5, output_config=effort("high")),
        "output_config.effort: This model does not support the effort parameter."),
    "4.6 has no xhigh": (body(OPUS_4_6, output_config=effort("max")), body(OPUS_4_6, output_config=effort("xhigh")),
        "output_config.effort: This model does not support effort level 'xhigh'. Supported levels: low, medium, high"),
    "a format is a schema": (body(output_config=shaped(CLOSED)), body(output_config={"format": {"type": "json"}}),
        "output_config.format.type: Input should be 'json_schema'"),
    "a format's objects are closed": (body(output_config=shaped(CLOSED)),
        body(output_config=shaped({"type": "object"})),
        "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false"),
    "a format has no bounds": (body(output_config=shaped({**CLOSED, **prop(type="integer")})),
        body(output_config=shaped({**CLOSED, **prop(type="integer", minimum=0, maximum=9)})),
        "output_config.format.schema: For 'integer' type, properties maximum, minimum are not supported"),
    "pre-warming does not stream": (body(max_tokens=0), body(max_tokens=0, stream=True),
        "max_tokens: 0 is not supported with `stream`"),
    "pre-warming has no format": (body(max_tokens=0), body(max_tokens=0, output_config=shaped(CLOSED)),
        "max_tokens: 0 is not supported with `output_config.format`"),
}  # fmt: skip


@every_row(("good", "bad", "message"), list(PARAMETERS.values()))
@pytest.mark.req("M6")
def test_each_rule_of_parameters(ok: Any, good: Json, bad: Json, message: str) -> None:
    assert refused(ok, good, bad).startswith(message)


def test_an_unknown_model_is_a_404_that_names_it(ok: Any) -> None:
    with pytest.raises(NotFoundError) as error:
        ok.send(body("claude-opus-9"))
    assert (error.value.type, error.value.api_message) == ("not_found_error", "model: claude-opus-9")


def test_the_field_of_a_beta_is_known_with_its_header(ok: Any) -> None:
    answer = ok.send(body(context_management={"edits": []}), "context-management-2025-06-27")
    assert answer["context_management"] == {"applied_edits": []}


SHORT: Json = {"type": "ephemeral"}


def strict(name: str = "Read", **schema: Any) -> Json:
    return {"name": name, "strict": True, "input_schema": {**CLOSED, **schema}}


def fields(count: int, **schema: Any) -> Json:
    return {f"p{number}": schema for number in range(count)}


def marked(*markers: Json | None) -> list[Json]:
    blocks: list[Json] = [{"type": "text", "text": "a"} for _ in markers]
    for block, marker in zip(blocks, markers, strict=True):
        if marker is not None:
            block["cache_control"] = marker
    return [{"role": "user", "content": blocks}]


def called(**more: Any) -> list[Json]:
    result = {"type": "tool_result", "tool_use_id": "a", **more}
    call = {"type": "tool_use", "id": "a", "name": "Read", "input": {}}
    return [
        {"role": "user", "content": "a"}, {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]  # fmt: skip


OPEN = "tools.0.custom: For 'object' type, 'additionalProperties' must be explicitly set to false"

SEARCH: Json = {"type": "web_search_20250305", "name": "web_search"}

TOOLS: dict[str, tuple[Any, Any, str]] = {
    "a search has known fields": ([{**SEARCH, "max_uses": 2, "allowed_domains": ["docs.python.org/3"]}],
        [{**SEARCH, "query": "x"}], "tools.0.web_search_20250305.query: Extra inputs are not permitted"),
    "a search has its name": ([SEARCH], [{**SEARCH, "name": "WebSearch"}],
        "tools.0.web_search_20250305.name: Input should be 'web_search'"),
    "a search may be used": ([{**SEARCH, "max_uses": 1}], [{**SEARCH, "max_uses": 0}],
        "tools.0.web_search_20250305.max_uses: Input should be greater than 0"),
    "a search has one list of domains": ([{**SEARCH, "blocked_domains": ["a.com"], "allowed_domains": []}],
        [{**SEARCH, "blocked_domains": ["a.com"], "allowed_domains": ["b.com"]}],
        "tools.0.web_search_20250305: only one of"),
    "domains of a search are bare": ([{**SEARCH, "allowed_domains": ["a.com"]}],
        [{**SEARCH, "allowed_domains": ["https://a.com"]}],
        "tools.0.web_search_20250305.allowed_domains: 'https://a.com' is not a bare domain"),
    "known fields": ([tool(description="d")], [tool(read_only=True)],
        "tools.0.custom.read_only: Extra inputs are not permitted"),
    "tools are a list": ([tool()], {}, "tools: Input should be a valid list"),
    "a tool is an object": ([tool()], ["Read"], "tools.0.custom: Input should be an object"),
    "a schema is an object": ([tool()], [tool(input_schema="object")],
        "tools.0.custom.input_schema: Input should be an object"),
    "a schema is a JSON schema": ([tool(input_schema={"type": "object", "properties": {"x": {}}, "required": ["x"]})],
        [tool(input_schema={"type": "object", "properties": {"x": {}}, "required": True})],
        "tools.0.custom.input_schema: JSON schema is invalid."),
    "a description is text": ([tool(description="d")], [tool(description=["d"])],
        "tools.0.custom.description: Input should be a valid string"),
    "strict schemas have no oneOf": ([strict(**prop(anyOf=[{"type": "string"}, {"type": "null"}]))],
        [strict(**prop(oneOf=[{"type": "string"}, {"type": "null"}]))],
        "tools.0.custom: Schema type 'oneOf' is not supported"),
    "a tool has a name": ([tool()], [{"input_schema": {}}], "tools.0.custom.name: Field requi"),
    "a tool has a schema": ([tool()], [{"name": "x"}], "tools.0.custom.input_schema: Field required"),
    "plain names": ([tool("mcp__a-b__" + "c" * 54)], [tool("mcp__a-b__" + "c" * 55)],
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'"),
    "unique names": ([tool("A"), tool("B")], [tool("A"), tool("A")], "tools: Tool names must be unique."),
    "inputs are objects": ([tool()], [{"name": "x", "input_schema": {"type": "array"}}],
        "tools.0.custom.input_schema.type: Input should be 'object'"),
    "no alternatives at the top": ([tool()], [tool(input_schema={"type": "object", "anyOf": [{"type": "object"}]})],
        "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"),
    "known served tools": ([SEARCH], [{"type": "web_search", "name": "web_search"}],
        "tools.0: Input tag 'web_search' found using 'type'"),
    "twenty strict tools": ([strict(f"t{n}") for n in range(20)], [strict(f"t{n}") for n in range(21)],
        "Too many strict tools (21). The maximum number of strict tools supported is 20."),
    "strict objects are closed": ([strict()], [strict(additionalProperties=True)], OPEN),
    "strict objects are closed inside": ([strict(**prop(type="array", items=CLOSED))],
        [strict(**prop(type="array", items={"type": "object"}))], OPEN),
    "strict text has no length": (
        [strict(**prop(type="string")), tool("B", input_schema={"type": "object", **prop(maxLength=3)})],
        [strict(**prop(type="string", maxLength=3))],
        "tools.0.custom: For 'string' type, property maxLength is not supported"),
    "strict lists have one item at least": ([strict(**prop(type="array", items={"type": "string"}, minItems=1))],
        [strict(**prop(type="array", items={"type": "string"}, minItems=2))],
        "tools.0.custom: For 'array' type, 'minItems' values other than 0 or 1 are not supported"),
    "24 optional parameters in all": ([strict("A", properties=fields(12)), strict("B", properties=fields(12))],
        [strict("A", properties=fields(12)), strict("B", properties=fields(13))],
        "Schemas contains too many optional parameters (25), which would make grammar compilation inefficient."),
    "16 unions in all": (
        [strict(properties=fields(16, anyOf=[{"type": "string"}, {"type": "null"}]), required=[*fields(16)])],
        [strict(properties=fields(17, type=["string", "null"]), required=[*fields(17)])],
        "Schemas contains too many parameters with union types (17 parameters with type arrays or anyOf)"),
}  # fmt: skip

MARKERS: dict[str, tuple[Json, Json, str]] = {
    "four markers": (body(messages=marked(SHORT, SHORT, SHORT, SHORT)),
        body(messages=marked(SHORT, SHORT, SHORT, SHORT, SHORT)),
        "A maximum of 4 blocks with cache_control may be provided. Found 5."),
    "markers on tools and system count": (body(tools=[tool(cache_control=SHORT)], messages=marked(SHORT, SHORT, SHORT)),
        body(tools=[tool(cache_control=SHORT)], system=[{"type": "text", "text": "s", "cache_control": SHORT}],
            messages=marked(SHORT, SHORT, SHORT)),
        "A maximum of 4 blocks with cache_control may be provided. Found 5."),
    "one kind of marker": (body(messages=marked(SHORT)), body(messages=marked({"type": "lasting"})),
        "messages.0.content.0.text.cache_control.type: Input should be 'ephemeral'"),
    "known marker fields": (body(messages=marked(SHORT)), body(messages=marked({"type": "ephemeral", "scope": "all"})),
        "messages.0.content.0.text.cache_control.ephemeral.scope: Extra inputs are not permitted"),
    "not on thinking": (body(messages=marked(SHORT)),
        body(messages=[{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"type": "thinking",
            "thinking": "", "signature": "", "cache_control": SHORT}]}, {"role": "user", "content": "b"}]),
        "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted"),
    "not on empty text": (body(messages=marked(SHORT)),
        body(messages=[{"role": "user", "content": [{"type": "text", "text": "", "cache_control": SHORT}]}]),
        "messages.0.content.0.text.cache_control: cache_control cannot be set for empty text blocks"),
    "not inside of a result": (body(messages=called(content=[{"type": "text", "text": "x"}], cache_control=SHORT)),
        body(messages=called(content=[{"type": "text", "text": "x", "cache_control": SHORT}])),
        "messages.2.content.0.tool_result.content.0.cache_control: cache_control cannot be set on sub-blocks"),
}  # fmt: skip


@every_row(("good", "bad", "message"), list(TOOLS.values()))
@pytest.mark.req("M5")
def test_each_rule_of_tools(ok: Any, good: Any, bad: Any, message: str) -> None:
    assert refused(ok, body(tools=good), body(tools=bad)).startswith(message)


@every_row(("good", "bad", "message"), list(MARKERS.values()))
@pytest.mark.req("M4")
def test_each_rule_of_cache_markers(ok: Any, good: Json, bad: Json, message: str) -> None:
    assert refused(ok, good, bad).startswith(message)


SERVED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
UNANSWERED = "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use`"
NOT_EMPTY = "all messages must have non-empty content except for the optional final assistant message"
PREFILL = "This model does not support assistant message prefill. The conversation must end with a user message."

MESSAGES: dict[str, tuple[Json, Json, str]] = {
    "some message": (said(user("a")), said(), "messages: at least one message is required"),
    "messages are a list": (said(user("a")), {**said(), "messages": "a"}, "messages: Input should be a valid list"),
    "a message is an object": (said(user("a")), said("a"), "messages.0: Input should be an object"),
    "known role": (said(user("a")), said({"role": "tool", "content": "a"}),
        "messages.0.role: Input should be 'user' or 'assistant'"),
    "known message fields": (said(user("a")), said({**user("a"), "id": "msg_1"}),
        "messages.0.id: Extra inputs are not permitted"),
    "content is there": (said(user("a")), said({"role": "user"}), "messages.0.content: Field required"),
    "content is text or blocks": (said({"role": "user", "content": "a"}), said({"role": "user", "content": 3}),
        "messages.0.content: Input should be a valid list"),
    "content is not empty": (said(user("a"), assistant("b"), user("c")), said(user("a"), assistant(), user("c")),
        f"messages.1: {NOT_EMPTY}"),
    "a block has a type": (said(user("a")), said(user({"text": "a"})), "messages.0.content.0.type: Field required"),
    "known block types": (said(user(IMAGE)), said(user({"type": "picture"})),
        "messages.0.content.0: Input tag 'picture' found using 'type' does not match any of the expected tags"),
    "no calls by users": (said(user("a")), said(user(use())),
        "messages.0.content.0: Input tag 'tool_use' found using 'type' does not match any of the expected tags"),
    "no citations by users": (said(user("a"), assistant(text("b", citations=None)), user("c")),
        said(user(text("a", citations=None))), "messages.0.content.0.text.citations: Extra inputs are not permitted"),
    "known block fields": (said(user("a"), assistant(text("b", citations=None)), user("c")),
        said(user("a"), assistant(text("b", parsed_output=None)), user("c")),
        "messages.1.content.0.text.parsed_output: Extra inputs are not permitted"),
    "a call has its input": (said(user("a"), assistant(use()), user(result())),
        said(user("a"), assistant({"type": "tool_use", "id": "a", "name": "Read"}), user(result())),
        "messages.1.content.0.tool_use.input: Field required"),
    "a call's input is an object": (said(user("a"), assistant(use(input={"x": 1})), user(result())),
        said(user("a"), assistant(use(input="x")), user(result())),
        "messages.1.content.0.tool_use.input: Input should be an object"),
    "a call's id is plain": (said(user("a"), assistant(use("a-_1")), user(result("a-_1"))),
        said(user("a"), assistant(use("a b")), user(result("a b"))),
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"),
    "a result's id is a string": (said(user("a"), assistant(use()), user(result())),
        said(user("a"), assistant(use()), user({**result(), "tool_use_id": ["a"]})),
        "messages.2.content.0.tool_result.tool_use_id: Input should be a valid string"),
    "text is a string": (said(user("a")), said(user({"type": "text", "text": 1})),
        "messages.0.content.0.text.text: Input should be a valid string"),
    "user first": (said(user("a"), assistant("b"), user("c")), said(assistant("b"), user("c")),
        'messages: first message must use the "user" role'),
    "every call answered": (said(user("a"), assistant(use()), user(result())),
        said(user("a"), assistant(use()), user("b")), UNANSWERED.format("a")),
    "the last call answered": (said(user("a"), assistant(use()), user(result())), said(user("a"), assistant(use())),
        UNANSWERED.format("a")),
    "all results in one message": (said(user("a"), assistant(use("a"), use("b")), user(result("a"), result("b"))),
        said(user("a"), assistant(use("a"), use("b")), user(result("a")), user(result("b"))), UNANSWERED.format("b")),
    "results before text": (said(user("a"), assistant(use()), user(result(), "b")),
        said(user("a"), assistant(use()), user("b", result())), UNANSWERED.format("a")),
    "every result has its call": (said(user("a"), assistant(use()), user(result())),
        said(user("a"), assistant("b"), user(result())),
        "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: a."),
    "one result a call": (said(user("a"), assistant(use()), user(result())),
        said(user("a"), assistant(use()), user(result(), result())),
        "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id:"),
    "unique call ids": (said(user("a"), assistant(use("a")), user(result("a")), assistant(use("b")), user(result("b"))),
        said(user("a"), assistant(use("a")), user(result("a")), assistant(use("a")), user(result("a"))),
        "messages.3.content.0: `tool_use` ids must be unique"),
    "server tools need no result": (said(user("a"), assistant(SERVED, FOUND, "b"), user("c")),
        said(user("a"), assistant(SERVED, FOUND, "b"), user(result("srvtoolu_1"))),
        "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: srvtoolu_1."),
    "errors say something": (said(user("a"), assistant(use()), user(result(content="", is_error=False))),
        said(user("a"), assistant(use()), user(result(content="", is_error=True))),
        "messages.2.content.0.tool_result: content cannot be empty if `is_error` is true"),
    "results hold text or blocks": (said(user("a"), assistant(use()), user(result(content=[text("x"), IMAGE]))),
        said(user("a"), assistant(use()), user(result(content={"x": 1}))),
        "messages.2.content.0.tool_result.content: Input should be a valid list"),
    "known blocks in results": (said(user("a"), assistant(use()), user(result(content=[text("x")]))),
        said(user("a"), assistant(use()), user(result(content=[use("b")]))),
        "messages.2.content.0.tool_result.content.0: Input tag 'tool_use' found"),
    "no empty text": (said(user("a", "b")), said(user("a", "")),
        "messages.0.content.1: text content blocks must be non-empty"),
    "no empty text in results": (said(user("a"), assistant(use()), user(result(content=[text("x")]))),
        said(user("a"), assistant(use()), user(result(content=[text("")]))),
        "messages.2.content.0.tool_result.content.0: text content blocks must be non-empty"),
    "no empty system text": (said(user("a"), system=[text("s")]), said(user("a"), system=[text("")]),
        "system.0: text content blocks must be non-empty"),
    "final assistant text is not blank": (said(user("a"), assistant(" \n"), user("b"), assistant("c"), user("d")),
        said(user("a"), assistant(" \n"), user("d")),
        "messages.1.content.0: text content blocks must contain non-whitespace text"),
    "no prefill": (said(user("a")), said(user("a"), assistant("b")), PREFILL),
    "a paused turn goes on": (said(user("a"), assistant("b", SERVED)), said(user("a"), assistant("b")), PREFILL),
    "compaction blocks are a beta": (said(user("a")),
        said(assistant({"type": "compaction", "content": "s", "signature": "x"}), user("a")),
        "messages.0.content.0: Input tag 'compaction' found"),
    "a turn of thinking and a call is whole": (said(user("a"), assistant(use()), user(result())),
        said(user("a"), assistant({"type": "thinking", "thinking": "t"}, use()), user(result())),
        "messages.1.content.0.thinking.signature: Field required"),
}  # fmt: skip


@every_row(("good", "bad", "message"), list(MESSAGES.values()))
@pytest.mark.req("M3")
def test_each_rule_of_messages(ok: Any, good: Json, bad: Json, message: str) -> None:
    assert refused(ok, good, bad).startswith(message)


SUMMARIZE = "compact-2026-09-04"
READ = use()
RESULT = result()
MORE = text("more")
WISH: Json = {"type": "summarize"}


def turns(answer: list[Json], reply: list[Json]) -> Json:
    said = [("user", [MORE]), ("assistant", answer), ("user", reply)]
    return body(messages=[{"role": role, "content": content} for role, content in said])


def pictures(number: int, model: str) -> Json:
    return body(model, messages=[{"role": "user", "content": [MORE, *[IMAGE] * number]}])


LIMITS: dict[str, tuple[Json, Json, str, tuple[str, ...]]] = {
    "an open server tool has results alone beside it": (turns([SERVED, READ], [RESULT]),
        turns([SERVED, READ], [RESULT, MORE]),
        "messages.2: while a server tool is unresolved, a user message may hold `tool_result` blocks alone", ()),
    "a resolved one has more": (turns([SERVED, FOUND, READ], [RESULT, MORE]), turns([SERVED], [MORE]),
        "messages.2: while a server tool is unresolved", ()),
    "so many images": (pictures(600, OPUS), pictures(601, OPUS), "messages: too many images: 601 > 600", ()),
    "fewer in a small window": (pictures(100, HAIKU_4_5), pictures(101, HAIKU_4_5),
        "messages: too many images: 101 > 100", ()),
    "images of results count": (turns([READ], [{**RESULT, "content": [IMAGE] * 600}]),
        turns([READ], [{**RESULT, "content": [IMAGE] * 600}, IMAGE]), "messages: too many images", ()),
    "a summary by some models": (body(compaction=WISH), body("claude-haiku-4-5", compaction=WISH),
        "compaction: not supported for this model", (SUMMARIZE,)),
    "a truth value for streaming": (body(), body(stream="no"), "stream: Input should be a valid boolean", ()),
}  # fmt: skip


@pytest.mark.req("M3", "M5", "M6", "C3")
@pytest.mark.parametrize(("good", "bad", "message", "betas"), list(LIMITS.values()), ids=list(LIMITS))
def test_each_rule_between_features(ok: Any, good: Json, bad: Json, message: str, betas: tuple[str, ...]) -> None:
    assert refused(ok, good, bad, *betas).startswith(message)


EDITS = "context-management-2025-06-27"


def edited(*edits: Json) -> Json:
    return said(user("a"), context_management={"edits": list(edits)})


BETAS: dict[str, tuple[str, Json, Json, str]] = {
    "a summary is asked for in the known way": (SUMMARIZE, said(user("a"), compaction={"type": "summarize"}),
        said(user("a"), compaction={"type": "shorten"}), "compaction.type: Input should be 'summarize'"),
    "a summary has no format": (SUMMARIZE, said(user("a"), compaction={"type": "summarize"}),
        said(user("a"), compaction={"type": "summarize"}, output_config={"format": {"type": "json_schema",
            "schema": {"type": "object", "additionalProperties": False}}}),
        "compaction: cannot be combined with `output_config.format`"),
    "edits are a list": (EDITS, edited({"type": "clear_tool_uses_20250919"}),
        said(user("a"), context_management={"edit": []}), "context_management.edits: Field required"),
    "an edit is a known one": (EDITS, edited({"type": "clear_tool_uses_20250919"}),
        edited({"type": "clear_everything"}),
        "context_management.edits.0.type: Input should be 'clear_tool_uses_20250919'"),
    "an edit has known fields": (EDITS, edited({"type": "clear_tool_uses_20250919", "exclude_tools": ["TodoWrite"]}),
        edited({"type": "clear_tool_uses_20250919", "exclude": []}),
        "context_management.edits.0.clear_tool_uses_20250919.exclude: Extra inputs"),
    "an edit measures what it can": (EDITS,
        edited({"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 3}}),
        edited({"type": "clear_tool_uses_20250919", "keep": {"type": "input_tokens", "value": 3}}),
        "context_management.edits.0.clear_tool_uses_20250919.keep.type: Input should be 'tool_uses'"),
    "an edit measures whole numbers": (EDITS,
        edited({"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 9}}),
        edited({"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 0.5}}),
        "context_management.edits.0.clear_tool_uses_20250919.trigger.input_tokens.value: Input should be"),
}  # fmt: skip


@pytest.mark.parametrize(("beta", "good", "bad", "message"), list(BETAS.values()), ids=list(BETAS))
def test_each_rule_of_a_beta(ok: Any, beta: str, good: Json, bad: Json, message: str) -> None:
    assert refused(ok, good, bad, beta).startswith(message)


MARK = {"type": "ephemeral"}
STRICT = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"anyOf": [{"type": "null"}]}}},
    "required": ["a"], "additionalProperties": False,
}  # fmt: skip
WHOLE: dict[str, Any] = {
    "model": "claude-opus-5-5", "max_tokens": 100, "system": [{"type": "text", "text": "s", "cache_control": MARK}],
    "tools": [{"name": "Read", "description": "d", "strict": True, "input_schema": STRICT}],
    "thinking": {"type": "adaptive", "display": "summarized"},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": STRICT}},
    "metadata": {"user_id": "u"},
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "Read", "input": {}}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "x"}]}],
        },
    ],
}  # fmt: skip
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, 0, -1, 1.5, True, "", "x", [], {}, [None], ["x"], [{}], {"type": "x"}, [{"type": 3}], [[]]]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in inner for found in [(*path, key), *places(item, (*path, key))]]


def outcome(asked: dict[str, Any]) -> Any:
    return MessagesService(MODELS, lambda: 0.0).admit(ModelRequest(b"", {}, asked))


def test_the_good_request_is_good() -> None:
    assert not isinstance(outcome(WHOLE), ApiError)


@settings(max_examples=150)
@given(path=st.sampled_from(places(WHOLE)), value=ODD)
def test_one_odd_value_never_breaks_the_server(path: tuple[Any, ...], value: Any) -> None:
    asked = deepcopy(WHOLE)
    target = asked
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    found = outcome(asked)
    assert not isinstance(found, ApiError) or found.status in {400, 404}
