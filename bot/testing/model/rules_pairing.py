"""The rules for tool_use and tool_result: each call has one result, directly after it and before any text.

https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from bot.testing.model.subject import Finding, Subject
from bot.testing.model.wire import Json, blocks


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
