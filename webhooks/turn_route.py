"""The API's route on which people speak: a turn is posted by their own token (docs/api.md). SHELL: no rules
here."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Depends, FastAPI, Header, Request
from fastapi.responses import Response
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import ClientDisconnect

from bot.service.person_turns import PostedTurn, TurnFault, TurnOrder, TurnRefused
from webhooks.api import ThreadPath, as_json
from webhooks.problems import Problem, json_response, problem_answers

LARGEST: Final = 512 * 1024
"""Maximum bytes of a body: room for a comment of 65,536 characters, GitHub's limit."""
_STATUS: Final = {
    TurnFault.NOT_SIGNED_IN: 401,
    TurnFault.NOT_VISIBLE: 404,
    TurnFault.NOT_ALLOWED: 403,
    TurnFault.KEY_REUSED: 409,
    TurnFault.IN_PROGRESS: 409,
    TurnFault.TOO_MANY: 429,
}
_HEADERS: Final = {
    401: {"www-authenticate": "Bearer"},
    429: {"retry-after": "600"},
}
_ANSWERS: Final = {
    401: "The token is no GitHub token of a person, or GitHub refuses it.",
    403: "You may see the repository, but not ask the bot there, or not comment on this thread.",
    404: "There is no such thread, or you may not see it.",
    409: "The idempotency key was used for another text, or the comment is being posted.",
    413: "The body is too large.",
    422: "The body or a parameter is malformed.",
    429: "Too many tokens, or comments of this person or of all people, were refused recently.",
    503: "GitHub does not answer. Repeat the request with the same key: it posts once.",
}


class TurnBody(BaseModel):
    """What a person says."""

    model_config = ConfigDict(extra="forbid")
    text: str = Field(min_length=1, max_length=65_536, pattern=r"\S")
    """Markdown. A text that does not mention the bot is posted after its mention."""


@dataclass(frozen=True, slots=True)
class TurnAnswer:
    """The comment that a turn became."""

    url: str
    author: str


PostTurn = Callable[[TurnOrder], Awaitable[PostedTurn]]
"""Posts a turn once per person and key. Raises TurnRefused and Transient."""


def add_turns(app: FastAPI, post_turn: PostTurn) -> None:
    """Add the route on which people speak."""
    router = APIRouter(prefix="/api/threads", tags=["turns"])
    token = HTTPBearer(scheme_name="person", description="A GitHub token of the person who speaks.", auto_error=False)
    body = {"required": True, "content": {"application/json": {"schema": TurnBody.model_json_schema()}}}

    @router.post(
        "/{owner}/{repo}/{number}/turns",
        status_code=201,
        response_model=TurnAnswer,
        responses=problem_answers(_ANSWERS),
        dependencies=[Depends(token)],
        openapi_extra={"requestBody": body},
    )
    async def post(
        request: Request,
        path: Annotated[ThreadPath, Depends()],
        idempotency_key: Annotated[str, Header(pattern=r"^[!-~]{1,128}$", description="Your name for the comment.")],
    ) -> Response:
        """Post what you say on a thread: the comment is yours, made with your token.

        The same key posts once for seven days, however often it is sent.
        """
        credentials = request.headers.get("authorization", "").removeprefix("Bearer ")
        text = await _read_text(request)
        order = TurnOrder(f"{path.owner}/{path.repo}", path.number, text, idempotency_key, credentials)
        try:
            return json_response(as_json(await post_turn(order)), 201)
        except TurnRefused as error:
            status = _STATUS[error.fault]
            raise Problem(status, error.what, error.where, error.fix, headers=_HEADERS.get(status)) from None

    app.include_router(router)


async def _read_text(request: Request) -> str:
    """Return the text in a body. Raises Problem."""
    content = b""
    try:
        async for piece in request.stream():
            content += piece
            if len(content) > LARGEST:
                raise Problem(413, f"the body has more than {LARGEST:,} bytes", "body", "write less")
    except ClientDisconnect:
        raise Problem(422, "the body ended early", "body", "send all of it") from None
    try:
        return TurnBody.model_validate_json(content).text
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(("body", *map(str, first["loc"])))
        raise Problem(422, str(first["msg"]), where, 'send {"text": "..."}') from None
