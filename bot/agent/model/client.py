"""AnthropicModel: the Model port over the anthropic library, with our own retries (M7-M9, L4).

The library is made with max_retries=0: it would honour any Retry-After without a cap, and never retries a stream that
breaks in the middle. An answer counts only after message_stop; a broken one is dropped whole and asked for again, first
once without streaming.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from bot.agent.model.answer import Answer, Malformed, parsed, reading, refusal, usage_of, whole
from bot.agent.model.body import body
from bot.agent.model.failures import Failure, status_failure
from bot.agent.model.identity import WorkloadIdentity, identity_failure
from bot.agent.model.request import parameters
from bot.agent.model.silence import noted
from bot.agent.model.specs import ModelSpec, cost_usd, learned, resolve
from bot.agent.relay import closing, within
from bot.core.errors import Misconfigured, PlangateError
from bot.ports import Abilities, Began, Clock, Completed, ModelEvent, ModelRequest, Notice

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, RequestOptions

NON_STREAMING_CAP: Final = 21_333
"""Above this the library refuses a request that does not stream."""
PATH: Final = "/v1/messages"
MODELS: Final = "/v1/models"
TELLING: Final = 5.0
"""Seconds that the server may take to tell about a model before it is asked for an answer all the same."""
CLOSING: Final = 0.5
"""Seconds that the end of a stream may take after message_stop: read to it, its connection serves the next request."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait and how often to try; seconds."""

    tries: int = 8
    overloads: int = 3
    """Overloaded answers in a row before the fallback model takes over (L4)."""
    silence: float = 90.0
    """No byte on the wire for so long abandons a stream (pings count as bytes)."""
    murmur: float = 30.0
    """No byte for so long is told."""
    quiet: float = 300.0
    """Nothing but pings for so long abandons a stream too."""
    total: float = 1800.0
    longest_wait: float = 60.0


