"""Errors of the API as `application/problem+json` (https://www.rfc-editor.org/rfc/rfc9457): what, where, and how to fix
it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException

from bot.core.errors import Broken, PlangateError, Transient

MEDIA_TYPE = "application/problem+json"
API = "/api/"


@dataclass(frozen=True, slots=True)
class ProblemBody:
    """The body of an error."""

    type: str
    title: str
    """The name of the status."""
    status: int
    detail: str
    """What went wrong."""
    where: str
    fix: str
    """What to do about it."""


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


def problem_answers(answers: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of error responses for /openapi.json."""
    content = {MEDIA_TYPE: {"schema": TypeAdapter(ProblemBody).json_schema()}}
    return {status: {"description": text, "content": content} for status, text in answers.items()}


def add_problems(app: FastAPI) -> None:
    """Have errors of the API answered as problems. Other routes keep FastAPI's answers."""

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
