"""Finds what the API would refuse in a request, with the API's own wording and place.

A rule is a generator of findings over a Subject. The first finding of the first rule that has one is the answer. Rules
run on requests that have their form (request_schema.py), and each may rely on what earlier rules have checked.
https://platform.claude.com/docs/en/api/messages
"""

import base64
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import TypeAlias

from bot.testing.model.models import EFFORTS_WITHOUT_THINKING, MODELS, Model
from bot.testing.model.request_schema import SEARCH, SERVED, block_type, malformed_part
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


# The subset of JSON Schema that strict tools and structured outputs are compiled from, and its limits.
# https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations; the client library's
# `transform_schema` keeps the same subset.

MAX_OPTIONAL = 24
MAX_UNIONS = 16
REFUSED = {
    "string": frozenset({"minLength", "maxLength"}),
    "integer": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "array": frozenset({"maxItems", "uniqueItems"}),
    "object": frozenset({"minProperties", "maxProperties", "patternProperties"}),
}  # fmt: skip
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
    for inner in _schemas(schema):
        required = inner.get("required", [])
        is_valid = isinstance(required, list) and all(isinstance(name, str) for name in required)
        if not is_valid or not isinstance(inner.get("properties", {}), dict):
            yield f"{place}: JSON schema is invalid. It must match JSON Schema draft 2020-12"


def closed_world(schema: Json, place: str) -> Iterator[Finding]:
    for inner in _schemas(schema):
        if inner.get("type") == "object" and inner.get("additionalProperties") is not False:
            yield f"{place}: For 'object' type, 'additionalProperties' must be explicitly set to false"


def unsupported_keywords(schema: Json, place: str) -> Iterator[Finding]:
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


COMPACT_BETA = "compact-2026-09-04"
CLEARING_BETA = "context-management-2025-06-27"
BINDING_BETA = "thinking-binding-controls-2026-08-01"
BETA_FIELDS = {COMPACT_BETA: "compaction", CLEARING_BETA: "context_management"}
"""Beta -> the field that exists only for requests that name it."""
SAMPLING = ("temperature", "top_p", "top_k")
MAX_STRICT = 20
DOMAIN = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+(/\S*)?")


def fields(subject: Subject) -> Iterator[Finding]:
    """Check that the request has its form, no sampling parameter, and no field of a beta that it does not name."""
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
    }  # fmt: skip
    for name, present in refused.items():
        if present:
            yield f"max_tokens: 0 is not supported with `{name}`"


USER = frozenset({"text", "image", "tool_result"})
ASSISTANT = frozenset({"text", "thinking", "redacted_thinking", "tool_use", SERVED, "compaction"})


def _blocks_by_place(messages: list[Json]) -> Iterator[tuple[str, Json]]:
    for index, message in enumerate(messages):
        yield from ((f"messages.{index}.content.{at}", block) for at, block in enumerate(blocks(message["content"])))


def _parts(place: str, block: Json) -> Iterator[tuple[str, Json]]:
    inner = blocks(block.get("content")) if block["type"] == "tool_result" else []
    yield from ((f"{place}.tool_result.content.{at}", part) for at, part in enumerate(inner))


def message_blocks(subject: Subject) -> Iterator[Finding]:
    if not subject.messages:
        yield "messages: at least one message is required"
    for index, message in enumerate(subject.messages):
        is_user = message["role"] == "user"
        allowed = USER if is_user else ASSISTANT - ({"compaction"} if COMPACT_BETA not in subject.betas else set())
        if not message["content"]:
            place = f"messages.{index}"
            yield f"{place}: all messages must have non-empty content except for the optional final assistant message"
        for position, block in enumerate(blocks(message["content"])):
            place = f"messages.{index}.content.{position}"
            if block_type(block) not in allowed:
                tags = ", ".join(f"'{name}'" for name in sorted(allowed))
                found = f"Input tag '{block['type']}' found using 'type'"
                yield f"{place}: {found} does not match any of the expected tags: {tags}"
            if is_user and "citations" in block:
                # Citations on text outside assistant messages are refused since API version 2026-10-21.
                yield f"{place}.text.citations: Extra inputs are not permitted"
            if block["type"] == "tool_result" and block.get("is_error") and not block.get("content"):
                yield f"{place}.tool_result: content cannot be empty if `is_error` is true"


