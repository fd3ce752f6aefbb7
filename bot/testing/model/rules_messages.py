"""The rules for the order of messages, and for calls and results: each call has one result, directly after it.

https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import takewhile

from bot.testing.model.subject import Finding, Subject
from bot.testing.model.wire import Json, blocks

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
    parts = [block for message in subject.messages for block in blocks(message["content"])]
    parts += [part for block in parts if block["type"] == "tool_result" for part in blocks(block.get("content"))]
    number = sum(block.get("type") == "image" for block in parts)
    if any(block.get("type") == "image" and _is_cut(block["source"]) for block in parts):
        yield "Could not process image"
    most = MAX_IMAGES if subject.model.window > SMALL_WINDOW else MAX_IMAGES_SMALL
    if number > most:
        yield f"messages: too many images: {number} > {most} maximum"


def _is_cut(source: Json) -> bool:
    """Return whether a picture is a PNG without its end."""
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
    for index, message in enumerate(messages):
        for position, block in enumerate(blocks(message["content"])):
            if block["type"] == "tool_use" and block["id"] in seen:
                yield f"messages.{index}.content.{position}: `tool_use` ids must be unique"
            if block["type"] == "tool_use":
                seen.add(block["id"])


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