@dataclass(slots=True)
class AnthropicModel:
    """Talks to any server of the Messages API; one instance serves many sessions."""

    clock: Clock
    api_key: str
    base_url: str | None = None
    output_cap: int | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    patience: Patience = Patience()
    identity: WorkloadIdentity | None = None
    """Whom to be where there is no key."""
    specs: dict[str, ModelSpec] = field(default_factory=dict)
    """What the service told about models; it outranks the table that this program brings (M12)."""
    _client: "AsyncAnthropic | None" = None
    _making: Lock = field(default_factory=Lock)
    _telling: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield one answer as it comes; see the port. A Notice voids what was shown of the answer before it."""
        spec = await self._learned(request.model)
        failures, overloads = 0, 0
        streams = streaming = request.role != "light"
        while True:
            answer = Answer()
            try:
                attempt = self._attempt(request, spec, answer, streaming=streaming)
                async with closing(within(attempt, self.patience.total)) as events:
                    async for event in events:
                        yield event
                return
            except Exception as error:  # noqa: BLE001 - classified; what is not a failed call is raised again
                failure = _classify(error)
            void = self._void(answer, spec)
            failures += 1
            overloads = overloads + 1 if failure.overloaded else 0
            gone = overloads >= self.patience.overloads or failure.unavailable
            if gone and failures < self.patience.tries and (other := self._other(spec, request.fallback)):
                why = "unavailable" if failure.unavailable else "overloaded"
                yield Notice("fallback", f"{spec.id} is {why}; going on with {other.id}", other.id, void)
                spec, overloads = await self._learned(other.id), 0
                continue
            if not failure.retryable or failures >= self.patience.tries:
                if void:
                    yield Notice("void", "the answer broke off; what came of it is paid for all the same", void=void)
                raise failure.as_error()
            plain = streaming and failure.broke_off
            streaming = streams and not plain
            yield Notice("retry", f"{failure.text}; trying again ({failures} of {self.patience.tries - 1})", void=void)
            await self.clock.sleep(0.0 if plain else self._wait(failure, failures))

    async def known(self, name: str) -> str:
        """Ask the server for a model by alias or id and give its id; raises Transient or Refused with the cure."""
        import httpx2

        asked = self.spec(name).id
        try:
            client = await self._ready()
            response = await client.get(f"{MODELS}/{quote(asked, safe='')}", cast_to=httpx2.Response)
            told = parsed(response.content)
        except Exception as error:
            raise _classify(error).as_error() from error
        found = str(told.get("id") or asked)
        for ident in {asked, found}:
            self.specs[ident] = learned(self.spec(ident), told)
        return found

    def spec(self, name: str) -> ModelSpec:
        """Give the spec of an alias or an id, as the service told it or as the table has it."""
        found = resolve(name)
        return self.specs.get(found.id, found)

    async def _learned(self, name: str) -> ModelSpec:
        """Give the spec of a model, as the service tells it where it does; it is asked once (M12).

        Whoever comes meanwhile waits: a session that began by the table would change its tools at its second request.
        """
        async with self._telling:
            spec = self.spec(name)
            if spec.id not in self.specs:
                self.specs[spec.id] = spec
                with suppress(PlangateError, TimeoutError):
                    async with asyncio.timeout(TELLING):
                        await self.known(name)
        return self.spec(name)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()

    def warm(self) -> None:
        """Import the library and make the client now; meant for a thread, beside other preparations."""
        self._made()

    def abilities(self, model: str) -> Abilities:
        """Tell what the model of that name can hold."""
        spec = self.spec(model)
        dear = spec.prices and (spec.prices.above or spec.prices)
        prices = (max(dear.input, dear.write) / 1e6, dear.output / 1e6) if dear else (0.0, 0.0)
        return Abilities(spec.window, spec.summarizes, spec.thinking == "adaptive", *prices, spec.id)

    def _other(self, spec: ModelSpec, fallback: str) -> ModelSpec | None:
        """Give the model to go on with where this one does not answer; None where there is no other."""
        other = self.spec(fallback) if fallback else spec
        return other if other.id != spec.id else None

    def _wait(self, failure: Failure, failures: int) -> float:
        """Seconds until the next try: what the server asks for (capped), else longer each time."""
        if failure.retry_after is not None:
            return min(failure.retry_after, self.patience.longest_wait)
        from tenacity import AsyncRetrying, RetryCallState, wait_exponential_jitter

        state = RetryCallState(AsyncRetrying(), None, (), {})
        state.attempt_number = failures
        return wait_exponential_jitter(multiplier=0.5, max=self.patience.longest_wait / 2, jitter=0.5)(state)

    async def _attempt(
        self, request: ModelRequest, spec: ModelSpec, answer: Answer, *, streaming: bool
    ) -> AsyncIterator[ModelEvent]:
        """Make one call, streaming or not; what comes of it gathers in `answer`."""
        cap = self.output_cap if streaming else min(self.output_cap or NON_STREAMING_CAP, NON_STREAMING_CAP)
        sent = parameters(request, spec, cap=cap, extra=self.extra_body)
        options: RequestOptions = {"headers": sent.pop("extra_headers", {})}
        fields = sent.pop("extra_body", {})
        fields = {**sent, **fields}
        if not streaming:
            yield await self._plain(body(fields, request), options, spec, answer)
            return
        source = self._events(body({**fields, "stream": True}, request), options, request.murmur)
        async with closing(within(source, self.patience.total, idle=self.patience.quiet)) as events:
            async for event in events:
                shown = answer.feed(event)
                if isinstance(shown, Began):
                    yield Began(partial(self._void, answer, spec))
                elif shown is not None:
                    yield shown
                if answer.complete:
                    break
            with suppress(Exception):
                async with asyncio.timeout(CLOSING):
                    await anext(events)
        yield self._completed(answer, answer.message(), answer.usage, spec)

    async def _events(
        self, content: bytes, options: "RequestOptions", murmur: Callable[[str], None]
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the raw events of one stream, pings left out; an error event is raised."""
        client = await self._ready()
        from anthropic import AsyncStream

        kind = AsyncStream[object]
        silent = f"the model has sent nothing for {self.patience.murmur:.0f} s; still waiting"
        with noted(self.patience.murmur, partial(murmur, silent)) as sound:
            async with (
                await client.post(
                    PATH, cast_to=object, content=content, options=options, stream=True, stream_cls=kind
                ) as stream,
                closing(AsyncStream.raw_events(stream.response)) as pieces,
            ):
                async for sse in pieces:
                    sound()
                    if sse.event == "ping" or not sse.data:
                        continue
                    event = parsed(sse.data)
                    if event.get("type") == "error":
                        raise ErrorEvent(event.get("error"))
                    yield event

    async def _plain(self, content: bytes, options: "RequestOptions", spec: ModelSpec, answer: Answer) -> Completed:
        """Make one request without streaming; the message is taken from the raw body."""
        client = await self._ready()
        import httpx2

        asked: RequestOptions = {**options, "timeout": 600.0}
        response = await client.post(PATH, cast_to=httpx2.Response, content=content, options=asked)
        said = parsed(response.content)
        with reading():
            answer.usage.update(said.get("usage") or {})
            if not isinstance(said["stop_reason"], str):
                raise Malformed("the model's answer does not say why it ended")
            answer.stop_reason, answer.why = said["stop_reason"], refusal(said.get("stop_details"))
            message = whole(said["content"])
        return self._completed(answer, message, answer.usage, spec)

    def _void(self, answer: Answer, spec: ModelSpec) -> Completed | None:
        """Give what came of an answer that broke off; None where the service had not told what it costs."""
        with suppress(Malformed):
            message = {"role": "assistant", "content": answer.blocks}
            return self._completed(answer, message, answer.spent(), spec) if answer.usage else None
        return None

    def _completed(self, answer: Answer, message: dict[str, Any], usage: dict[str, Any], spec: ModelSpec) -> Completed:
        with reading():
            used = usage_of(usage)
        return Completed(message, answer.stop_reason or "", used, cost_usd(spec, used), spec.id, answer.why)

    async def _ready(self) -> "AsyncAnthropic":
        """Give the client; the first who asks waits for the library beside whatever else goes on."""
        if self._client is None:
            return await asyncio.to_thread(self._made)
        return self._client

    def _made(self) -> "AsyncAnthropic":
        with self._making:
            client = self._client or self._connected()
            self._client = client
        return client

    def _connected(self) -> "AsyncAnthropic":
        """Make a client that speaks with the key, else as the workload; nothing is sent yet."""
        import httpx2
        from anthropic import AsyncAnthropic, CredentialsError

        if not (self.api_key or self.identity):
            raise Misconfigured("no key for the model", where="ANTHROPIC_API_KEY", mend="set it")
        credentials = self.identity.credentials() if self.identity and not self.api_key else None
        timeout = httpx2.Timeout(600, connect=10, read=self.patience.silence, pool=60)
        try:
            return AsyncAnthropic(
                api_key=self.api_key or None,
                credentials=credentials,
                base_url=self.base_url,
                max_retries=0,
                timeout=timeout,
            )
        except CredentialsError as error:
            raise Misconfigured(str(error), where="ANTHROPIC_BASE_URL", mend="use https") from error


class ErrorEvent(Exception):
    """An error event inside a stream that began with 200."""

    def __init__(self, error: object) -> None:
        told = error if isinstance(error, dict) else {"message": error}
        super().__init__(told.get("message") or "error event")
        self.type = str(told.get("type") or "")


def _classify(error: Exception) -> Failure:
    """Say what an exception of a call means; raises it again when it is not about the call."""
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
        case APIConnectionError() | httpx2.RequestError() | TimeoutError() | Malformed():
            return Failure(f"the connection to the model failed: {str(error) or type(error).__name__}", retryable=True)
        case UnicodeDecodeError():
            return Failure(f"the model's answer cannot be read: {error}", retryable=True)
        case _:
            raise error