def text_blocks(subject: Subject) -> Iterator[Finding]:
    """Check that no text block is empty, and that the final assistant message does not end in a blank text block."""
    for position, block in enumerate(blocks(subject.body.get("system"))):
        yield from _empty_text(block, f"system.{position}")
    for place, block in _blocks_by_place(subject.messages):
        yield from _empty_text(block, place)
        for inner, part in _parts(place, block):
            yield from _empty_text(part, inner)
    yield from _final_assistant_text(subject.messages)


def _empty_text(block: Json, place: str) -> Iterator[Finding]:
    if block.get("type") == "text" and not block.get("text"):
        marked = block.get("cache_control") is not None
        yield (
            f"{place}.text.cache_control: cache_control cannot be set for empty text blocks"
            if marked
            else f"{place}: text content blocks must be non-empty"
        )


def _final_assistant_text(messages: list[Json]) -> Iterator[Finding]:
    index = next((i for i in reversed(range(len(messages))) if messages[i]["role"] == "assistant"), None)
    if index is None:
        return
    content = blocks(messages[index]["content"])
    if content and content[-1]["type"] == "text" and not content[-1]["text"].strip():
        yield f"messages.{index}.content.{len(content) - 1}: text content blocks must contain non-whitespace text"


# https://platform.claude.com/docs/en/build-with-claude/prompt-caching
MAX_MARKERS = 4


def cache_markers(subject: Subject) -> Iterator[Finding]:
    content = (block for _, block in _blocks_by_place(subject.messages))
    every = [*blocks(subject.body.get("tools")), *blocks(subject.body.get("system")), *content]
    for place, block in _blocks_by_place(subject.messages):
        for inner, part in _parts(place, block):
            if part.get("cache_control") is not None:
                yield f"{inner}.cache_control: cache_control cannot be set on sub-blocks"
    number = sum(block.get("cache_control") is not None for block in every)
    if number > MAX_MARKERS:
        yield f"A maximum of {MAX_MARKERS} blocks with cache_control may be provided. Found {number}."


# Order of messages, and calls and results: each call has one result, directly after it.
# https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls

SMALL_WINDOW = 200_000
MAX_IMAGES = 600
MAX_IMAGES_SMALL = 100


def first_message(subject: Subject) -> Iterator[Finding]:
    """Check that the first message is the user's, or an assistant's that starts with a compaction block."""
    first = subject.messages[0]
    begins = blocks(first["content"])[:1]
    compacted = first["role"] == "assistant" and [block["type"] for block in begins] == ["compaction"]
    if first["role"] == "assistant" and not compacted:
        yield 'messages: first message must use the "user" role'


def last_message(subject: Subject) -> Iterator[Finding]:
    """Check that the last turn is the user's, unless a paused turn continues or a summary is requested."""
    last = subject.messages[-1]
    if last["role"] != "assistant" or subject.body.get("compaction") is not None:
        return
    if not any(block["type"] == "server_tool_use" for block in blocks(last["content"])):
        yield "This model does not support assistant message prefill. The conversation must end with a user message."


# https://platform.claude.com/docs/en/build-with-claude/vision
def images(subject: Subject) -> Iterator[Finding]:
    parts = [block for _, block in _blocks_by_place(subject.messages)]
    parts += [part for block in parts for _, part in _parts("", block)]
    data = [base64.b64decode(block["source"].get("data", "")) for block in parts if block.get("type") == "image"]
    if any(each.startswith(b"\x89PNG") and b"IEND" not in each for each in data):
        yield "Could not process image"
    most = MAX_IMAGES if subject.model.window > SMALL_WINDOW else MAX_IMAGES_SMALL
    if len(data) > most:
        yield f"messages: too many images: {len(data)} > {most} maximum"


def pairing(subject: Subject) -> Iterator[Finding]:
    """Check that call ids are unique, that their results start the next message, and that no result lacks a call."""
    yield from _unique_calls(subject.messages)
    calls: list[str] = []
    for index, message in enumerate(subject.messages):
        if message["role"] == "user":
            yield from _results(message, index, calls)
            yield from _alone(subject.messages, index)
        content = blocks(message["content"]) if message["role"] == "assistant" else []
        calls = [block["id"] for block in content if block["type"] == "tool_use"]
        yield from _check_answered(subject, index, calls)


