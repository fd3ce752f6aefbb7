"""What the API does with one request, apart from HTTP: admit or refuse it, answer it, and total the usage."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bot.testing.model.binding import Mismatch, mismatches, summary_error
from bot.testing.model.cache import PromptCache
from bot.testing.model.model_answer import Admitted, ModelAnswer, compose
from bot.testing.model.models import Model, cost_usd
from bot.testing.model.reply import Reply
from bot.testing.model.request_view import ModelRequest
from bot.testing.model.rules import violations
from bot.testing.model.rules_parameters import BINDING_BETA
from bot.testing.model.wire import ApiError, Json, invalid

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
        """Return the totals with one more answer."""
        sums = {name: getattr(self, name) + sum(bill.get(name, 0) for bill in bills) for name in COUNTED}
        return Totals(self.requests + 1, cost_usd=self.cost_usd + cost, **sums)


@dataclass(slots=True)
class MessagesService:
    """The state of one simulated API. Only the server's thread uses it."""

    models: Mapping[str, Model]
    clock: Callable[[], float]
    totals: Totals = field(default_factory=Totals)
    cache: PromptCache = field(init=False)

    def __post_init__(self) -> None:
        self.cache = PromptCache(self.clock)

    def admit(self, request: ModelRequest) -> Admitted | ApiError:
        """Return the request as the model gets it, or the error that refuses it."""
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
        """Return the answer to an admitted request. It begins now, so its cache writes become readable."""
        self.cache.begin(admitted.accounting)
        answer = compose(reply, admitted, serial=self.totals.requests)
        usage = answer.message["usage"]
        bills = usage.get("iterations") or [usage]
        cost = sum(cost_usd(admitted.model.id, bill, models=self.models) for bill in bills)
        self.totals = self.totals.plus(bills, cost)
        return answer


def parse_request(raw: bytes, headers: Mapping[str, str]) -> ModelRequest | ApiError:
    """Return the request in a body, or the error if it is invalid. Any key is accepted."""
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
