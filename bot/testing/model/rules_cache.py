"""The rules for cache markers: their number, places, and order of lifetimes.

https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from __future__ import annotations

from collections.abc import Iterator

from bot.testing.model.subject import Finding, Subject
from bot.testing.model.wire import THINKING, Json, blocks

MAX_MARKERS = 4


def automatic_target(body: Json) -> Json | None:
    """Return the block that a top-level cache_control marks: the last one that can carry a marker."""
    candidates = [block for _, block in marked_places(body, every=True)]
    return next((block for block in reversed(candidates) if block.get("type") not in THINKING), None)


def marked_places(body: Json, *, every: bool = False) -> Iterator[tuple[str, Json]]:
    """Yield the blocks that carry a marker, or every block, with their places, in the order of the prompt."""
    for index, tool in enumerate(blocks(body.get("tools"))):
        if every or tool.get("cache_control") is not None:
            yield f"tools.{index}", tool
    for index, block in enumerate(blocks(body.get("system"))):
        if every or block.get("cache_control") is not None:
            yield f"system.{index}", block
    for index, message in enumerate(body["messages"]):
        for position, block in enumerate(blocks(message["content"])):
            if every or block.get("cache_control") is not None:
                yield f"messages.{index}.content.{position}", block


def ttl(marker: Json) -> str:
    """Return the lifetime that a marker asks for."""
    return str(marker.get("ttl") or "5m")


def cache_markers(subject: Subject) -> Iterator[Finding]:
    """Check for at most four well-formed markers, on whole blocks, longer lifetimes before shorter ones."""
    marked = [(place, block["cache_control"]) for place, block in marked_places(subject.body)]
    automatic = subject.body.get("cache_control")
    everywhere = marked if automatic is None else [*marked, ("", automatic)]
    for place, marker in everywhere:
        yield from _marker(marker, f"{place}.cache_control".lstrip("."))
    yield from _nested_marks(subject.messages)
    target = automatic_target(subject.body) if automatic is not None else None
    explicit = target.get("cache_control") if target is not None else None
    if automatic is not None and explicit is not None and ttl(explicit) != ttl(automatic):
        yield "cache_control: the last cacheable block already has a cache_control with a different ttl"
    count = len(everywhere) - (explicit is not None)
    if count > MAX_MARKERS:
        yield f"A maximum of {MAX_MARKERS} blocks with cache_control may be provided. Found {count}."
    yield from _order(everywhere)


def _marker(marker: object, place: str) -> Iterator[Finding]:
    if not isinstance(marker, dict) or marker.get("type") != "ephemeral":
        yield f"{place}.type: Input should be 'ephemeral'"
    elif ttl(marker) not in {"5m", "1h"}:
        yield f"{place}.ttl: Input should be '5m' or '1h'"


def _nested_marks(messages: list[Json]) -> Iterator[Finding]:
    for index, message in enumerate(messages):
        for position, block in enumerate(blocks(message["content"])):
            parts = blocks(block.get("content")) if block["type"] == "tool_result" else []
            for inner, part in enumerate(parts):
                if part.get("cache_control") is not None:
                    yield (
                        f"messages.{index}.content.{position}.tool_result.content.{inner}.cache_control: "
                        "cache_control cannot be set on sub-blocks"
                    )


def _order(marked: list[tuple[str, Json]]) -> Iterator[Finding]:
    short = False
    for place, marker in marked:
        if short and ttl(marker) == "1h":
            yield (
                f"{place}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' "
                "cache_control block. Note that blocks are processed in the following order: `tools`, `system`, "
                "`messages`."
            ).lstrip(".")
        short = short or ttl(marker) == "5m"
