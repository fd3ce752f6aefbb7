"""Finds what the API would refuse in a request, with the API's own wording and place.

A rule is a generator of findings over a Subject. The first finding of the first rule that has one is the answer. Rules
run on requests that have their form (request_schema.py), and each may rely on what earlier rules have checked.
https://platform.claude.com/docs/en/api/messages
"""

import base64
from collections.abc import Collection, Iterator, Mapping
from itertools import takewhile

from bot.testing.model.models import MODELS, Model
from bot.testing.model.request_schema import SERVED, block_type
from bot.testing.model.request_view import ApiError, Json, blocks, invalid
from bot.testing.model.rules_parameters import (
    COMPACT_BETA,
    Finding,
    Rule,
    Subject,
    compaction,
    efforts,
    fields,
    max_tokens,
    output_format,
    prewarm,
    strictness,
    thinking,
    tools,
)

USER = frozenset({"text", "image", "tool_result"})
ASSISTANT = frozenset({"text", "thinking", "redacted_thinking", "tool_use", SERVED, "compaction"})


def _blocks_by_place(messages: list[Json]) -> Iterator[tuple[str, Json]]:
    for index, message in enumerate(messages):
        yield from ((f"messages.{index}.content.{at}", block) for at, block in enumerate(blocks(message["content"])))


def _parts(place: str, block: Json) -> Iterator[tuple[str, Json]]:
    inner = blocks(block.get("content")) if block["type"] == "tool_result" else []
    yield from ((f"{place}.tool_result.content.{at}", part) for at, part in enumerate(inner))


def message_blocks(subject: Subject) -> Iterator[Finding]:
    """Check that each message has content, and only blocks that its role may send."""
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
    """Check for at most four markers, on whole blocks."""
    content = (block for _, block in _blocks_by_place(subject.messages))
    every = [*blocks(subject.body.get("tools")), *blocks(subject.body.get("system")), *content]
    for place, block in _blocks_by_place(subject.messages):
        for inner, part in _parts(place, block):
            if part.get("cache_control") is not None:
                yield f"{inner}.cache_control: cache_control cannot be set on sub-blocks"
    number = sum(block.get("cache_control") is not None for block in every)
    if number > MAX_MARKERS:
        yield f"A maximum of {MAX_MARKERS} blocks with cache_control may be provided. Found {number}."


# --- Order of messages, and calls and results: each call has one result, directly after it ---------------------------
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


def images(subject: Subject) -> Iterator[Finding]:
    """Check that a request has no more images than the model accepts.

    https://platform.claude.com/docs/en/build-with-claude/vision
    """
    parts = [block for _, block in _blocks_by_place(subject.messages)]
    parts += [part for block in parts for _, part in _parts("", block)]
    number = sum(block.get("type") == "image" for block in parts)
    if any(block.get("type") == "image" and _is_cut(block["source"]) for block in parts):
        yield "Could not process image"
    most = MAX_IMAGES if subject.model.window > SMALL_WINDOW else MAX_IMAGES_SMALL
    if number > most:
        yield f"messages: too many images: {number} > {most} maximum"


def _is_cut(source: Json) -> bool:
    data = base64.b64decode(source.get("data", ""))
    return data.startswith(b"\x89PNG") and b"IEND" not in data


def pairing(subject: Subject) -> Iterator[Finding]:
    """Check that call ids are unique, that their results start the next message, and that no result lacks a call."""
    yield from _unique_calls(subject.messages)
    calls: list[str] = []
    for index, message in enumerate(subject.messages):
        if message["role"] == "user":
            yield from _results(message, index, calls)
            yield from _alone(subject.messages, index)
        calls = _calls(message)
        yield from _check_answered(subject, index, calls)


def _calls(message: Json) -> list[str]:
    if message["role"] != "assistant":
        return []
    return [block["id"] for block in blocks(message["content"]) if block["type"] == "tool_use"]


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
    """Check that a user message holds only results while a server tool call is unanswered."""
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


BEARER = "bearer"
"""The feature that a server lacks if it requires the key in the header x-api-key."""
RULES: tuple[Rule, ...] = (
    fields, message_blocks, max_tokens, thinking, efforts, tools, output_format, strictness, first_message,
    text_blocks, images, compaction, pairing, last_message, cache_markers, prewarm,
)  # fmt: skip


def violations(
    body: Json, *, betas: frozenset[str] = frozenset(), models: Mapping[str, Model] = MODELS
) -> ApiError | None:
    """Return the error that the API answers a request body with, or None if it accepts the request."""
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

    Compatible servers and proxies are such. `lacks` names what is missing as requests do: a beta, a field
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
    """Yield each field of a body with its place as errors name it."""
    for name, value in body.items():
        yield name, name
        if isinstance(value, dict):
            tag = f".{value['type']}" if "type" in value else ""
            yield from ((f"{name}.{inner}", f"{name}{tag}.{inner}") for inner in value)
    for index, tool in enumerate(blocks(body.get("tools"))):
        yield from ((f"tools.{inner}", f"tools.{index}.custom.{inner}") for inner in tool)
