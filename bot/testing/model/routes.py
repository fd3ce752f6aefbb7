"""The paths of the simulated API, as a Starlette application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.testing.model.model_info import model_info
from bot.testing.model.responses import Plain, Refusal, Response
from bot.testing.model.rules import unknown_part
from bot.testing.model.wire import ApiError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response as StarletteResponse

    from bot.testing.model.server import ScriptedModel


def application(model: ScriptedModel) -> Starlette:
    """Return the application that serves this model."""
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect
    from starlette.routing import Route

    async def create(request: Request) -> Response:
        return await model.create(await request.body(), dict(request.headers))

    async def exchange(request: Request) -> Response:
        return model.exchange(await request.body(), dict(request.headers))

    async def one(request: Request) -> Response:
        return _refusal(model, request) or _one(model, request)

    async def unknown(request: Request, _: Exception) -> StarletteResponse:
        return Refusal(ApiError(404, f"Not found: {request.url.path}"))  # type: ignore[return-value]

    async def fail(_: Request, error: Exception) -> StarletteResponse:
        model.broke(error)
        return Refusal(ApiError(500, f"the simulated server raised {error!r}"))  # type: ignore[return-value]

    routes = [
        Route("/v1/messages", create, methods=["POST"]),
        Route("/v1/oauth/token", exchange, methods=["POST"]),
        Route("/v1/models/{id}", one),
    ]
    return Starlette(
        routes=routes, exception_handlers={404: unknown, ClientDisconnect: _ignore_disconnect, Exception: fail}
    )


def _one(model: ScriptedModel, request: Request) -> Plain | Refusal:
    entry = model.models.get(request.path_params["id"])
    if entry is None:
        return Refusal(ApiError(404, f"model: {request.path_params['id']}"))
    return Plain(model_info(entry, request.headers.get("anthropic-beta", "")))


async def _ignore_disconnect(_: Request, error: Exception) -> StarletteResponse:
    """Ignore a client that disconnects in mid-request: it is not this server's error, and nobody reads the answer."""
    return Refusal(ApiError(400, f"the request broke off: {error!r}"))  # type: ignore[return-value]


def _refusal(model: ScriptedModel, request: Request) -> Refusal | None:
    headers = dict(request.headers)
    checked = model.authenticate(b"{}", headers)
    error = checked if isinstance(checked, ApiError) else unknown_part(headers, {}, model.lacks)
    return Refusal(error) if error is not None else None
