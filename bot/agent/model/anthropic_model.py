"""AnthropicModel: the Model port over the anthropic library, with our own retries (M7-M9, L4).

The library runs with max_retries=0: it would honor any Retry-After without a cap, and never retries a stream that
breaks in the middle. An answer counts only after message_stop. A broken answer is dropped whole and requested again,
the first time without streaming.
"""

import asyncio
import logging
import math
import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from bot.agent.model.answer import (
    MalformedAnswer,
    StreamedAnswer,
    assistant_message,
    parse_object,
    reading,
    refusal,
    usage_of,
)
from bot.agent.model.connection import (
    Connection,
    OutgoingCall,
    WorkloadIdentity,
    direct_connection,
    identity_failure,
    report_silence,
)
from bot.agent.model.failures import (
    LONGEST,
    LONGEST_WAIT,
    CallFailure,
    ErrorEvent,
    Feature,
    refused_features,
    status_failure,
    unsupported_abilities,
    view_without_refused,
    without_features,
)
from bot.agent.model.request import COMPACTION, parameters
from bot.agent.model.specs import ModelSpec, cost_usd, merge_listing, resolve
from bot.agent.session_events import iterate_within
from bot.core.errors import PlangateError
from bot.core.markdown.elements import shorten_line
from bot.core.transcript import Json
from bot.ports import Abilities, AnswerCompleted, AnswerStarted, Clock, ModelEvent, ModelRequest, Notice, Replay

_log: Final = logging.getLogger(__name__)

NON_STREAMING_CAP: Final = 21_333
"""Most output tokens for which the library accepts a request that does not stream."""
DESCRIBING_SECONDS: Final = 5.0
"""Seconds that the server may take to describe a model; after that the request is sent without the description."""
CLOSING_SECONDS: Final = 0.5
"""Seconds to wait for a stream's end after message_stop; its connection is reused only if it was read to the end."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to wait and how often to try; times in seconds."""

    tries: int = 8
    overloads: int = 3
    """Overloaded answers in a row before the fallback model takes over (L4)."""
    silence: float = 90.0
    """A stream without an event for this long is abandoned (pings count); the first event may take twice as long."""
    report_silence_after: float = 30.0
    """Silence of this length is reported to the user."""
    quiet: float = 300.0
    """A stream with only pings for this long is abandoned too."""
    total: float = 1800.0
    longest_wait: float = LONGEST_WAIT


