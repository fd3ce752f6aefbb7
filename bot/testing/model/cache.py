"""The prompt cache: what a request reads and writes, and the resulting usage.

Prefixes of tools, system, and messages are hashed block by block. Entries are written only at markers. Each marker
looks back over at most 20 positions for an entry of an earlier request; a run of calls or of results is one position.
An entry is readable once the first answer begins, and its lifetime counts from the start of the request.
https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from bot.testing.model.models import Model
from bot.testing.model.rules_cache import ttl
from bot.testing.model.wire import THINKING, Json, blocks, canonical, digest, without_cache_mark

BYTES_PER_TOKEN = 3.6
MEDIA_BYTES = 5400
LOOK_BACK = 20
SECONDS = {"5m": 300.0, "1h": 3600.0}
RUNS = frozenset({"tool_use", "tool_result"})


@dataclass(frozen=True, slots=True)
class Step:
    """One block of the prompt: the hash and byte size of the prefix up to it, its position, and its marker's ttl."""

    prefix: str
    size: int
    position: int
    ttl: str | None

    @property
    def tokens(self) -> int:
        """The size of the whole prefix in tokens."""
        return math.ceil(self.size / BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Accounting:
    """The tokens that one request reads from and writes to the cache. `entries` are prefix hashes with their ttl."""

    input_tokens: int
    read: int
    written: Mapping[str, int]
    entries: tuple[tuple[str, str], ...]
    started: float

    @property
    def prompt(self) -> int:
        """The size of the whole prompt in tokens."""
        return self.input_tokens + self.read + sum(self.written.values())

    def usage(self) -> Json:
        """Return the input side of a response's `usage`."""
        return {
            "input_tokens": self.input_tokens,
            "cache_creation_input_tokens": sum(self.written.values()),
            "cache_read_input_tokens": self.read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.written["5m"],
                "ephemeral_1h_input_tokens": self.written["1h"],
            },
        }


def tokens(value: object) -> int:
    """Return the estimated tokens of a JSON value, at least one."""
    return max(1, math.ceil(_size(value, canonical(value)) / BYTES_PER_TOKEN))


def steps(body: Json, model: Model) -> list[Step]:
    """Return the prompt of a request, block by block, as the cache sees it."""
    prompt = list(_prompt(body, model))
    last = max((index for index, (_, block) in enumerate(prompt) if block.get("type") not in THINKING), default=-1)
    prefix, size, position, previous = digest(model.id), 0, 0, ""
    result: list[Step] = []
    for index, (section, block) in enumerate(prompt):
        bare = without_cache_mark(block)
        data = canonical(bare)
        prefix = digest(prefix, section, data)
        size += _size(bare, data)
        kind = str(block.get("type"))
        position += not (kind in RUNS and kind == previous)
        previous = kind
        marker = block.get("cache_control") or (body.get("cache_control") if index == last else None)
        result.append(Step(prefix, size, position, ttl(marker) if marker is not None else None))
    return result


def _prompt(body: Json, model: Model) -> Iterator[tuple[str, Json]]:
    """Yield each block with everything besides its bytes that must match for a cache hit."""
    for tool in blocks(body.get("tools")):
        yield "tool", tool
    for block in blocks(body.get("system")):
        yield f"system {body.get('speed')}", block
    rendering = canonical(_rendering(body, model)).decode()
    for message in body["messages"]:
        for block in blocks(message["content"]):
            yield f"{rendering} {message['role']}", block


def _rendering(body: Json, model: Model) -> Json:
    config = body.get("output_config") or {}
    thinking = body.get("thinking") or {"type": model.default_thinking}
    return {
        "thinking": [thinking["type"], thinking.get("budget_tokens")],
        "effort": config.get("effort") or model.default_effort,
        "format": config.get("format"),
        "tool_choice": body.get("tool_choice") or {"type": "auto"},
        "images": any(block["type"] == "image" for m in body["messages"] for block in blocks(m["content"])),
    }


def _size(value: object, data: bytes) -> int:
    """Return the bytes of a value's JSON, `data`. An image or a document has a fixed size, whatever its content."""
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
    _entries: dict[str, tuple[float, str]] = field(default_factory=dict)

    def account(self, body: Json, model: Model) -> Accounting:
        """Return what this request reads and would write now. Hits are renewed now; `begin` stores the writes."""
        walked, now = steps(body, model), self.clock()
        marks = [step for step in walked if step.ttl is not None and step.tokens >= model.min_cache]
        hits = [hit for mark in marks if (hit := self._look_back(walked, mark, now)) is not None]
        read = max((hit.tokens for hit in hits), default=0)
        fresh = [mark for mark in marks if mark.tokens > read]
        edges = [read, *(mark.tokens for mark in fresh)]
        written = {"5m": 0, "1h": 0}
        for mark, (before, after) in zip(fresh, pairwise(edges), strict=True):
            written[str(mark.ttl)] += after - before
        entries = tuple((mark.prefix, str(mark.ttl)) for mark in marks)
        return Accounting(walked[-1].tokens - edges[-1], read, written, entries, now)

    def begin(self, accounting: Accounting) -> None:
        """Begin the answer: from now on, later requests can read what this request writes."""
        for prefix, lifetime in accounting.entries:
            self._keep(prefix, lifetime, accounting.started)

    def _look_back(self, walked: list[Step], mark: Step, now: float) -> Step | None:
        for step in reversed(walked[: walked.index(mark) + 1]):
            if step.position <= mark.position - LOOK_BACK:
                return None
            expires, lifetime = self._entries.get(step.prefix, (0.0, ""))
            if lifetime and expires > now:
                self._keep(step.prefix, lifetime, now)
                return step
        return None

    def _keep(self, prefix: str, lifetime: str, start: float) -> None:
        expires = self._entries.get(prefix, (0.0, ""))[0]
        self._entries[prefix] = (max(expires, start + SECONDS[lifetime]), lifetime)
