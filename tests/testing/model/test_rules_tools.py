"""Each rule on tools and on cache markers: the good request passes, its bad twin gets the API's 400."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rows import every_row
from tests.testing.model.rules import CLOSED, Json, body, refused, tool

SHORT: Json = {"type": "ephemeral"}


def strict(name: str = "Read", **schema: Any) -> Json:
    return {"name": name, "strict": True, "input_schema": {**CLOSED, **schema}}


def prop(**schema: Any) -> Json:
    return {"properties": {"x": schema}, "required": ["x"]}


def fields(count: int, **schema: Any) -> Json:
    return {f"p{number}": schema for number in range(count)}


def marked(*markers: Json | None) -> list[Json]:
    blocks: list[Json] = [{"type": "text", "text": "a"} for _ in markers]
    for block, marker in zip(blocks, markers, strict=True):
        if marker is not None:
            block["cache_control"] = marker
    return [{"role": "user", "content": blocks}]


def thinking(form: str, **more: Any) -> Json:
    return {"type": form, **more}


def called(**more: Any) -> list[Json]:
    result = {"type": "tool_result", "tool_use_id": "a", **more}
    call = {"type": "tool_use", "id": "a", "name": "Read", "input": {}}
    return [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]


OPEN = "tools.0.custom: For 'object' type, 'additionalProperties' must be explicitly set to false"

SEARCH: Json = {"type": "web_search_20250305", "name": "web_search"}

TOOLS: dict[str, tuple[Json, Json, str]] = {
    "a search has known fields": (
        body(tools=[{**SEARCH, "max_uses": 2, "allowed_domains": ["docs.python.org/3"]}]),
        body(tools=[{**SEARCH, "query": "x"}]),
        "tools.0.web_search_20250305.query: Extra inputs are not permitted",
    ),
    "a search has its name": (
        body(tools=[SEARCH]),
        body(tools=[{**SEARCH, "name": "WebSearch"}]),
        "tools.0.web_search_20250305.name: Input should be 'web_search'",
    ),
    "a search may be used": (
        body(tools=[{**SEARCH, "max_uses": 1}]),
        body(tools=[{**SEARCH, "max_uses": 0}]),
        "tools.0.web_search_20250305.max_uses: Input should be greater than 0",
    ),
    "a search has one list of domains": (
        body(tools=[{**SEARCH, "blocked_domains": ["a.com"], "allowed_domains": []}]),
        body(tools=[{**SEARCH, "blocked_domains": ["a.com"], "allowed_domains": ["b.com"]}]),
        "tools.0.web_search_20250305: only one of",
    ),
    "domains of a search are bare": (
        body(tools=[{**SEARCH, "allowed_domains": ["a.com"]}]),
        body(tools=[{**SEARCH, "allowed_domains": ["https://a.com"]}]),
        "tools.0.web_search_20250305.allowed_domains: 'https://a.com' is not a bare domain",
    ),
    "known fields": (
        body(tools=[tool(description="d")]),
        body(tools=[tool(read_only=True)]),
        "tools.0.custom.read_only: Extra inputs are not permitted",
    ),
    "tools are a list": (body(tools=[tool()]), body(tools={}), "tools: Input should be a valid list"),
    "a tool is an object": (body(tools=[tool()]), body(tools=["Read"]), "tools.0.custom: Input should be an object"),
    "a schema is an object": (
        body(tools=[tool()]),
        body(tools=[tool(input_schema="object")]),
        "tools.0.custom.input_schema: Input should be an object",
    ),
    "a schema is a JSON schema": (
        body(tools=[tool(input_schema={"type": "object", "properties": {"x": {}}, "required": ["x"]})]),
        body(tools=[tool(input_schema={"type": "object", "properties": {"x": {}}, "required": True})]),
        "tools.0.custom.input_schema: JSON schema is invalid.",
    ),
    "a description is text": (
        body(tools=[tool(description="d")]),
        body(tools=[tool(description=["d"])]),
        "tools.0.custom.description: Input should be a valid string",
    ),
    "strict schemas have no oneOf": (
        body(tools=[strict(**prop(anyOf=[{"type": "string"}, {"type": "null"}]))]),
        body(tools=[strict(**prop(oneOf=[{"type": "string"}, {"type": "null"}]))]),
        "tools.0.custom: Schema type 'oneOf' is not supported",
    ),
    "a tool has a name": (body(tools=[tool()]), body(tools=[{"input_schema": {}}]), "tools.0.custom.name: Field requi"),
    "a tool has a schema": (
        body(tools=[tool()]),
        body(tools=[{"name": "x"}]),
        "tools.0.custom.input_schema: Field required",
    ),
    "plain names": (
        body(tools=[tool("mcp__a-b__" + "c" * 54)]),
        body(tools=[tool("mcp__a-b__" + "c" * 55)]),
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'",
    ),
    "unique names": (
        body(tools=[tool("A"), tool("B")]),
        body(tools=[tool("A"), tool("A")]),
        "tools: Tool names must be unique.",
    ),
    "inputs are objects": (
        body(tools=[tool()]),
        body(tools=[{"name": "x", "input_schema": {"type": "array"}}]),
        "tools.0.custom.input_schema.type: Input should be 'object'",
    ),
    "no alternatives at the top": (
        body(tools=[tool()]),
        body(tools=[tool(input_schema={"type": "object", "anyOf": [{"type": "object"}]})]),
        "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
    ),
    "known served tools": (
        body(tools=[SEARCH]),
        body(tools=[{"type": "web_search", "name": "web_search"}]),
        "tools.0: Input tag 'web_search' found using 'type'",
    ),
    "twenty strict tools": (
        body(tools=[strict(f"t{n}") for n in range(20)]),
        body(tools=[strict(f"t{n}") for n in range(21)]),
        "Too many strict tools (21). The maximum number of strict tools supported is 20.",
    ),
    "strict objects are closed": (body(tools=[strict()]), body(tools=[strict(additionalProperties=True)]), OPEN),
    "strict objects are closed inside": (
        body(tools=[strict(**prop(type="array", items=CLOSED))]),
        body(tools=[strict(**prop(type="array", items={"type": "object"}))]),
        OPEN,
    ),
    "strict text has no length": (
        body(tools=[strict(**prop(type="string")), tool("B", input_schema={"type": "object", **prop(maxLength=3)})]),
        body(tools=[strict(**prop(type="string", maxLength=3))]),
        "tools.0.custom: For 'string' type, property maxLength is not supported",
    ),
    "strict lists have one item at least": (
        body(tools=[strict(**prop(type="array", items={"type": "string"}, minItems=1))]),
        body(tools=[strict(**prop(type="array", items={"type": "string"}, minItems=2))]),
        "tools.0.custom: For 'array' type, 'minItems' values other than 0 or 1 are not supported",
    ),
    "24 optional parameters in all": (
        body(tools=[strict("A", properties=fields(12)), strict("B", properties=fields(12))]),
        body(tools=[strict("A", properties=fields(12)), strict("B", properties=fields(13))]),
        "Schemas contains too many optional parameters (25), which would make grammar compilation inefficient.",
    ),
    "16 unions in all": (
        body(
            tools=[strict(properties=fields(16, anyOf=[{"type": "string"}, {"type": "null"}]), required=[*fields(16)])]
        ),
        body(tools=[strict(properties=fields(17, type=["string", "null"]), required=[*fields(17)])]),
        "Schemas contains too many parameters with union types (17 parameters with type arrays or anyOf)",
    ),
}

MARKERS: dict[str, tuple[Json, Json, str]] = {
    "four markers": (
        body(messages=marked(SHORT, SHORT, SHORT, SHORT)),
        body(messages=marked(SHORT, SHORT, SHORT, SHORT, SHORT)),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "markers on tools and system count": (
        body(tools=[tool(cache_control=SHORT)], messages=marked(SHORT, SHORT, SHORT)),
        body(
            tools=[tool(cache_control=SHORT)],
            system=[{"type": "text", "text": "s", "cache_control": SHORT}],
            messages=marked(SHORT, SHORT, SHORT),
        ),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "one kind of marker": (
        body(messages=marked(SHORT)),
        body(messages=marked({"type": "lasting"})),
        "messages.0.content.0.text.cache_control.type: Input should be 'ephemeral'",
    ),
    "known marker fields": (
        body(messages=marked(SHORT)),
        body(messages=marked({"type": "ephemeral", "scope": "all"})),
        "messages.0.content.0.text.cache_control.ephemeral.scope: Extra inputs are not permitted",
    ),
    "not on thinking": (
        body(messages=marked(SHORT)),
        body(
            messages=[
                {"role": "user", "content": "a"},
                {
                    "role": "assistant",
                    "content": [{"type": "thinking", "thinking": "", "signature": "", "cache_control": SHORT}],
                },
                {"role": "user", "content": "b"},
            ]
        ),
        "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
    ),
    "not on empty text": (
        body(messages=marked(SHORT)),
        body(messages=[{"role": "user", "content": [{"type": "text", "text": "", "cache_control": SHORT}]}]),
        "messages.0.content.0.text.cache_control: cache_control cannot be set for empty text blocks",
    ),
    "not inside of a result": (
        body(messages=called(content=[{"type": "text", "text": "x"}], cache_control=SHORT)),
        body(messages=called(content=[{"type": "text", "text": "x", "cache_control": SHORT}])),
        "messages.2.content.0.tool_result.content.0.cache_control: cache_control cannot be set on sub-blocks",
    ),
}


@every_row(("good", "bad", "message"), list(TOOLS.values()))
@pytest.mark.req("M5")
def test_tool(ok: Any, good: Json, bad: Json, message: str) -> None:
    assert refused(ok, good, bad).startswith(message)


@every_row(("good", "bad", "message"), list(MARKERS.values()))
@pytest.mark.req("M4")
def test_marker(ok: Any, good: Json, bad: Json, message: str) -> None:
    assert refused(ok, good, bad).startswith(message)