def _unique_calls(messages: list[Json]) -> Iterator[Finding]:
    seen: set[str] = set()
    for place, block in _blocks_by_place(messages):
        if block["type"] == "tool_use" and block["id"] in seen:
            yield f"{place}: `tool_use` ids must be unique"
        seen |= {block["id"]} if block["type"] == "tool_use" else set()


def _results(message: Json, index: int, calls: list[str]) -> Iterator[Finding]:
    seen: set[str] = set()
    for position, block in enumerate(blocks(message["content"])):
        if block["type"] != "tool_result":
            continue
        place, call_id = f"messages.{index}.content.{position}", block["tool_use_id"]
        if call_id not in calls:
            yield (
                f"{place}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each `tool_result` block "
                "must have a corresponding `tool_use` block in the previous message."
            )
        if call_id in seen:
            yield (
                f"{place}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: "
                f"{call_id}"
            )
        seen.add(call_id)


def _alone(messages: list[Json], index: int) -> Iterator[Finding]:
    previous = blocks(messages[index - 1]["content"]) if index else []
    served = {block.get("id") for block in previous if block["type"] == "server_tool_use"}
    served -= {block.get("tool_use_id") for block in previous if str(block["type"]).endswith("_tool_result")}
    others = [block["type"] for block in blocks(messages[index]["content"]) if block["type"] != "tool_result"]
    if served and others:
        yield (
            f"messages.{index}: while a server tool is unresolved, a user message may hold `tool_result` blocks alone, "
            f"found `{others[0]}`"
        )


def _check_answered(subject: Subject, index: int, calls: list[str]) -> Iterator[Finding]:
    following = subject.messages[index + 1] if index + 1 < len(subject.messages) else {"role": "", "content": ""}
    content = blocks(following["content"]) if following["role"] == "user" else []
    # A result after a text does not count, because results must come first.
    leading = takewhile(lambda block: block["type"] == "tool_result", content)
    answered = {block["tool_use_id"] for block in leading}
    missing = [call_id for call_id in calls if call_id not in answered]
    if missing:
        yield (
            f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
            "message."
        )


BEARER = "bearer"  # the feature that a server lacks if it requires the key in the header x-api-key
RULES: tuple[Rule, ...] = (
    fields, message_blocks, max_tokens, thinking, efforts, tools, output_format, strictness, first_message,
    text_blocks, images, compaction, pairing, last_message, cache_markers, prewarm,
)  # fmt: skip


def violations(
    body: Json, *, betas: frozenset[str] = frozenset(), models: Mapping[str, Model] = MODELS
) -> ApiError | None:
    name = body.get("model")
    if not isinstance(name, str):
        return invalid("model: Field required")
    if name not in models:
        return ApiError(404, f"model: {name}")
    subject = Subject(body, models[name], betas)
    for rule in RULES:
        for finding in rule(subject):
            return finding if isinstance(finding, ApiError) else invalid(finding)
    return None


def unknown_part(headers: Mapping[str, str], body: Json, lacks: Collection[str]) -> ApiError | None:
    """Return the error for the first part of a request that a server with fewer features does not support, or None.

    Such servers are compatible ones and proxies. `lacks` names the missing features as requests do: a beta, a field
    (`output_config`, `output_config.effort`, `tools.strict`), or `bearer`.
    """
    if BEARER in lacks and not headers.get("x-api-key"):
        return ApiError(401, "x-api-key header is required")
    for beta in headers.get("anthropic-beta", "").split(","):
        if beta.strip() in lacks:
            # The service's wording; https://platform.claude.com/docs/en/api/beta-headers
            return invalid(f"Unexpected value(s) `{beta.strip()}` for the `anthropic-beta` header.")
    extra = next((place for name, place in _fields(body) if name in lacks), None)
    return invalid(f"{extra}: Extra inputs are not permitted") if extra else None


def _fields(body: Json) -> Iterator[tuple[str, str]]:
    for name, value in body.items():
        yield name, name
        if isinstance(value, dict):
            tag = f".{value['type']}" if "type" in value else ""
            yield from ((f"{name}.{inner}", f"{name}{tag}.{inner}") for inner in value)
    for index, tool in enumerate(blocks(body.get("tools"))):
        yield from ((f"tools.{inner}", f"tools.{index}.custom.{inner}") for inner in tool)
