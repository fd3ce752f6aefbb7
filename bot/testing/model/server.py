"""The simulated Messages API as a context manager. It calls the policy and records the requests.

A token issued here is valid until it expires, and only in requests that name the beta for such tokens.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self, assert_never

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response as StarletteResponse
from starlette.routing import Route

from bot.testing.host import host_application
from bot.testing.model.messages_service import Admitted, MessagesService, Totals, parse_request
from bot.testing.model.models import ALL_EFFORTS, MODELS, Model
from bot.testing.model.reply import Fault, Policy, Reply, stop
from bot.testing.model.request_view import TYPES, ApiError, Json, ModelRequest, invalid
from bot.testing.model.responses import Plain, Refusal, Response, Stream, events
from bot.testing.model.rules import COMPACT_BETA, unknown_part

PREFIX = "sk-ant-oat01-"
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
NEEDED = ("assertion", "federation_rule_id", "organization_id")


@dataclass(slots=True)
class Federation:
    """The tokens of one simulated API. `lifetime` is the seconds each token is valid."""

    clock: Callable[[], float]
    lifetime: int = 600
    workspaces: int = 1
    exchanges: list[Json] = field(default_factory=list)
    _given: dict[str, float] = field(default_factory=dict)

    def exchange(self, raw: bytes, headers: Mapping[str, str]) -> Json | ApiError:
        body = json.loads(raw or b"{}")
        if "oidc-federation-2026-04-01" not in headers.get("anthropic-beta", ""):
            return invalid("anthropic-beta: oidc-federation-2026-04-01 is required")
        if body.get("grant_type") != GRANT or not all(body.get(name) for name in NEEDED):
            return invalid(f"grant_type must be {GRANT}, with {', '.join(NEEDED)}")
        if body["assertion"].count(".") != 2:
            return ApiError(401, "the identity token matches no federation rule")
        if self.workspaces > 1 and not body.get("workspace_id"):
            return ApiError(401, "workspace_id is required: the federation rule enables more than one workspace")
        token = PREFIX + secrets.token_hex(16)
        self._given[token] = self.clock() + self.lifetime
        self.exchanges.append(body)
        return {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime}

    def refusal(self, headers: Mapping[str, str]) -> ApiError | None:
        """Return the error for a request with an invalid token of this API, or None. Other keys are not checked."""
        token = headers.get("authorization", "").removeprefix("Bearer ")
        if not token.startswith(PREFIX):
            return None
        if self.clock() >= self._given.get(token, float("-inf")):
            return ApiError(401, "invalid bearer token")
        if "oauth-2025-04-20" not in headers.get("anthropic-beta", ""):
            return ApiError(401, "OAuth authentication is currently not supported.")
        return None


THINKING_FORMS = ("adaptive", "disabled", "enabled")


def model_info(model: Model, betas: str = "") -> Json:
    """Return one model as the API describes it to a request with these betas.

    Compaction is listed only if its beta is named: https://platform.claude.com/docs/en/api/beta/models/retrieve
    """
    capabilities = _capabilities(model)
    if COMPACT_BETA in betas:
        summarize = {"supported": model.compacts}
        capabilities["compaction"] = {**summarize, "summarize": summarize}
    words = model.id.removeprefix("claude-").split("-")
    return {
        "type": "model", "id": model.id, "display_name": f"Claude {words[0].title()} {'.'.join(words[1:3])}",
        "created_at": "2026-01-01T00:00:00Z", "lifecycle": "active", "deprecated_at": None, "retires_at": None,
        "line": model.line, "max_input_tokens": model.window, "max_tokens": model.max_output,
        "capabilities": capabilities,
    }  # fmt: skip


def _capabilities(model: Model) -> Json:
    yes, no = {"supported": True}, {"supported": False}
    effort = {level: yes if level in model.efforts else no for level in ALL_EFFORTS}
    forms = {form: yes if form in model.thinking else no for form in THINKING_FORMS}
    edits = dict.fromkeys(("clear_tool_uses_20250919", "clear_thinking_20251015", "compact_20260112"), yes)
    plain = ("batch", "citations", "code_execution", "image_input", "pdf_input", "structured_outputs")
    return {
        **dict.fromkeys(plain, yes), "context_management": {"supported": True, **edits},
        "effort": {"supported": bool(model.efforts), **effort},
        "server_tools": {"supported": True, "code_execution": yes, "web_search": yes},
        "thinking": {"supported": True, "types": forms},
    }  # fmt: skip


def application(model: ScriptedModel) -> Starlette:
    async def create(request: Request) -> Response:
        return await model.create(await request.body(), dict(request.headers))

    async def exchange(request: Request) -> Response:
        granted = model.federation.exchange(await request.body(), dict(request.headers))
        return Refusal(granted) if isinstance(granted, ApiError) else Plain(granted)

    async def describe_model(request: Request) -> Response:
        headers = dict(request.headers)
        checked = model.authenticate(b"{}", headers)
        error = checked if isinstance(checked, ApiError) else unknown_part(headers, {}, model.lacks)
        if error is not None:
            return Refusal(error)
        if (entry := model.models.get(request.path_params["id"])) is None:
            return Refusal(ApiError(404, f"model: {request.path_params['id']}"))
        return Plain(model_info(entry, headers.get("anthropic-beta", "")))

    async def unknown(request: Request, _: Exception) -> StarletteResponse:
        return Refusal(ApiError(404, f"Not found: {request.url.path}"))  # type: ignore[return-value]

    async def ignore(_: Request, error: Exception) -> StarletteResponse:
        # A client that disconnects in mid-request is not this server's error, and nobody reads the answer.
        return Refusal(ApiError(400, f"the request broke off: {error!r}"))  # type: ignore[return-value]

    async def fail(_: Request, error: Exception) -> StarletteResponse:
        model.broke(error)
        return Refusal(ApiError(500, f"the simulated server raised {error!r}"))  # type: ignore[return-value]

    routes = [
        Route("/v1/messages", create, methods=["POST"]), Route("/v1/oauth/token", exchange, methods=["POST"]),
        Route("/v1/models/{id}", describe_model),
    ]  # fmt: skip
    return Starlette(routes=routes, exception_handlers={404: unknown, ClientDisconnect: ignore, Exception: fail})


# The server. A policy decides what the model says; everything else (validation, thinking signatures, prompt cache,
# usage, the stream of events) works as in the real service. A policy that raises is a broken script: the client gets a
# 500, and the context manager raises the error when it ends.

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
        return self._base_url

    @property
    def requests(self) -> tuple[ModelRequest, ...]:
        return tuple(self._requests)

    @property
    def refusals(self) -> tuple[ApiError, ...]:
        return tuple(self._refusals)

    @property
    def usage(self) -> Totals:
        return self._service.totals

    async def create(self, raw: bytes, headers: Mapping[str, str]) -> Response:
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

    def authenticate(self, raw: bytes, headers: Mapping[str, str]) -> ModelRequest | ApiError:
        return self.federation.refusal(headers) or parse_request(raw, headers)

    def broke(self, error: BaseException) -> None:
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
        return Stream(tuple(events(answer, at_once=reply.at_once)), pace=reply.pace)

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
