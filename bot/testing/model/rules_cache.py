"""The rules for cache markers: their number, their form, and their places.

https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from __future__ import annotations

from collections.abc import Iterator

from bot.testing.model.subject import Finding, Subject, extra_fields
from bot.testing.model.wire import Json, blocks

MAX_MARKERS = 4


def cache_markers(subject: Subject) -> Iterator[Finding]:
    """Check for at most four well-formed markers, on whole blocks."""
    marked = [(place, block["cache_control"]) for place, block in _blocks_in_order(subject.body) if _is_marked(block)]
    for place, marker in marked:
        if not isinstance(marker, dict) or marker.get("type") != "ephemeral":
            yield f"{place}.cache_control.type: Input should be 'ephemeral'"
        else:
            yield from extra_fields(marker, frozenset({"type"}), f"{place}.cache_control.ephemeral.")
    yield from _nested_marks(subject.messages)
    if len(marked) > MAX_MARKERS:
        yield f"A maximum of {MAX_MARKERS} blocks with cache_control may be provided. Found {len(marked)}."


def _is_marked(block: Json) -> bool:
    return block.get("cache_control") is not None


def _blocks_in_order(body: Json) -> Iterator[tuple[str, Json]]:
    """Yield every block of the prompt with its place."""
    for name in ("tools", "system"):
        yield from ((f"{name}.{index}", block) for index, block in enumerate(blocks(body.get(name))))
    for index, message in enumerate(body["messages"]):
        for position, block in enumerate(blocks(message["content"])):
            yield f"messages.{index}.content.{position}", block


def _nested_marks(messages: list[Json]) -> Iterator[Finding]:
    for index, message in enumerate(messages):
        for position, block in enumerate(blocks(message["content"])):
            parts = blocks(block.get("content")) if block["type"] == "tool_result" else []
            for inner, part in enumerate(parts):
                if _is_marked(part):
                    yield (
                        f"messages.{index}.content.{position}.tool_result.content.{inner}.cache_control: "
                        "cache_control cannot be set on sub-blocks"
                    )
