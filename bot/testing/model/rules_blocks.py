"""The rules for single messages and blocks: known roles, types, and fields, and no empty text.

https://platform.claude.com/docs/en/api/messages
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bot.testing.model.rules_context import COMPACT_BETA
from bot.testing.model.subject import Finding, Subject, extra_fields, missing_fields
from bot.testing.model.wire import Json, blocks

MAX_MESSAGES = 100_000

# Block type -> (required fields, allowed fields). The fields of other types are not checked.
FIELDS: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {
    "text": (("text",), frozenset({"type", "text", "cache_control", "citations"})),
    "image": (("source",), frozenset({"type", "source", "cache_control"})),
    "thinking": (("thinking", "signature"), frozenset({"type", "thinking", "signature"})),
    "redacted_thinking": (("data",), frozenset({"type", "data"})),
    "tool_use": (("id", "name", "input"), frozenset({"type", "id", "name", "input", "cache_control", "caller"})),
    "tool_result": (("tool_use_id",), frozenset({"type", "tool_use_id", "content", "is_error", "cache_control"})),
    "compaction": ((), frozenset({"type", "content", "signature", "tool_changes", "cache_control"})),
}
USER = frozenset({"text", "image", "tool_result"})
ASSISTANT = frozenset({"text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "compaction"})
RESULT = frozenset({"text", "image"})
TOOL_USE_ID = re.compile(r"[a-zA-Z0-9_-]+")


def message_shapes(subject: Subject) -> Iterator[Finding]:
    """Check that each message has a known role, non-empty content, and blocks with known types and fields."""
    messages = subject.body.get("messages")
    if not isinstance(messages, list):
        yield "messages: Input should be a valid list"
    elif not messages:
        yield "messages: at least one message is required"
    elif len(messages) > MAX_MESSAGES:
        yield f"messages: List should have at most {MAX_MESSAGES} items"
    else:
        for index, message in enumerate(messages):
            yield from _message(subject, message, index)


def _message(subject: Subject, message: object, index: int) -> Iterator[Finding]:
    place = f"messages.{index}"
    if not isinstance(message, dict):
        yield f"{place}: Input should be an object"
        return
    if message.get("role") not in ("user", "assistant"):
        yield f"{place}.role: Input should be 'user' or 'assistant'"
    yield from extra_fields(message, frozenset({"role", "content"}), f"{place}.")
    yield from missing_fields(message, ("content",), f"{place}.")
    content = message["content"]
    if not isinstance(content, str | list):
        yield f"{place}.content: Input should be a valid list"
    elif not content:
        yield f"{place}: all messages must have non-empty content except for the optional final assistant message"
    elif isinstance(content, list):
        assistant = ASSISTANT if COMPACT_BETA in subject.betas else ASSISTANT - {"compaction"}
        allowed = USER if message["role"] == "user" else assistant
        for position, block in enumerate(content):
            yield from _block(block, allowed, f"{place}.content.{position}")


def _block(block: object, allowed: frozenset[str], place: str) -> Iterator[Finding]:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block, dict) or not isinstance(kind, str):
        yield f"{place}.type: Field required"
        return
    served = "tool_use" in allowed and kind.endswith("_tool_result")
    if kind not in allowed and not served:
        tags = ", ".join(f"'{name}'" for name in sorted(allowed))
        yield f"{place}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}"
    if kind not in FIELDS:
        return
    required, known = FIELDS[kind]
    if kind == "text" and "tool_use" not in allowed:
        # Citations on text outside assistant messages are refused since API version 2026-10-21.
        known -= {"citations"}
    yield from extra_fields(block, known, f"{place}.{kind}.")
    yield from missing_fields(block, required, f"{place}.{kind}.")
    yield from _details(block, f"{place}.{kind}")


def _details(block: Json, place: str) -> Iterator[Finding]:
    match block["type"]:
        case "text" | "thinking" as kind if not isinstance(block[kind], str):
            yield f"{place}.{kind}: Input should be a valid string"
        case "tool_use":
            if not isinstance(block["id"], str) or not TOOL_USE_ID.fullmatch(block["id"]):
                yield f"{place}.id: String should match pattern '^{TOOL_USE_ID.pattern}$'"
            if not isinstance(block["input"], dict):
                yield f"{place}.input: Input should be an object"
        case "tool_result":
            yield from _tool_result(block, place)
        case _:
            pass


def _tool_result(block: Json, place: str) -> Iterator[Finding]:
    content = block.get("content")
    if not isinstance(block["tool_use_id"], str):
        yield f"{place}.tool_use_id: Input should be a valid string"
    if block.get("is_error") and not content:
        yield f"{place}: content cannot be empty if `is_error` is true"
    if content is not None and not isinstance(content, str | list):
        yield f"{place}.content: Input should be a valid list"
    if isinstance(content, list):
        for position, part in enumerate(content):
            yield from _block(part, RESULT, f"{place}.content.{position}")


def text_blocks(subject: Subject) -> Iterator[Finding]:
    """Check that no text block is empty, and that the final assistant message does not end in a blank text block."""
    for position, block in enumerate(blocks(subject.body.get("system"))):
        yield from _empty_text(block, f"system.{position}")
    for index, message in enumerate(subject.messages):
        for position, block in enumerate(blocks(message["content"])):
            yield from _empty_text(block, f"messages.{index}.content.{position}")
            for inner, part in enumerate(blocks(block.get("content")) if block["type"] == "tool_result" else []):
                yield from _empty_text(part, f"messages.{index}.content.{position}.tool_result.content.{inner}")
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
