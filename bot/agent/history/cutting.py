"""Cuts a history for compaction: where it may be cut, its size in tokens, and what a new history keeps (C1, C3).

A turn is an assistant message and everything that answers it. Cutting between turns never separates a call from its
result.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from bot.core.brief import escape_harness_markup
from bot.core.transcript import THINKING, Json, encode_json, result_text

BYTES_PER_TOKEN: Final = 3
"""A low estimate, so that a history is overestimated rather than underestimated."""
MEDIA_BYTES: Final = 14_400
"""Size that an image counts as, whatever its number of bytes: the most tokens that one can have, 4,784.

https://platform.claude.com/docs/en/build-with-claude/vision
"""
MOST_IMAGES: Final = 20
"""Most images in a history. With more in one request, the service accepts only smaller images and refuses the rest."""
IMAGE_BYTES: Final = 20_000_000
"""Most bytes of base64 of all images together: a request of 32 MB is refused (facts: Messages API, limits)."""
MOST_KEPT: Final = 3
"""Most turns that stay as they are."""
LONGEST_SUMMARY: Final = 40_000
"""In characters."""
NO_PICTURE: Final = "[a picture that the model's service cannot process; you cannot see it]"
CUT: Final = "\n[the rest was cut to make room; ask for less at once]"


def tokens(value: Any) -> int:
    """Return an estimate of the tokens of messages or parts of them."""
    return _size(value) // BYTES_PER_TOKEN


def messages_since_answer(history: Sequence[Json]) -> Sequence[Json]:
    """Return the messages appended since the last answer, whose usage does not count them yet."""
    start = len(history)
    while start and history[start - 1]["role"] != "assistant":
        start -= 1
    return history[start:]


def cut_point(history: Sequence[Json], room: int) -> int | None:
    """Return the index where the kept turns begin: the last turn, and those before it that fit into `room` tokens.

    Returns None if no assistant message follows a user message.
    """
    starts = [
        index
        for index in range(1, len(history))
        if history[index]["role"] == "assistant" and history[index - 1]["role"] == "user"
    ]
    chosen = starts[-1:]
    for start in reversed(starts[:-1]):
        if len(chosen) == MOST_KEPT or tokens(history[start:]) > room:
            break
        chosen.append(start)
    return chosen[-1] if chosen else None


def summary_block(summary: str) -> Json:
    """Return a text block that gives the model the summary of the history that it replaces."""
    quoted = escape_harness_markup(summary.strip()[:LONGEST_SUMMARY])
    text = f"Summary of the conversation so far, which is not sent any more:\n{quoted}"
    return {"type": "text", "text": text}


def images(messages: Iterable[Json]) -> Iterator[Json]:
    """Yield the images of tool results, and of messages themselves."""
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block.get("type") == "image":
                yield block
            parts = block.get("content")
            yield from (part for part in parts if part.get("type") == "image") if isinstance(parts, list) else ()


def picture_digest(image: Json) -> str:
    """Return a digest of a picture's content. Its place in the history does not matter."""
    return hashlib.sha256(encode_json(image["source"])).hexdigest()[:16]


def without_pictures(message: Json, digests: Collection[str]) -> Json:
    """Return a message with a note for each picture that has one of these digests; the same object if none has."""
    if isinstance(message["content"], str) or not any(picture_digest(image) in digests for image in images([message])):
        return message
    return {**message, "content": [_without_pictures(block, digests) for block in message["content"]]}


def _without_pictures(block: Json, digests: Collection[str]) -> Json:
    if block.get("type") == "image":
        return {"type": "text", "text": NO_PICTURE} if picture_digest(block) in digests else block
    return without_pictures(block, digests) if isinstance(block.get("content"), list) else block


def room_for(blocks: Sequence[Json], others: Iterable[Json]) -> int:
    """Return how many of these images, counted from the first, fit into a history with the images `others`."""
    sizes = [_data_size(image) for image in others]
    count, size = len(sizes), sum(sizes)
    for number, block in enumerate(blocks):
        count, size = count + 1, size + _data_size(block)
        if count > MOST_IMAGES or size > IMAGE_BYTES:
            return number
    return len(blocks)


def _data_size(image: Json) -> int:
    return len(image["source"].get("data", ""))


def cut_to_fit(turns: Sequence[Json], room: int) -> list[Json]:
    """Cut the results of the last message to fit into `room` tokens. No thinking is bound to them yet (C2)."""
    last = turns[-1]
    if last["role"] != "user" or isinstance(last["content"], str) or tokens(last) <= room:
        return list(turns)
    results = sum(block.get("type") == "tool_result" for block in last["content"])
    share = room * BYTES_PER_TOKEN // max(results, 1)
    return [*turns[:-1], {**last, "content": [_cut_result(block, share) for block in last["content"]]}]


def without_thinking(message: Json) -> Json:
    """Return a message without thinking, which is bound to what came before; the same object if it has none."""
    content = message["content"]
    blocks = content if isinstance(content, str) else [block for block in content if block.get("type") not in THINKING]
    return message if len(blocks) == len(content) else {**message, "content": blocks}


def turns_without_thinking(turns: Sequence[Json]) -> list[Json]:
    """Return turns without thinking. Returns [] if a message would become empty, which the service refuses."""
    bare = list(map(without_thinking, turns))
    return bare if all(message["content"] for message in bare) else []


def _cut_result(block: Json, size: int) -> Json:
    if block.get("type") != "tool_result" or _size(block) <= size:
        return block
    text = result_text(block).encode()[:size].decode(errors="ignore")
    return {**block, "content": text + CUT}


def _size(value: Any) -> int:
    match value:
        case str():
            return len(value.encode())
        case {"type": "base64"}:
            return MEDIA_BYTES
        case dict():
            return sum(len(key) + 6 + _size(inner) for key, inner in value.items())
        case list() | tuple():
            return sum(_size(inner) + 2 for inner in value)
        case _:
            return 4