@dataclass(slots=True)
class AnthropicModel:
    """Client of any server of the Messages API; one instance serves many sessions."""

    clock: Clock
    api_key: str
    base_url: str | None = None
    output_cap: int | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    patience: RetryPolicy = RetryPolicy()
    identity: WorkloadIdentity | None = None
    """The workload identity to use if there is no key."""
    specs: dict[str, ModelSpec] = field(default_factory=dict)
    """What the service reported about models; takes precedence over the built-in table (M12)."""
    connection: Connection | None = None
    """Where requests go; None for Anthropic's API, or a compatible server, at `base_url`."""
    missing: list[Feature] = field(default_factory=list)
    """The features that the endpoint has refused; no later request uses them."""
    _telling: asyncio.Lock = field(default_factory=asyncio.Lock)
    _connection: Connection = field(init=False)

    def __post_init__(self) -> None:
        direct = direct_connection(self.api_key, self.base_url, self.identity, self.patience.silence)
        self._connection = self.connection or direct

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Yield one answer as it arrives (see `bot.ports.Model`). A Notice voids the part that came before it."""
        tries = _Tries(request, await self._load_spec(request.model), streaming=request.streams)
        while True:
            answer, call = StreamedAnswer(), self._call(tries)
            try:
                attempt = self._attempt(call, tries.spec, answer)
                async with aclosing(iterate_within(attempt, self.patience.total)) as events:
                    async for event in events:
                        yield event
                return
            except Exception as error:  # noqa: BLE001 - classified; an error that is not a failed call is raised again
                failure = _classify(error)
            void = self._partial_answer(answer, tries.spec)
            notice = self._adapt(tries, call, failure) or await self._plan_retry(tries, failure)
            if notice is None:
                if void:
                    yield Notice("void", "the answer broke off; the part that arrived is billed", void=void)
                raise failure.as_error()
            yield replace(notice, void=void)
            if tries.wait is not None:
                await self.clock.sleep(tries.wait)

    async def check_model(self, name: str) -> str:
        """Look up a model by alias or id on the server and return its id; raises Transient or Refused with the cure."""
        lacks_summaries = any(feature.beta == COMPACTION for feature in self.missing)
        requested_id, betas = self.spec(name).id, () if lacks_summaries else (COMPACTION,)
        try:
            listing = await self._connection.model(requested_id, betas)
        except Exception as error:
            failure = _classify(error)
            if self._refuse(failure, refused_features(failure, {}, betas)):
                return await self.check_model(name)
            raise failure.as_error() from error
        served_id = str(listing.get("id") or requested_id)
        for ident in {requested_id, served_id}:
            self.specs[ident] = merge_listing(self.spec(ident), listing)
        return served_id

    def spec(self, name: str) -> ModelSpec:
        spec = resolve(name)
        return without_features(self.specs.get(spec.id, spec), self.missing)

    async def _load_spec(self, name: str) -> ModelSpec:
        """Return the spec of a model, updated by the service's description, which is requested once (M12).

        Without a description, the built-in table stands. Concurrent callers wait: a session that started with the table
        would change its tools at its second request.
        """
        async with self._telling:
            spec = self.spec(name)
            if spec.id not in self.specs:
                self.specs[spec.id] = spec
                with suppress(PlangateError, TimeoutError):
                    async with asyncio.timeout(DESCRIBING_SECONDS):
                        await self.check_model(name)
        return self.spec(name)

    async def close(self) -> None:
        await self._connection.close()

    def warm(self) -> None:
        """Import the library and make the client now; call it in a thread, alongside other preparations."""
        self._connection.open()

    def abilities(self, model: str) -> Abilities:
        spec = self.spec(model)
        dear = spec.prices and (spec.prices.above or spec.prices)
        prices = (max(dear.input, dear.write) / 1e6, dear.output / 1e6) if dear else (0.0, 0.0)
        return Abilities(spec.window, spec.summarizes, spec.thinking == "adaptive", *prices, spec.reads_images, spec.id)

    def _wait(self, failure: CallFailure, failures: int) -> float:
        """Return the seconds until the next try: what the server asks for (capped), else longer each time."""
        if failure.retry_after is not None:
            return min(failure.retry_after, self.patience.longest_wait)
        jitter = random.uniform(0, 0.5)  # clients that failed together do not return together
        return min(0.5 * 2.0 ** (failures - 1) + jitter, self.patience.longest_wait / 2)

    def _call(self, tries: "_Tries") -> OutgoingCall:
        cap = self.output_cap if tries.streaming else min(self.output_cap or NON_STREAMING_CAP, NON_STREAMING_CAP)
        fields = parameters(tries.request, tries.spec, cap=cap, extra=self.extra_body)
        betas = fields.pop("extra_headers", {}).get("anthropic-beta", "")
        fields |= fields.pop("extra_body", {})
        if tries.streaming:
            fields["stream"] = True
        return OutgoingCall(fields, tuple(betas.split(",")) if betas else (), tries.request)

    def _adapt(self, tries: "_Tries", call: OutgoingCall, failure: CallFailure) -> Notice | None:
        """Leave what the service refused out of the next call, and return a Notice; None if that is not possible."""
        tries.wait = None
        before, sent = call.request.view, call.fields["messages"]
        if view := view_without_refused(failure, before, sent, drops=tries.spec.drops):
            tries.request = replace(tries.request, view=view)
            if view.thinking is before.thinking:
                return Notice("picture", f"{failure.text}; going on without the refused picture", view=view)
            left_out = "of earlier turns" if view.thinking is Replay.NONE else "that no longer matches the conversation"
            return Notice("thinking", f"{failure.text}; going on without the thinking {left_out}", view=view)
        fields = {name: value for name, value in call.fields.items() if name not in self.extra_body}
        lost = self._refuse(failure, refused_features(failure, fields, call.betas))
        if not lost and (lost := unsupported_abilities(failure, fields)):
            self.specs[tries.spec.id] = without_features(tries.spec, lost)
        tries.spec = self.spec(tries.spec.id)
        if not lost or (call.request.summarize and not tries.spec.summarizes):
            return None
        return Notice("feature", f"{failure.text}; going on without {', '.join(feature.name for feature in lost)}")

    async def _plan_retry(self, tries: "_Tries", failure: CallFailure) -> Notice | None:
        """Decide how a failed call is repeated: with another model, or after a wait; None if the failure is final."""
        tries.failures += 1
        tries.overloads = tries.overloads + 1 if failure.overloaded else 0
        is_last = tries.failures >= self.patience.tries
        is_down = tries.overloads >= self.patience.overloads or failure.unavailable
        other = self.spec(tries.request.fallback or tries.spec.id)
        if is_down and not is_last and other.id != tries.spec.id:
            why = "unavailable" if failure.unavailable else "overloaded"
            text = f"{tries.spec.id} is {why}; going on with {other.id}"
            tries.spec, tries.overloads = await self._load_spec(other.id), 0
            return Notice("fallback", text, other.id)
        if is_last or not failure.retryable:
            return None
        is_plain = tries.streaming and failure.broke_off
        tries.streaming = tries.request.streams and not is_plain
        tries.wait = 0.0 if is_plain else self._wait(failure, tries.failures)
        return Notice("retry", f"{failure.text}; trying again ({tries.failures} of {self.patience.tries - 1})")

    def _refuse(self, failure: CallFailure, features: tuple[Feature, ...]) -> tuple[Feature, ...]:
        """Remove features from all later requests; return those that had not been removed before."""
        lost = tuple(feature for feature in features if feature not in self.missing)
        self.missing += lost
        for feature in lost:
            facts = {"feature": feature.name, "error": failure.text}
            _log.warning("the model's server refuses a feature", extra={"fields": facts})
        return lost

    async def _attempt(self, call: OutgoingCall, spec: ModelSpec, answer: StreamedAnswer) -> AsyncGenerator[ModelEvent]:
        if not call.fields.get("stream"):
            yield await self._request_whole(call, spec, answer)
            return
        async with aclosing(iterate_within(self._events(call), math.inf, idle=self.patience.quiet)) as events:
            async for event in events:
                model_event = answer.feed(event)
                if isinstance(model_event, AnswerStarted):
                    yield AnswerStarted(partial(self._partial_answer, answer, spec))
                elif model_event is not None:
                    yield model_event
                if answer.complete:
                    break
            with suppress(Exception):
                async with asyncio.timeout(CLOSING_SECONDS):
                    await anext(events)
        yield self._completion(answer, answer.message(), answer.usage, spec)

    async def _events(self, call: OutgoingCall) -> AsyncGenerator[Json]:
        """Yield the raw events of one stream, and report a long silence (M7)."""
        silent = f"the model has sent nothing for {self.patience.report_silence_after:.0f} s; still waiting"
        with report_silence(self.patience.report_silence_after, partial(call.request.heartbeat, silent)) as sound:
            async with aclosing(self._connection.events(call, self.patience.silence, sound)) as events:
                async for event in events:
                    yield event

    async def _request_whole(self, call: OutgoingCall, spec: ModelSpec, answer: StreamedAnswer) -> AnswerCompleted:
        """Make one request without streaming; the message is taken from the raw body."""
        body = parse_object(await self._connection.request_whole(call))
        with reading():
            answer.usage.update(body.get("usage") or {})
            if not isinstance(body["stop_reason"], str):
                raise MalformedAnswer("the model's answer does not say why it ended")
            answer.stop_reason, answer.why = body["stop_reason"], refusal(body.get("stop_details"))
            message = assistant_message(body["content"])
        return self._completion(answer, message, answer.usage, spec)

    def _partial_answer(self, answer: StreamedAnswer, spec: ModelSpec) -> AnswerCompleted | None:
        """Return what was received of an answer that broke off; None if the service had not reported its usage."""
        with suppress(MalformedAnswer):
            message = {"role": "assistant", "content": answer.blocks}
            return self._completion(answer, message, answer.usage_so_far(), spec) if answer.usage else None
        return None

    def _completion(
        self, answer: StreamedAnswer, message: dict[str, Any], usage: dict[str, Any], spec: ModelSpec
    ) -> AnswerCompleted:
        with reading():
            used = usage_of(usage)
        return AnswerCompleted(message, answer.stop_reason or "", used, cost_usd(spec, used), spec.id, answer.why)


@dataclass(slots=True)
class _Tries:
    """Progress of one request: what is sent next, to which model, and how often it failed."""

    request: ModelRequest
    spec: ModelSpec
    streaming: bool
    failures: int = 0
    overloads: int = 0
    """Overloaded answers in a row."""
    wait: float | None = None
    """Seconds that the clock waits before the next call; None for no wait."""


def _classify(error: Exception) -> CallFailure:
    """Return the meaning of an exception of a call; raises it again if it is not about the call."""
    import httpx2
    from anthropic import APIConnectionError, APIStatusError, WorkloadIdentityError

    match error:
        case ErrorEvent():
            return status_failure(200, error.type, str(error), {})
        case APIStatusError():
            text = f"{error.api_message or error.message} {f'({error.error_code})' if error.error_code else ''}"
            return status_failure(error.status_code, str(error.type or ""), text, dict(error.response.headers))
        case WorkloadIdentityError():
            return identity_failure(error)
        case APIConnectionError() | httpx2.RequestError() | TimeoutError() | MalformedAnswer():
            # the library says only "Connection error."; other causes may quote headers, and with them the key
            cause = error.__cause__ if isinstance(error.__cause__, httpx2.ConnectError) else error
            text = shorten_line(str(cause) or type(cause).__name__, LONGEST)
            return CallFailure(f"the connection to the model failed: {text}", retryable=True)
        case UnicodeDecodeError():
            return CallFailure(f"the model's answer cannot be read: {error}", retryable=True)
        case _:
            raise error
