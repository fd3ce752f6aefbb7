"""The route of GitHub's deliveries. SHELL: no rules here.

Deliveries come in bursts, and GitHub waits for each answer. So a delivery bypasses FastAPI, which only describes the
route. A body of ordinary size is verified and parsed in the event loop, which is faster than handing it to a thread.
"""

import asyncio
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from bot.core.names import ThreadAddress
from bot.github.deliveries import (
    BadSignature,
    Envelope,
    Headers,
    Malformed,
    Wake,
    envelope,
    parse_delivery,
    verify_signature,
)
from bot.logs import say_each
from bot.service.inbox import Delivery, run_in_intake_pool
from bot.service.queue.queue_port import Outcome
from bot.service.service import Service

PATH: Final = "/webhooks/github"
LARGEST_AT_ONCE: Final = 128 * 1024
"""Bytes of the largest body that is parsed in the event loop. That takes less than a millisecond."""

_READ: Final = {
    name.encode(): name
    for name in ("content-length", "content-type", "x-github-delivery", "x-github-event", "x-hub-signature-256")
}
"""The headers that are read, by their names as the server gives them."""
_STATUS: Final = {
    Outcome.STORED: 202,
    Outcome.JOINED: 202,
    Outcome.DUPLICATE: 200,
    Outcome.NOT_FOR_US: 200,
    Outcome.NO_ROOM: 503,
}
_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    202: {"description": "accepted: the delivery is durable"},
    200: {"description": "a duplicate, or not for us"},
    400: {"description": "malformed"},
    401: {"description": "bad signature"},
    413: {"description": "too large"},
    503: {"description": "it cannot be stored now: deliver it again"},
}
"""Descriptions of the responses to a delivery, for /openapi.json."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits on a request body before its signature proves who sent it."""

    size: int = 25 * 1024 * 1024
    """GitHub sends no payload above 25 MB.
    https://docs.github.com/en/webhooks/webhook-events-and-payloads#payload-cap
    """
    seconds: float = 10.0
    """GitHub itself gives up on an answer after 10 s.
    https://docs.github.com/en/webhooks/using-webhooks/best-practices-for-using-webhooks
    """
    held: int = 8 * size
    """Maximum bytes held in memory, over all requests."""


DEFAULT_BOUNDS: Final = Bounds()


class Deliveries:
    """Responds to deliveries."""

    def __init__(self, service: Service, bounds: Bounds) -> None:
        self._service = service
        self._bodies = _Bodies(bounds)
        self._log = _Log()

    async def respond(self, scope: Scope, receive: Receive) -> tuple[int, str]:
        """Receive a delivery. Return the status and the outcome; 202 means that it is stored durably."""
        headers = [(_READ[name], value.decode("latin-1")) for name, value in scope["headers"] if name in _READ]
        facts: dict[str, Any] = {}
        try:
            body = await self._bodies.read(dict(headers).get("content-length"), receive)
            status, outcome, facts = await self._receive(headers, body)
        except _Unreadable as error:
            status, outcome = error.status, str(error)
        except BadSignature as error:
            status, outcome = 401, error.what
        except Malformed as error:
            status, outcome = 400, error.what
        self._log.add({"status": status, "outcome": outcome, **facts})
        return status, outcome

    async def _receive(self, headers: Headers, body: bytes) -> tuple[int, str, dict[str, Any]]:
        """Verify, parse, and store a delivery. Return the status, the outcome, and the facts for the log."""
        secret = self._service.secret.reveal()

        def read() -> tuple[Envelope, Wake | None]:
            verify_signature(secret, body, headers)
            about = envelope(headers)
            return about, parse_delivery(about.event, body, is_form=about.is_form)

        about, wake = read() if len(body) <= LARGEST_AT_ONCE else await run_in_intake_pool(read)
        facts: dict[str, Any] = {"guid": about.guid, "event": about.event}
        if wake is None or self._service.host.is_bot(wake.report.doer):  # the bot's own actions wake no thread
            return 200, Outcome.NOT_FOR_US, facts
        facts |= {"action": wake.action, "thread": f"{wake.owner}/{wake.name}#{wake.thread}"}
        outcome = await self._service.receive(Delivery(about.guid, about.event, _address(wake), wake.report))
        return _STATUS[outcome], outcome, facts


class DeliveriesFirst:
    """An application that responds to deliveries itself, and leaves all other requests to another application."""

    def __init__(self, app: ASGIApp, deliveries: Deliveries) -> None:
        self._app = app
        self._deliveries = deliveries

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] != PATH:
            await self._app(scope, receive, send)
            return
        status, outcome = await self._deliveries.respond(scope, receive)
        body = _outcome_json(outcome)
        headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@lru_cache(64)
def _outcome_json(outcome: str) -> bytes:
    return b'{"outcome":%s}' % json.dumps(outcome).encode()


def describe_deliveries(app: FastAPI, deliveries: Deliveries) -> None:
    """Add the route of the deliveries to FastAPI's, for its description and for the methods that it refuses."""

    @app.post(PATH, status_code=202, responses=_ANSWERS)
    async def receive(request: Request) -> JSONResponse:
        """Receive a delivery from GitHub. The response is 202 once the delivery is stored durably."""
        status, outcome = await deliveries.respond(request.scope, request.receive)
        return JSONResponse({"outcome": outcome}, status)


class _Log:
    """Logs all deliveries of one step of the event loop with one write."""

    def __init__(self) -> None:
        self._answered: list[dict[str, object]] = []

    def add(self, facts: dict[str, object]) -> None:
        """Log a delivery at the end of this step."""
        if not self._answered:
            asyncio.get_running_loop().call_soon(self._write)
        self._answered.append(facts)

    def _write(self) -> None:
        events, self._answered = self._answered, []
        say_each("delivery", events)


class _Unreadable(Exception):
    """The body was not read to its end. Carries the status that explains why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Bodies:
    """Reads bodies within limits of size, time, and total memory (W1)."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._held = 0

    async def read(self, length: str | None, receive: Receive) -> bytes:
        """Return the raw body. Raises _Unreadable."""
        if int(length or 0) > self._bounds.size:  # the server accepts nothing but a number here
            raise _Unreadable(413, "too large")
        pieces: list[bytes] = []
        size, is_whole = 0, False
        try:
            async with asyncio.timeout(self._bounds.seconds):
                while not is_whole:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Unreadable(400, "the body ended early")
                    piece, is_whole = message.get("body", b""), not message.get("more_body", False)
                    pieces.append(piece)
                    size += len(piece)
                    self._held += len(piece)
                    self._check(size)
        except TimeoutError:
            raise _Unreadable(400, "the body came too slowly") from None
        finally:
            self._held -= size
        return b"".join(pieces)

    def _check(self, size: int) -> None:
        if size > self._bounds.size:
            raise _Unreadable(413, "too large")
        if self._held > self._bounds.held:
            raise _Unreadable(503, "too many large deliveries at once")


def _address(wake: Wake) -> ThreadAddress | None:
    if wake.repository is None or wake.thread is None:
        return None
    return ThreadAddress(wake.installation, wake.repository, wake.owner, wake.name, wake.thread, wake.told)
