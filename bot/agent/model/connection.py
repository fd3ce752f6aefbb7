"""Connection: the only path by which requests reach a server through the vendor's library (M7, M9).

Anthropic's own client, and the library's clients that keep its paths (AnthropicAWS, Mantle, Foundry, Google Cloud),
send the bytes that they are given: request N is a prefix of request N+1, and messages go out as they were stored (M3).
The clients of Bedrock's InvokeModel and of Vertex rewrite the body, so they get a dictionary and serialize it; the
content of a message stays the same. Measured with anthropic 2.12.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from urllib.parse import quote

from bot.agent.async_iteration import iterate_within
from bot.agent.model.answer import parse_object
from bot.agent.model.failures import ErrorEvent
from bot.agent.model.lazy_library import load_types_on_demand
from bot.agent.model.request import body
from bot.agent.model.workload_identity import WorkloadIdentity
from bot.core.errors import Misconfigured
from bot.core.transcript import Json
from bot.ports import ModelRequest

if TYPE_CHECKING:
    from ssl import SSLContext

    from anthropic import (
        AsyncAnthropic,
        AsyncAnthropicBedrock,
        AsyncAnthropicVertex,
        AsyncStream,
        RequestOptions,
        Timeout,
    )
    from anthropic._streaming import ServerSentEvent

    Client: TypeAlias = AsyncAnthropic | AsyncAnthropicBedrock | AsyncAnthropicVertex

PATH: Final = "/v1/messages"
MODELS: Final = "/v1/models"
WHOLE_ANSWER: Final = 600.0
"""Seconds that a non-streaming answer may take."""
FIRST_BYTE: Final = 2
"""How many times longer the first byte may take than any other: the server first reads a long, uncached prompt."""


@dataclass(frozen=True, slots=True)
class OutgoingCall:
    """One outgoing request: the fields of its body, its betas, and the request with its stored bytes."""

    fields: Mapping[str, Any]
    betas: tuple[str, ...]
    request: ModelRequest


@dataclass(slots=True)
class Connection:
    """Sends calls through one client of the library, which is imported and made on first use."""

    connect: "Callable[[], Client]"
    rewrites: bool = False
    """Whether the client rewrites bodies, and needs them as dictionaries: Bedrock's InvokeModel, and Vertex."""
    _client: "Client | None" = None
    _making: Lock = field(default_factory=Lock)

    async def request_whole(self, call: OutgoingCall) -> bytes:
        """Make a call that does not stream, and return the body of the answer."""
        import httpx2

        client = await self._opened_client()
        options: RequestOptions = {**_options(call.betas), "timeout": WHOLE_ANSWER}
        response: httpx2.Response = await client.post(
            PATH, cast_to=httpx2.Response, options=options, **self._payload(call)
        )
        return response.content

    async def events(self, call: OutgoingCall, silence: float, hear: Callable[[], None]) -> AsyncGenerator[Json]:
        """Yield the raw events of a stream, without pings; raises ErrorEvent for an error event.

        Raises TimeoutError after `silence` seconds without an event. Calls `hear` at each event, including pings.
        """
        client = await self._opened_client()
        from anthropic import AsyncStream

        kind = AsyncStream[object]
        stream = await client.post(
            PATH, cast_to=object, options=_options(call.betas), stream=True, stream_cls=kind, **self._payload(call)
        )
        pieces = iterate_within(self._pieces(stream), math.inf, idle=silence, first=FIRST_BYTE * silence)
        async with stream, aclosing(pieces):
            async for event in pieces:
                hear()
                if event is None:
                    continue
                if event.get("type") == "error":
                    raise ErrorEvent(event.get("error"))
                yield event

    async def model(self, ident: str, betas: tuple[str, ...]) -> Json:
        """Return the server's description of a model. https://platform.claude.com/docs/en/api/beta/models/retrieve"""
        import httpx2

        client = await self._opened_client()
        path = f"{MODELS}/{quote(ident, safe='')}"
        response = await client.get(path, cast_to=httpx2.Response, options=_options(betas))
        return parse_object(response.content)

    def open(self) -> "Client":
        """Import the library and make the client, unless that is done; blocks, and may be called from any thread."""
        with self._making:
            load_types_on_demand()
            client = self._client or self.connect()
            self._client = client
        return client

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()

    async def _opened_client(self) -> "Client":
        return await asyncio.to_thread(self.open) if self._client is None else self._client

    def _payload(self, call: OutgoingCall) -> dict[str, Any]:
        return {"body": dict(call.fields)} if self.rewrites else {"content": body(call.fields, call.request)}

    async def _pieces(self, stream: "AsyncStream[object]") -> AsyncGenerator[Json | None]:
        """Yield each event, None for a ping. A client that rewrites bodies has its own framing, and hides pings."""
        if self.rewrites:
            async for event in stream:
                yield event if isinstance(event, dict) else None
            return
        raw = cast("AsyncGenerator[ServerSentEvent]", stream.raw_events(stream.response))  # the library declares less
        async with aclosing(raw) as pieces:
            async for sse in pieces:
                yield parse_object(sse.data) if sse.data and sse.event != "ping" else None


def direct_connection(
    api_key: str, base_url: str | None, identity: WorkloadIdentity | None, silence: float
) -> Connection:
    """Return a connection to Anthropic, or to any server of its API, with a key or else as the workload (M12)."""

    def connect() -> "AsyncAnthropic":
        from anthropic import AsyncAnthropic, CredentialsError, DefaultAsyncHttpxClient

        if not (api_key or identity):
            raise Misconfigured("no key for the model", where="ANTHROPIC_API_KEY", fix="set it")
        try:
            return AsyncAnthropic(
                api_key=api_key or None,
                credentials=identity.credentials() if identity and not api_key else None,
                base_url=base_url,
                max_retries=0,
                timeout=timeout(silence),
                http_client=DefaultAsyncHttpxClient(verify=trusted_authorities()),
            )
        except CredentialsError as error:
            raise Misconfigured(str(error), where="ANTHROPIC_BASE_URL", fix="use https") from error

    return Connection(connect)


@cache
def trusted_authorities() -> "SSLContext":
    """Return the certificate authorities that clients trust, which this process loads once, in about 20 ms."""
    import httpx2

    return httpx2.create_ssl_context()


def timeout(silence: float) -> "Timeout":
    """Return a client's timeouts for a stream that may be silent for `silence` seconds once it has begun."""
    import httpx2

    return httpx2.Timeout(600, connect=10, read=FIRST_BYTE * silence, pool=60)


def _options(betas: tuple[str, ...]) -> "RequestOptions":
    return {"headers": {"anthropic-beta": ",".join(betas)}} if betas else {}


@contextmanager
def report_silence(seconds: float, say: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Call `say` once for each silence of that length. Yields a function to call whenever something arrives."""
    loop = asyncio.get_running_loop()
    last_arrival, is_reported = loop.time(), False
    timer: asyncio.TimerHandle

    def record_arrival() -> None:
        nonlocal last_arrival, is_reported
        last_arrival, is_reported = loop.time(), False

    def check_silence() -> None:
        nonlocal is_reported, timer
        remaining = last_arrival + seconds - loop.time()
        if remaining <= 0 and not is_reported:
            is_reported = True
            say()
        timer = loop.call_later(remaining if remaining > 0 else seconds, check_silence)

    timer = loop.call_later(seconds, check_silence)
    try:
        yield record_arrival
    finally:
        timer.cancel()
