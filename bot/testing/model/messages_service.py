"""The service behind the API, apart from HTTP: admits or refuses a request, answers it, and totals the usage.

An answer gets its ids, its usage, and signatures on its thinking, which is omitted if the request asks for that. What
exceeds max_tokens or the window is cut.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from bot.testing.model.binding import Mismatch, mismatches, seal, summary_error
from bot.testing.model.cache import BYTES_PER_TOKEN, Accounting, PromptCache, tokens
from bot.testing.model.models import Model, cost_usd
from bot.testing.model.reply import Block, Call, Reply, Text, Thought, Verbatim
from bot.testing.model.request_view import ApiError, Json, ModelRequest, canonical, digest, invalid
from bot.testing.model.rules import BINDING_BETA, Subject, violations


@dataclass(frozen=True, slots=True)
class Admitted:
    body: Json
    model: Model
    accounting: Accounting
    transformations: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A complete message. `malformed` maps a block's index to the tool input to stream instead of its JSON."""

    message: Json
    malformed: Mapping[int, str]


def compose(reply: Reply, admitted: Admitted, *, serial: int) -> ModelAnswer:
    if admitted.body.get("compaction") is not None:
        return ModelAnswer(_compaction_block(reply, admitted, serial), {})
    thinks = Subject(admitted.body, admitted.model).thinking != "disabled"
    blocks = tuple(block for block in reply.blocks if thinks or not isinstance(block, Thought))
    kept, cut = _within_limits(blocks, admitted)
    conversation = canonical(admitted.body["messages"])
    content = list(_content(kept, admitted, digest(conversation)))
    thinking = sum(_tokens(block) for block in kept if isinstance(block, Thought))
    usage: Json = {
        **admitted.accounting.usage(), "output_tokens": sum(_tokens(block) for block in kept),
        "output_tokens_details": {"thinking_tokens": thinking}, "service_tier": "standard",
        **_server_tool_usage(content), **reply.usage,
    }  # fmt: skip
    reason = cut or reply.stop_reason or ("tool_use" if any(isinstance(b, Call) for b in kept) else "end_turn")
    message = _message(content, reason, usage, admitted=admitted, ident=digest(str(serial), conversation))
    if reason == reply.stop_reason:
        message["stop_details"] = reply.stop_details
    return ModelAnswer(message, {i: b.malformed for i, b in enumerate(kept) if isinstance(b, Call) and b.malformed})


def _server_tool_usage(content: list[Json]) -> Json:
    searches = sum(block.get("type") == "server_tool_use" and block["name"] == "web_search" for block in content)
    return {"server_tool_use": {"web_search_requests": searches, "web_fetch_requests": 0}} if searches else {}


def _message(content: list[Json], reason: str, usage: Json, *, admitted: Admitted, ident: str) -> Json:
    body = admitted.body
    message: Json = {
        "id": f"msg_{ident[:24]}", "type": "message", "role": "assistant", "model": admitted.model.id,
        "content": content, "stop_reason": reason, "stop_sequence": None, "stop_details": None, "usage": usage,
    }  # fmt: skip
    if body.get("context_management") is not None:
        message["context_management"] = {"applied_edits": []}
    if admitted.transformations:
        message["input_transformations"] = list(admitted.transformations)
    return message


def _content(kept: tuple[Block, ...], admitted: Admitted, conversation: str) -> Iterator[Json]:
    bound = None
    for index, block in enumerate(kept):
        match block:
            case Text(text):
                yield {"type": "text", "text": text}
            case Thought(text, whole):
                visible = text if _shows(admitted) else ""
                bound = bound or seal(admitted.body, admitted.model)
                signature = bound.sign(visible) if whole else ""
                bound = replace(bound, previous=digest(signature))  # the next block is bound to this signature
                yield {"type": "thinking", "thinking": visible, "signature": signature}
            case Call(name, arguments):
                call_id = f"toolu_{digest(conversation, str(index))[:24]}"
                direct = {"type": "direct"}
                yield {"type": "tool_use", "id": call_id, "name": name, "input": dict(arguments), "caller": direct}
            case Verbatim(raw):
                yield raw
            case _:
                assert_never(block)


def _shows(admitted: Admitted) -> bool:
    config = admitted.body.get("thinking") or {}
    display = config.get("display") or ("summarized" if admitted.model.shows_thinking else "omitted")
    return display != "omitted"


def _within_limits(blocks: tuple[Block, ...], admitted: Admitted) -> tuple[tuple[Block, ...], str | None]:
    """Return the blocks that fit into the output, the last one cut, and the stop reason if one was cut."""
    window = admitted.model.window - admitted.accounting.prompt
    limit = min(admitted.body["max_tokens"], window)
    reason = "max_tokens" if limit < window else "model_context_window_exceeded"
    kept: list[Block] = []
    for block in blocks:
        if _tokens(block) > limit:
            return (*kept, *_cut_at_limit(block, limit)), reason
        limit -= _tokens(block)
        kept.append(block)
    return tuple(kept), None


