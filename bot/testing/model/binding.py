"""Preserved thinking: sign each thinking block, and check the blocks that come back.

A block is bound to the system prompt, the tools, and all earlier messages (without cache markers), and to the thinking
block before it. A request may omit thinking from the start, from the end, or entirely, but never from the middle. The
signature contains what it binds, so the server stores nothing and a restarted server decides the same way.
https://platform.claude.com/docs/en/build-with-claude/preserved-thinking
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property

from bot.testing.model.models import Model
from bot.testing.model.request_view import (
    THINKING,
    ApiError,
    Json,
    blocks,
    canonical,
    digest,
    invalid,
    without_cache_mark,
)

_KEY = b"simulated messages api"
_DROP_HINT = (
    "The block is bound to a different conversation. Remove the block, or set `thinking.block_binding."
    'prefix_mismatch_behavior` to "drop_block". That setting requires the `thinking-binding-controls-2026-08-01` '
    "value in the `anthropic-beta` header."
)
_MODIFIED = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must "
    "remain as they were in the original response."
)


@dataclass(frozen=True, slots=True)
class Seal:
    model: str
    system: str
    tools: str
    messages: str
    previous: str

    def sign(self, text: str) -> str:
        payload = base64.b64encode(json.dumps(asdict(self)).encode()).decode()
        return f"{payload}.{_mac(payload, text)}"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A thinking block that the API rejects: its place, the cause, and the reason code of the drop report."""

    message: int
    block: int
    why: str
    reason: str = "prefix_binding_mismatch"
    droppable: bool = True
    is_latest: bool = False

    @property
    def place(self) -> str:
        return f"messages.{self.message}.content.{self.block}"

    def error(self) -> ApiError:
        if self.is_latest and not self.droppable:
            return invalid(f"{self.place}: {_MODIFIED}")
        hint = f" {_DROP_HINT} {self.why}" if self.droppable else ""
        return invalid(f"{self.place}: Invalid `signature` in `thinking` block.{hint}")


def open_seal(signature: object, text: str) -> Seal | None:
    payload, _, mac = str(signature).partition(".")
    if not mac or not hmac.compare_digest(mac, _mac(payload, text)):
        return None
    return Seal(**json.loads(base64.b64decode(payload)))


def _mac(payload: str, text: str) -> str:
    return hmac.new(_KEY, f"{payload}.{text}".encode(), hashlib.sha256).hexdigest()


def seal(body: Json, model: Model) -> Seal:
    state = _Walk(body, model)
    for _ in state.thinking():
        pass
    return state.seal()


def mismatches(body: Json, model: Model) -> Iterator[Mismatch]:
    """Yield every thinking block of a request that this model rejects, in order.

    Blocks of another model are skipped: the API drops those that it cannot read, and bills nothing for them.
    """
    state, first = _Walk(body, model), True
    for index, position, block in state.thinking():
        if block["type"] != "thinking":
            continue
        seal = open_seal(block["signature"], block["thinking"])
        if seal is None:
            is_last = all(message["role"] == "user" for message in body["messages"][index + 1 :])
            yield Mismatch(index, position, "", droppable=False, is_latest=is_last and bool(block["signature"]))
        elif seal.model == model.id and model.preserved_thinking:
            why = _difference(seal, state.seal(), first=first)
            if why:
                yield Mismatch(index, position, why)
        first = False


def summary_error(body: Json, model: Model) -> ApiError | None:
    """Return the error for a signed compaction block that was edited or is not first, or None if there is none.

    No source describes a model that reads compaction blocks but cannot create them; here it refuses them.
    """
    for index, message in enumerate(body["messages"]):
        for position, block in enumerate(blocks(message["content"])):
            if block["type"] != "compaction" or block.get("signature") is None:
                continue
            place = f"messages.{index}.content.{position}"
            if (index, position) != (0, 0):
                return invalid(f"{place}: a compaction block comes first", code="compaction_block_misplaced")
            if not model.compacts:
                return invalid(f"{place}: a signed compaction block is not supported for this model")
            if open_seal(block["signature"], str(block.get("content"))) is None:
                return invalid(f"{place}: Invalid `signature` in compaction", code="compaction_signature_invalid")
    return None


def _difference(signed: Seal, now: Seal, *, first: bool) -> str:
    if signed.system != now.system:
        return "The `system` prompt differs from the one this block was created with."
    if signed.tools != now.tools:
        return "The `tools` differ from the ones this block was created with."
    if signed.messages != now.messages:
        return "The messages before it differ from the ones this block was created with."
    if signed.previous != now.previous and not first:
        return "The `thinking` block that preceded this one when it was created is missing from this request."
    return ""


class _Walk:
    def __init__(self, body: Json, model: Model) -> None:
        self._body, self._model = body, model
        self._messages = ""
        self._unbound: list[Json] = []
        """The messages since the last seal. No block is bound to them until another seal is requested."""
        self._previous = ""

    def seal(self) -> Seal:
        for message in self._unbound:
            self._messages = digest(self._messages, canonical(message))
        self._unbound.clear()
        return Seal(self._model.id, self._system, self._tools, self._messages, self._previous)

    @cached_property
    def _system(self) -> str:
        return digest(canonical([without_cache_mark(block) for block in blocks(self._body.get("system"))]))

    @cached_property
    def _tools(self) -> str:
        return digest(*sorted(canonical(without_cache_mark(tool)) for tool in blocks(self._body.get("tools"))))

    def thinking(self) -> Iterator[tuple[int, int, Json]]:
        for index, message in enumerate(self._body["messages"]):
            content = blocks(message["content"])
            for position, block in enumerate(content):
                if block["type"] in THINKING:
                    yield index, position, block
                    self._previous = digest(str(block.get("signature", "")))
            self._pass(message, content)

    def _pass(self, message: Json, content: list[Json]) -> None:
        if content and content[0]["type"] == "compaction":
            # A summary replaces the messages before it, and later blocks are bound to those messages.
            summarized = open_seal(content[0].get("signature"), str(content[0].get("content")))
            if summarized is not None:
                self._messages, self._previous = summarized.messages, summarized.previous
                self._unbound.clear()
                return
        rest = [without_cache_mark(block) for block in content if block["type"] not in THINKING]
        self._unbound.append({**message, "content": rest})
