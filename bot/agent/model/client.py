"""AnthropicModel: the Model port over the anthropic library, with our own retries (M7-M9, L4).

The library is made with max_retries=0: it would honour any Retry-After without a cap, and never retries a stream that
breaks in the middle. An answer counts only after message_stop; a broken one is dropped whole and asked for again, first
once without streaming.
"""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bot.agent.model.answer import Answer, Malformed, usage_of
from bot.agent.model.failures import Failure, status_failure
from bot.agent.model.identity import WorkloadIdentity, identity_failure
from bot.agent.model.request import parameters
from bot.agent.model.specs import ModelSpec, cost_usd, resolve
from bot.agent.relay import closing, within
from bot.core.errors import Misconfigured
from bot.ports import Clock, Completed, ModelEvent, ModelRequest, Notice

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

NON_STREAMING_CAP: Final = 21_333
"""Above this the library refuses a request that does not stream."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait and how often to try; seconds."""

    tries: int = 8
    overloads: int = 3
    """Overloaded answers in a row before the fallback model takes over (L4)."""
    silence: float = 90.0
    """No byte on the wire for so long abandons a stream (pings count as bytes)."""
    total: float = 1800.0
    longest_wait: float = 60.0


@dataclass(slots=True)
class AnthropicModel:
    """Talks to any server of the Messages API; one instance serves many sessions."""

    clock: Clock
    api_key: str
    base_url: str | None = None
    fallback: str | None = None
    output_cap: int | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    patience: Patience = Patience()
    identity: WorkloadIdentity | None = None
    """Whom to be where there is no key."""
    _client: "AsyncAnthropic | None" = None
    _given_up: set[str] = field(default_factory=set)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield one answer as it comes; see the port. A Notice voids what was shown of the answer before it."""
        failures, overloads, streaming = 0, 0, True
        while True:
            spec = self._spec(request)
            try:
                attempt = self._attempt(request, spec, streaming=streaming)
                async with closing(within(attempt, self.patience.total)) as events:
                    async for event in events:
                        yield event
                return
            except Exception as error:  # noqa: BLE001 - classified; what is not a failed call is raised again
                failure = _classify(error)
            failures += 1
            overloads = overloads + 1 if failure.overloaded else 0
            if not failure.retryable or failures >= self.patience.tries:
                raise failure.as_error()
            if overloads >= self.patience.overloads and self._switch(spec):
                overloads = 0
                yield Notice("fallback", f"{spec.id} is overloaded; going on with {self.fallback}")
                continue
            streaming = not (streaming and failure.status == 0)
            yield Notice("retry", f"{failure.text}; trying again ({failures} of {self.patience.tries - 1})")
            await self.clock.sleep(self._wait(failure, failures, plain=not streaming))

    async def known(self, name: str) -> str:
        """Ask the server for a model by alias or id and give its id; raises Transient or Refused with the cure."""
        try:
            return (await self._made().models.retrieve(resolve(name).id)).id
        except Exception as error:
            raise _classify(error).as_error() from error

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()

    def warm(self) -> None:
        """Import the library and make the client now; meant for a thread, beside other preparations."""
        self._made()

    def _spec(self, request: ModelRequest) -> ModelSpec:
        spec = resolve(request.model)
        return resolve(self.fallback) if spec.id in self._given_up and self.fallback else spec

    def _switch(self, spec: ModelSpec) -> bool:
        """Give a model up for the rest of this process where another one is configured."""
        if self.fallback is None or resolve(self.fallback).id == spec.id:
            return False
        self._given_up.add(spec.id)
        return True

    def _wait(self, failure: Failure, failures: int, *, plain: bool) -> float:
        """Seconds until the next try: what the server asks for (capped), none before the plain request (M8)."""
        if failure.retry_after is not None:
            return min(failure.retry_after, self.patience.longest_wait)
        if plain and failure.status == 0:
            return 0.0
        from tenacity import RetryCallState, wait_exponential_jitter

        state = RetryCallState(None, None, (), {})  # type: ignore[arg-type]
        state.attempt_number = failures
        return wait_exponential_jitter(multiplier=0.5, max=self.patience.longest_wait / 2, jitter=0.5)(state)

    async def _attempt(self, request: ModelRequest, spec: ModelSpec, *, streaming: bool) -> AsyncIterator[ModelEvent]:
        """Make one call, streaming or not."""
        cap = self.output_cap if streaming else min(self.output_cap or NON_STREAMING_CAP, NON_STREAMING_CAP)
        sent = parameters(request, spec, cap=cap, extra=self.extra_body)
        if not streaming:
            yield await self._plain(sent, spec)
            return
        answer = Answer()
        async with closing(self._events(sent)) as events:
            async for event in events:
                shown = answer.feed(event)
                if shown is not None:
                    yield shown
        yield self._completed(answer.message(), answer.stop_reason or "", answer.usage, spec)

    async def _events(self, sent: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Yield the raw events of one stream; an error event is raised."""
        from anthropic import AsyncStream

        create = self._made().messages.with_streaming_response.create
        async with (
            create(**sent, stream=True) as response,
            closing(AsyncStream.raw_events(response.http_response)) as pieces,
        ):
            async for sse in pieces:
                if not sse.data:
                    continue
                event = json.loads(sse.data)
                if event.get("type") == "error":
                    raise ErrorEvent(event.get("error") or {})
                yield event

    async def _plain(self, sent: dict[str, Any], spec: ModelSpec) -> Completed:
        """Make one request without streaming; the message is taken from the raw body."""
        response = await self._made().messages.with_raw_response.create(**sent, timeout=600.0)
        body = json.loads(await response.read())
        message = {"role": "assistant", "content": body["content"]}
        return self._completed(message, body.get("stop_reason") or "", body.get("usage") or {}, spec)

    def _completed(self, message: dict[str, Any], reason: str, usage: dict[str, Any], spec: ModelSpec) -> Completed:
        used = usage_of(usage)
        return Completed(message, reason, used, cost_usd(spec, used), spec.id)

    def _made(self) -> "AsyncAnthropic":
        if self._client is None:
            self._client = self._connected()
        return self._client

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

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error.get("message") or "error event")
        self.type = str(error.get("type") or "")


def _classify(error: Exception) -> Failure:
    """Say what an exception of a call means; raises it again when it is not about the call."""
    import httpx2
    from anthropic import APIConnectionError, APIStatusError, WorkloadIdentityError

    match error:
        case ErrorEvent():
            return status_failure(200, error.type, str(error), {})
        case APIStatusError():
            text = error.api_message or error.message
            return status_failure(error.status_code, error.type or "", text, dict(error.response.headers))
        case WorkloadIdentityError():
            return identity_failure(error)
        case APIConnectionError() | httpx2.TransportError() | TimeoutError() | Malformed() | json.JSONDecodeError():
            return Failure(f"the connection to the model failed: {str(error) or type(error).__name__}", retryable=True)
        case _:
            raise error
