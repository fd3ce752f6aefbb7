"""The simulated Messages API as a context manager. It calls the policy and records the requests.

A policy decides what the model says; everything else (validation, thinking signatures, prompt cache, usage, the stream
of events) works as in the real service. A policy that raises is a broken script: the client gets a 500, and the context
manager raises the error when it ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Self, assert_never

from bot.testing.host import host_application
from bot.testing.model.messages_service import MessagesService, Totals, parse_request
from bot.testing.model.model_answer import Admitted
from bot.testing.model.models import MODELS, Model
from bot.testing.model.reply import Fault, Policy, Reply, stop
from bot.testing.model.request_view import ModelRequest
from bot.testing.model.responses import Plain, Refusal, Response, Stream
from bot.testing.model.routes import application
from bot.testing.model.rules import unknown_part
from bot.testing.model.stream import events
from bot.testing.model.token_exchange import Federation
from bot.testing.model.wire import TYPES, ApiError

POLICY_THREADS = 64


class ScriptedModel:
    """A Messages API on 127.0.0.1 whose model is a policy; `with ScriptedModel(policy) as model: model.base_url`.

    `latency` is the seconds before each answer begins. `clock` returns the seconds that cache lifetimes count in.
    `models` is the table of served models. `lacks` names the features that this server does not support.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        latency: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        models: Mapping[str, Model] = MODELS,
        lacks: Collection[str] = (),
    ) -> None:
        self.models = models
        self.lacks = frozenset(lacks)
        self._policy, self._latency = policy, latency
        self.federation = Federation(clock)
        self._service = MessagesService(models, clock)
        self._requests: list[ModelRequest] = []
        self._refusals: list[ApiError] = []
        self._errors: list[BaseException] = []
        self._open = ExitStack()
        self._base_url = ""

    def __enter__(self) -> Self:
        self._threads = ThreadPoolExecutor(POLICY_THREADS, thread_name_prefix="policy")
        self._open.callback(self._threads.shutdown, wait=False, cancel_futures=True)
        self._base_url = self._open.enter_context(host_application(application(self)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()
        if error is None and self._errors:
            raise self._errors[0]

    @property
    def base_url(self) -> str:
        """The address for the client library."""
        return self._base_url

    @property
    def requests(self) -> tuple[ModelRequest, ...]:
        """All requests for messages in the order of arrival, including refused ones."""
        return tuple(self._requests)

    @property
    def refusals(self) -> tuple[ApiError, ...]:
        """The errors for requests for messages that broke a rule, in order."""
        return tuple(self._refusals)

    @property
    def usage(self) -> Totals:
        """The usage and cost of all answers so far."""
        return self._service.totals

    async def create(self, raw: bytes, headers: Mapping[str, str]) -> Response:
        """Return the response to POST /v1/messages."""
        request = self.authenticate(raw, headers)
        if isinstance(request, ApiError):
            return self._refuse(request)
        self._requests.append(request)
        if (error := unknown_part(headers, request.body, self.lacks)) is not None:
            return self._refuse(error)
        admitted = self._service.admit(request)
        if isinstance(admitted, ApiError):
            return self._refuse(admitted)
        await asyncio.sleep(self._latency)
        if request.max_tokens == 0:
            return self._respond(stop("max_tokens"), admitted, request)
        outcome = await self._ask(request)
        match outcome:
            case Reply():
                return self._respond(outcome, admitted, request)
            case Fault():
                return await self._fail(outcome, admitted, request)
            case ApiError():
                return Refusal(outcome)
            case _:
                assert_never(outcome)

    def exchange(self, raw: bytes, headers: Mapping[str, str]) -> Response:
        """Return the response to POST /v1/oauth/token."""
        granted = self.federation.exchange(raw, headers)
        return Refusal(granted) if isinstance(granted, ApiError) else Plain(granted)

    def authenticate(self, raw: bytes, headers: Mapping[str, str]) -> ModelRequest | ApiError:
        """Return the request in a body if its key or token opens the API, or the error."""
        return self.federation.refusal(headers) or parse_request(raw, headers)

    def broke(self, error: BaseException) -> None:
        """Record an error of the script or of this server, which the context raises when it ends."""
        self._errors.append(error)

    def _refuse(self, error: ApiError) -> Response:
        self._refusals.append(error)
        return Refusal(error)

    async def _ask(self, request: ModelRequest) -> Reply | Fault | ApiError:
        answer = asyncio.wrap_future(self._threads.submit(self._policy, request))
        await asyncio.wait([answer])
        error = answer.exception()
        if error is None:
            return answer.result()
        self.broke(error)
        return ApiError(500, f"the policy raised {error!r}")

    def _respond(self, reply: Reply, admitted: Admitted, request: ModelRequest) -> Plain | Stream:
        answer = self._service.answer(reply, admitted)
        if not request.stream:
            return Plain(answer.message)
        return Stream(tuple(events(answer, pings=reply.pings, at_once=reply.at_once)), pace=reply.pace)

    async def _fail(self, fault: Fault, admitted: Admitted, request: ModelRequest) -> Response:
        if fault.kind == "status":
            error = ApiError(fault.code, fault.message or f"scripted {fault.code}", code=fault.error_code)
            return Refusal(error, fault.retry_after, fault.page, fault.should_retry)
        if fault.kind == "error_event" and not request.stream:
            status = next((code for code, name in TYPES.items() if name == fault.error_type), 500)
            return Refusal(ApiError(status, "scripted error", fault.error_type))
        response = self._respond(fault.reply, admitted, request)
        match response:
            case Stream():
                return replace(response, fault=fault)
            case Plain() if fault.kind == "stall":
                await asyncio.sleep(fault.seconds)
                return response
            case Plain() if fault.kind == "garble":
                return replace(response, page=fault.page)
            case Plain():
                return replace(response, cut=True)
            case _:
                assert_never(response)
