"""The prompt cache: what a request reads and writes, and the resulting usage.

Prefixes of tools, system, and messages are hashed block by block. Entries are written only at markers. A marker looks
back over at most 20 positions for an entry of an earlier request; a run of calls or of results is one position. An
entry is readable once the first answer begins, and its lifetime counts from the start of the request.
https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from bot.testing.model.models import Model
from bot.testing.model.request_view import Json, blocks, canonical, digest, without_cache_mark

BYTES_PER_TOKEN = 3.6
MEDIA_BYTES = 5400
LOOK_BACK = 20
LIFETIME = 300.0  # seconds
RUNS = frozenset({"tool_use", "tool_result"})


@dataclass(frozen=True, slots=True)
class Step:
    """One block of the prompt: hash and byte size of the prefix up to it, its position, and whether it is marked."""

    prefix: str
    size: int
    position: int
    marked: bool

    @property
    def tokens(self) -> int:
        return math.ceil(self.size / BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Accounting:
    """The tokens that one request reads from and writes to the cache. `entries` are hashes of prefixes."""

    input_tokens: int
    read: int
    written: int
    entries: tuple[str, ...]
    started: float

    @property
    def prompt(self) -> int:
        return self.input_tokens + self.read + self.written

    def usage(self) -> Json:
        return {
            "input_tokens": self.input_tokens, "cache_creation_input_tokens": self.written,
            "cache_read_input_tokens": self.read,
            "cache_creation": {"ephemeral_5m_input_tokens": self.written, "ephemeral_1h_input_tokens": 0},
        }  # fmt: skip


def tokens(value: object) -> int:
    return max(1, math.ceil(_size(value, canonical(value)) / BYTES_PER_TOKEN))


def steps(body: Json, model: Model) -> list[Step]:
    prefix, size, position, previous = digest(model.id), 0, 0, ""
    result: list[Step] = []
    for section, block in _prompt(body, model):
        bare = without_cache_mark(block)
        data = canonical(bare)
        prefix = digest(prefix, section, data)
        size += _size(bare, data)
        kind = str(block.get("type"))
        position += not (kind in RUNS and kind == previous)
        previous = kind
        result.append(Step(prefix, size, position, block.get("cache_control") is not None))
    return result


def _prompt(body: Json, model: Model) -> Iterator[tuple[str, Json]]:
    for tool in blocks(body.get("tools")):
        yield "tool", tool
    for block in blocks(body.get("system")):
        yield "system", block
    rendering = canonical(_rendering(body, model)).decode()
    for message in body["messages"]:
        for block in blocks(message["content"]):
            yield f"{rendering} {message['role']}", block


def _rendering(body: Json, model: Model) -> Json:
    config = body.get("output_config") or {}
    thinking = body.get("thinking") or {"type": model.default_thinking}
    return {
        "thinking": [thinking["type"], thinking.get("budget_tokens")],
        "effort": config.get("effort") or model.default_effort, "format": config.get("format"),
        "images": any(block["type"] == "image" for m in body["messages"] for block in blocks(m["content"])),
    }  # fmt: skip


def _size(value: object, data: bytes) -> int:
    media = [len(text) for text in _media(value)] if b'"base64"' in data else []
    return len(data) + sum(MEDIA_BYTES - length for length in media)


def _media(value: object) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _media(item)
    elif isinstance(value, dict) and value.get("type") == "base64":
        yield str(value.get("data", ""))
    elif isinstance(value, dict):
        for item in value.values():
            yield from _media(item)


@dataclass(slots=True)
class PromptCache:
    """The cache entries of one organization. `clock` returns seconds; tests may pass their own."""

    clock: Callable[[], float]
    _entries: dict[str, float] = field(default_factory=dict)

    def account(self, body: Json, model: Model) -> Accounting:
        walked, now = steps(body, model), self.clock()
        marks = [step for step in walked if step.marked and step.tokens >= model.min_cache]
        hits = [hit for mark in marks if (hit := self._look_back(walked, mark, now)) is not None]
        read = max((hit.tokens for hit in hits), default=0)
        end = max((mark.tokens for mark in marks), default=0)
        return Accounting(walked[-1].tokens - end, read, end - read, tuple(mark.prefix for mark in marks), now)

    def begin(self, accounting: Accounting) -> None:
        for prefix in accounting.entries:
            self._keep(prefix, accounting.started)

    def _look_back(self, walked: list[Step], mark: Step, now: float) -> Step | None:
        for step in reversed(walked[: walked.index(mark) + 1]):
            if step.position <= mark.position - LOOK_BACK:
                return None
            if self._entries.get(step.prefix, 0.0) > now:
                self._keep(step.prefix, now)
                return step
        return None

    def _keep(self, prefix: str, start: float) -> None:
        self._entries[prefix] = max(self._entries.get(prefix, 0.0), start + LIFETIME)