def _cut_at_limit(block: Block, limit: int) -> tuple[Block, ...]:
    match block:
        case Text(text):
            start = _start(text, limit)
            return (Text(start),) if start.strip() else ()
        case Call(name, arguments):
            # A stream sends the start of the input and closes the block; an unstreamed answer contains none of it.
            return (Call(name, {}, malformed=_start(json.dumps(dict(arguments)), limit)),)
        case Thought(text):
            return (Thought(_start(text, limit), whole=False),)
        case Verbatim():
            return ()
        case _:
            assert_never(block)


def _start(text: str, limit: int) -> str:
    return text.encode()[: int(limit * BYTES_PER_TOKEN)].decode(errors="ignore")


def _tokens(block: Block) -> int:
    match block:
        case Text(text) | Thought(text):
            return max(1, math.ceil(len(text.encode()) / BYTES_PER_TOKEN))
        case Call(name, arguments):
            return tokens([name, dict(arguments)])
        case Verbatim(raw):
            return tokens(raw)
        case _:
            assert_never(block)


def _compaction_block(reply: Reply, admitted: Admitted, serial: int) -> Json:
    summary = "\n".join(block.text for block in reply.blocks if isinstance(block, Text))
    signature = seal(admitted.body, admitted.model).sign(summary)
    block = {"type": "compaction", "content": summary, "signature": signature, "tool_changes": []}
    # The top-level counts exclude the summary's own call, so the bill is the sum over the iterations.
    iteration = {**admitted.accounting.usage(), "output_tokens": tokens(summary), **reply.usage, "type": "compaction"}
    usage = {"input_tokens": 0, "output_tokens": 0, "iterations": [iteration], "service_tier": "standard"}
    ident = digest(str(serial), canonical(admitted.body["messages"]))
    return _message([block], "compaction", usage, admitted=admitted, ident=ident)


MAX_BYTES = 32 * 1024 * 1024
COUNTED = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


@dataclass(frozen=True, slots=True)
class Totals:
    """The usage of all answers of a server in tokens, and their cost in US dollars. Iterations are summed."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    cost_usd: float = 0.0

    def plus(self, bills: list[Json], cost: float) -> Totals:
        sums = {name: getattr(self, name) + sum(bill.get(name, 0) for bill in bills) for name in COUNTED}
        return Totals(self.requests + 1, cost_usd=self.cost_usd + cost, **sums)


@dataclass(slots=True)
class MessagesService:
    models: Mapping[str, Model]
    clock: Callable[[], float]
    totals: Totals = field(default_factory=Totals)
    cache: PromptCache = field(init=False)

    def __post_init__(self) -> None:
        self.cache = PromptCache(self.clock)

    def admit(self, request: ModelRequest) -> Admitted | ApiError:
        refusal = violations(request.body, betas=request.betas, models=self.models)
        if refusal is not None:
            return refusal
        model = self.models[request.model]
        if (refusal := summary_error(request.body, model)) is not None:
            return refusal
        conflicts = list(mismatches(request.body, model))
        refused = next((m for m in conflicts if not (m.droppable and _drops(request))), None)
        if refused is not None:
            return refused.error()
        body = _without(request.body, conflicts)
        accounting = self.cache.account(body, model)
        if accounting.prompt > model.window:
            return invalid(f"prompt is too long: {accounting.prompt} tokens > {model.window} maximum")
        dropped = tuple({"type": "thinking_dropped", "path": m.place, "reason": m.reason} for m in conflicts)
        return Admitted(body, model, accounting, dropped)

    def answer(self, reply: Reply, admitted: Admitted) -> ModelAnswer:
        self.cache.begin(admitted.accounting)
        answer = compose(reply, admitted, serial=self.totals.requests)
        usage = answer.message["usage"]
        bills = usage.get("iterations") or [usage]
        cost = sum(cost_usd(admitted.model.id, bill, models=self.models) for bill in bills)
        self.totals = self.totals.plus(bills, cost)
        return answer


def parse_request(raw: bytes, headers: Mapping[str, str]) -> ModelRequest | ApiError:
    if not headers.get("x-api-key") and not headers.get("authorization", "").startswith("Bearer "):
        return ApiError(401, "x-api-key header is required")
    if "anthropic-version" not in headers:
        return invalid("anthropic-version: header is required")
    if len(raw) > MAX_BYTES:
        return ApiError(413, "Request exceeds the maximum size")
    try:
        body = json.loads(raw)
    except ValueError as error:
        return invalid(f"The request body is not valid JSON: {error}")
    return ModelRequest(raw, headers, body) if isinstance(body, dict) else invalid("The request body is not an object")


def _drops(request: ModelRequest) -> bool:
    binding = (request.body.get("thinking") or {}).get("block_binding") or {}
    return BINDING_BETA in request.betas and binding.get("prefix_mismatch_behavior") == "drop_block"


def _without(body: Json, dropped: list[Mismatch]) -> Json:
    if not dropped:
        return body
    gone = {(mismatch.message, mismatch.block) for mismatch in dropped}
    messages = [
        message
        if isinstance(message["content"], str)
        else {**message, "content": [block for j, block in enumerate(message["content"]) if (i, j) not in gone]}
        for i, message in enumerate(body["messages"])
    ]
    return {**body, "messages": messages}
