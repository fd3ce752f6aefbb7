"""What all routes share: errors as `application/problem+json`, bounded bodies, and who may read the service's data."""

import hmac
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from fastapi import FastAPI, Request
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from bot.config.settings import Settings
from bot.core.errors import Broken, PlangateError, Transient

MEDIA_TYPE = "application/problem+json"
"""https://www.rfc-editor.org/rfc/rfc9457"""
API = "/api/"


@dataclass(frozen=True, slots=True)
class ProblemBody:
    """The body of an error."""

    type: str
    title: str
    status: int
    detail: str
    where: str
    fix: str


class Problem(Exception):
    """An error with its status."""

    def __init__(
        self, status: int, what: str, where: str = "", fix: str = "", *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(what)
        self.status, self.what, self.where, self.fix = status, what, where, fix
        self.headers = headers


def problem_response(problem: Problem) -> Response:
    """Return the response for a problem."""
    title = HTTPStatus(problem.status).phrase
    body = ProblemBody("about:blank", title, problem.status, problem.what, problem.where, problem.fix)
    return json_response(asdict(body), problem.status, problem.headers, media_type=MEDIA_TYPE)


def json_response(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None, *, media_type: str = "application/json"
) -> Response:
    """Return a JSON response that no cache keeps. Half a surrogate pair, which the journal may hold, is escaped."""
    content = json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    return Response(content, status, {**(headers or {}), "cache-control": "no-store"}, media_type)


async def read_body(request: Request, most: int) -> bytes | None:
    """Return the body of a request; None if it has more than `most` bytes. Raises ClientDisconnect if it ends early."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            return None
    return body


async def read_fields(request: Request, most: int) -> dict[str, str] | None:
    """Return the fields of a form; None if it has more than `most` bytes or ends early."""
    with suppress(ClientDisconnect):
        if (body := await read_body(request, most)) is not None:
            return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    return None


def problem_answers(answers: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of error responses for /openapi.json."""
    content = {MEDIA_TYPE: {"schema": TypeAdapter(ProblemBody).json_schema()}}
    return {status: {"description": text, "content": content} for status, text in answers.items()}


def add_problems(app: FastAPI) -> None:
    """Respond to errors of the API with problems. Other routes keep FastAPI's responses."""

    @app.exception_handler(Problem)
    async def problem(_: Request, error: Problem) -> Response:
        return problem_response(error)

    @app.exception_handler(PlangateError)
    async def failure(_: Request, error: PlangateError) -> Response:
        status = 503 if isinstance(error, Transient) else 500 if isinstance(error, Broken) else 409
        return problem_response(Problem(status, error.what, error.where, error.fix))

    @app.exception_handler(RequestValidationError)
    async def validation(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return problem_response(Problem(422, str(first["msg"]), where, "see /openapi.json"))

    @app.exception_handler(HTTPException)
    async def refusal(request: Request, error: HTTPException) -> Response:
        if not request.scope["path"].startswith(API):
            return await http_exception_handler(request, error)
        about = request.scope["path"], "see /openapi.json"
        return problem_response(Problem(error.status_code, str(error.detail), *about, headers=error.headers))


# --- Who may read the service's data

_FORWARDED: Final = frozenset({"forwarded", "via", "x-real-ip"})
"""Headers that proxies add, besides those that begin with x-forwarded-."""
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1"})
_NAMES: Final = _LOOPBACK | {"localhost"}


def may_read(settings: Settings, request: Request) -> bool:
    """Return whether a caller may read the service's data.

    Callers with the API token may. If the service has neither a token nor a public URL, programs on this machine may
    too. A proxy on this machine cannot be told from such a program, whoever its client is, if it adds no header and
    names this machine as the host, as nginx does by default. So once a token or a public URL is set, only the token
    counts (W1b).
    """
    if token := settings.github.api_token.reveal().encode():
        presented = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
        return hmac.compare_digest(presented, token)
    return is_served_locally(settings, request)


def is_served_locally(settings: Settings, request: Request) -> bool:
    """Return whether a request comes from this machine to a service that is meant for this machine alone.

    The request comes from this machine, names this machine, and did not pass a proxy. A page on the internet can point
    its own name to 127.0.0.1 (DNS rebinding), so that a browser here sends requests; those carry that name.
    """
    if settings.service.public_url or request.client is None or request.client.host not in _LOOPBACK:
        return False
    try:
        name = urlsplit(f"//{request.headers.get('host', '')}").hostname
    except ValueError:  # a bracket without its pair
        return False
    is_forwarded = any(name in _FORWARDED or name.startswith("x-forwarded-") for name in request.headers)
    return name in _NAMES and not is_forwarded


def require_operator(settings: Settings, request: Request) -> None:
    """Raise Problem for everybody but the operator, who may read everything."""
    if not may_read(settings, request):
        fix = "send the header `Authorization: Bearer` with PLANGATE_API_TOKEN, which the service must have, too"
        raise Problem(401, "a bearer token is needed", "Authorization", fix, headers={"www-authenticate": "Bearer"})
