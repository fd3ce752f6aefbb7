"""The rules for top-level parameters, tools, and schemas."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from bot.testing.model.models import EFFORTS_WITHOUT_THINKING, Model
from bot.testing.model.request_schema import SEARCH, malformed_part
from bot.testing.model.request_view import ApiError, Json, blocks, invalid


@dataclass(frozen=True, slots=True)
class Subject:
    body: Json
    model: Model
    betas: frozenset[str] = frozenset()

    @property
    def thinking(self) -> str:
        thinking = self.body.get("thinking")
        return str(thinking["type"]) if isinstance(thinking, dict) else self.model.default_thinking

    @property
    def effort(self) -> str:
        return str((self.body.get("output_config") or {}).get("effort") or self.model.default_effort)

    @property
    def messages(self) -> list[Json]:
        messages: list[Json] = self.body["messages"]
        return messages


Finding: TypeAlias = str | ApiError
Rule: TypeAlias = Callable[[Subject], Iterator[Finding]]


# --- The subset of JSON Schema that strict tools and structured outputs are compiled from, and its limits ------------
# https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations; the client
# library's `transform_schema` keeps the same subset.

MAX_OPTIONAL = 24
MAX_UNIONS = 16
REFUSED = {
    "string": frozenset({"minLength", "maxLength"}),
    "integer": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "array": frozenset({"maxItems", "uniqueItems"}),
    "object": frozenset({"minProperties", "maxProperties", "patternProperties"}),
}
MAX_MIN_ITEMS = 1


def _schemas(schema: object) -> Iterator[Json]:
    if not isinstance(schema, dict):
        return
    yield schema
    by_name = [schema.get(keyword) for keyword in ("properties", "$defs", "definitions")]
    alternatives = [schema.get(keyword) for keyword in ("anyOf", "oneOf", "allOf")]
    for inner in chain(
        *(v.values() for v in by_name if isinstance(v, dict)), *(v for v in alternatives if isinstance(v, list))
    ):
        yield from _schemas(inner)
    yield from _schemas(schema.get("items"))
    yield from _schemas(schema.get("additionalProperties"))


def well_formed(schema: Json, place: str) -> Iterator[Finding]:
    """Check that every inner schema has properties by name and a list of required names."""
    for inner in _schemas(schema):
        required = inner.get("required", [])
        is_valid = isinstance(required, list) and all(isinstance(name, str) for name in required)
        if not is_valid or not isinstance(inner.get("properties", {}), dict):
            yield f"{place}: JSON schema is invalid. It must match JSON Schema draft 2020-12"


def closed_world(schema: Json, place: str) -> Iterator[Finding]:
    """Check that every object in the schema forbids additional properties."""
    for inner in _schemas(schema):
        if inner.get("type") == "object" and inner.get("additionalProperties") is not False:
            yield f"{place}: For 'object' type, 'additionalProperties' must be explicitly set to false"


def unsupported_keywords(schema: Json, place: str) -> Iterator[Finding]:
    """Check that the schema uses no keyword that the grammar cannot express."""
    for inner in _schemas(schema):
        kind = str(inner.get("type"))
        keywords = sorted(REFUSED.get(kind, frozenset()) & inner.keys())
        if keywords:
            noun = "property" if len(keywords) == 1 else "properties"
            verb = "is" if len(keywords) == 1 else "are"
            yield f"{place}: For '{kind}' type, {noun} {', '.join(keywords)} {verb} not supported"
        if kind == "array" and inner.get("minItems", 0) > MAX_MIN_ITEMS:
            yield f"{place}: For 'array' type, 'minItems' values other than 0 or 1 are not supported"
        if "oneOf" in inner:
            yield f"{place}: Schema type 'oneOf' is not supported"


def complexity(schemas: list[Json]) -> Iterator[Finding]:
    """Check that all strict schemas together stay within the limits on optional and union-typed parameters."""
    every = [inner for schema in schemas for inner in _schemas(schema)]
    optional = sum(len(set(inner.get("properties") or {}) - set(inner.get("required") or [])) for inner in every)
    if optional > MAX_OPTIONAL:
        yield (
            f"Schemas contains too many optional parameters ({optional}), which would make grammar compilation "
            f"inefficient. Reduce the number of optional parameters in your tool schemas (limit: {MAX_OPTIONAL})."
        )
    unions = sum("anyOf" in inner or isinstance(inner.get("type"), list) for inner in every)
    if unions > MAX_UNIONS:
        yield (
            f"Schemas contains too many parameters with union types ({unions} parameters with type arrays or anyOf), "
            "which would cause exponential compilation cost. Reduce the number of nullable or union-typed parameters "
            f"(limit: {MAX_UNIONS} parameters with unions)."
        )


# --- The rules for parameters ----------------------------------------------------------------------------------------

COMPACT_BETA = "compact-2026-09-04"
CLEARING_BETA = "context-management-2025-06-27"
BINDING_BETA = "thinking-binding-controls-2026-08-01"
BETA_FIELDS = {COMPACT_BETA: "compaction", CLEARING_BETA: "context_management"}
"""Beta -> the field that exists only for requests that name it."""
SAMPLING = ("temperature", "top_p", "top_k")
MAX_STRICT = 20
DOMAIN = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+(/\S*)?")


def fields(subject: Subject) -> Iterator[Finding]:
    """Check that the request has its form, with no sampling parameters and no field of a beta that it does not name."""
    # Refused "even at the default" since API version 2026-10-21.
    yield from (f"`{name}` is deprecated for this model." for name in SAMPLING if name in subject.body)
    for beta, name in BETA_FIELDS.items():
        if beta not in subject.betas and name in subject.body:
            yield f"{name}: Extra inputs are not permitted"
    if error := malformed_part(subject.body):
        yield error
    if "@" in str((subject.body.get("metadata") or {}).get("user_id")):
        yield "metadata.user_id: user_id appears to contain an email address"


# https://platform.claude.com/docs/en/build-with-claude/compaction
def compaction(subject: Subject) -> Iterator[Finding]:
    config = subject.body.get("compaction")
    if config is None:
        return
    if subject.body.get("context_management") is not None:
        yield "compaction: cannot be combined with `context_management`"
    if (subject.body.get("output_config") or {}).get("format") is not None:
        yield "compaction: cannot be combined with `output_config.format`"
    if not subject.model.compacts:
        yield "compaction: not supported for this model"
    if any(block["type"] == "tool_use" for block in blocks(subject.messages[-1]["content"])):
        yield invalid("compaction: the last turn has calls without results", code="compaction_incomplete_turn")
    if all(block["type"] == "compaction" for m in subject.messages for block in blocks(m["content"])):
        yield invalid("compaction: there is nothing to summarize", code="compaction_nothing_to_summarize")


# https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use and .../web-search-tool
def tools(subject: Subject) -> Iterator[Finding]:
    declared = subject.body.get("tools") or []
    for index, tool in enumerate(declared):
        if tool.get("type") == SEARCH:
            yield from _web_search(tool, f"tools.{index}.{SEARCH}")
        else:
            yield from _input_schema(tool["input_schema"], f"tools.{index}.custom.input_schema")
    if len({tool["name"] for tool in declared}) < len(declared):
        yield "tools: Tool names must be unique."


def _web_search(tool: Json, place: str) -> Iterator[Finding]:
    if tool.get("allowed_domains") and tool.get("blocked_domains"):
        yield f"{place}: only one of `allowed_domains` and `blocked_domains` may be given"
    for name in ("allowed_domains", "blocked_domains"):
        for domain in tool.get(name) or []:
            if not DOMAIN.fullmatch(domain):
                yield f"{place}.{name}: {domain!r} is not a bare domain"


def _input_schema(schema: Json, place: str) -> Iterator[Finding]:
    if schema.get("type") != "object":
        yield f"{place}.type: Input should be 'object'"
    elif any(schema.get(keyword) for keyword in ("anyOf", "oneOf", "allOf")):
        yield f"{place}: input_schema does not support oneOf, allOf, or anyOf at the top level"
    else:
        yield from well_formed(schema, place)


# https://platform.claude.com/docs/en/agents-and-tools/tool-use/strict-tool-use
def strictness(subject: Subject) -> Iterator[Finding]:
    """Check that the strict schemas and the output format compile to one grammar of limited size."""
    strict = [
        (f"tools.{i}.custom", tool) for i, tool in enumerate(blocks(subject.body.get("tools"))) if tool.get("strict")
    ]
    if len(strict) > MAX_STRICT:
        yield (
            f"Too many strict tools ({len(strict)}). The maximum number of strict tools supported is {MAX_STRICT}. "
            "Try reducing the number of tools marked as strict."
        )
    schemas = [(place, tool["input_schema"]) for place, tool in strict if "input_schema" in tool]
    for place, schema in schemas:
        yield from closed_world(schema, place)
        yield from unsupported_keywords(schema, place)
    form = (subject.body.get("output_config") or {}).get("format")
    if form is not None:
        yield from closed_world(form["schema"], "output_config.format.schema")
        schemas.append(("", form["schema"]))
    yield from complexity([schema for _, schema in schemas])


def max_tokens(subject: Subject) -> Iterator[Finding]:
    value = subject.body["max_tokens"]
    if value > subject.model.max_output:
        yield (
            f"max_tokens: {value} > {subject.model.max_output}, which is the maximum allowed number of output tokens "
            f"for {subject.model.id}"
        )


# https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking
def thinking(subject: Subject) -> Iterator[Finding]:
    """Check that the model supports the form of thinking, and that a budget is below the output cap."""
    config = subject.body.get("thinking") or {}
    form = config.get("type")
    if form == "enabled" and form not in subject.model.thinking:
        yield (
            '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
            '"output_config.effort" to control thinking behavior.'
        )
    if form and form not in subject.model.thinking:
        yield f'"thinking.type.{form}" is not supported for this model.'
    if "block_binding" in config and BINDING_BETA not in subject.betas:
        yield f"thinking.{form}.block_binding: Extra inputs are not permitted"
    if config.get("budget_tokens", 0) >= max(subject.body["max_tokens"], 1):
        yield "`max_tokens` must be greater than `thinking.budget_tokens`."


# https://platform.claude.com/docs/en/build-with-claude/effort
def efforts(subject: Subject) -> Iterator[Finding]:
    """Check that the model has the effort level, and allows it with thinking off if thinking is off."""
    effort, place = (subject.body.get("output_config") or {}).get("effort"), "output_config.effort"
    if effort is not None and not subject.model.efforts:
        yield f"{place}: This model does not support the effort parameter."
    elif effort is not None and effort not in subject.model.efforts:
        levels = ", ".join(subject.model.efforts)
        yield f"{place}: This model does not support effort level '{effort}'. Supported levels: {levels}."
    is_disabled = "thinking" in subject.body and subject.thinking == "disabled"
    off = "adaptive" in subject.model.thinking and is_disabled
    if off and subject.effort not in EFFORTS_WITHOUT_THINKING:
        yield f'"thinking.type.disabled" is not supported with effort "{subject.effort}" for this model.'


# https://platform.claude.com/docs/en/build-with-claude/structured-outputs
def output_format(subject: Subject) -> Iterator[Finding]:
    form = (subject.body.get("output_config") or {}).get("format")
    if form is not None:
        yield from well_formed(form["schema"], "output_config.format.schema")
        yield from unsupported_keywords(form["schema"], "output_config.format.schema")


# https://platform.claude.com/docs/en/build-with-claude/prompt-caching
def prewarm(subject: Subject) -> Iterator[Finding]:
    """Check that a request with max_tokens 0, which only fills the cache, has no stream, format, or budget."""
    body = subject.body
    if body["max_tokens"] != 0:
        return
    refused = {
        "stream": bool(body.get("stream")),
        "output_config.format": (body.get("output_config") or {}).get("format") is not None,
        "thinking.type.enabled": subject.thinking == "enabled",
    }
    for name, present in refused.items():
        if present:
            yield f"max_tokens: 0 is not supported with `{name}`"
