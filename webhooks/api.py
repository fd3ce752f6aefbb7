"""The API's routes: threads, journals, their events, and what people say (docs/api.md). SHELL: no rules here."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, FastAPI, Header, Path, Query, Request
from fastapi.responses import Response
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from starlette.requests import ClientDisconnect

from bot.config.settings import Settings
from bot.core.errors import PlangateError, Refused
from bot.core.gate import Stage
from bot.core.names import ThreadAddress
from bot.core.secrets.redaction import Redactor
from bot.logs import failure
from bot.service.overview.agent_tree import JournalStep
from bot.service.overview.overview import News, Overview, follow_thread
from bot.service.overview.thread_index import LONGEST_CURSOR, MOST_ROWS, USUAL_ROWS, ThreadQuery
from bot.service.overview.thread_views import timeline_entry
from bot.service.overview.views import ThreadDetail, ThreadSummary, TimelineEntry, WaitsFor
from bot.service.person_turns import PostedTurn, TurnFault, TurnOrder, TurnRefused
from webhooks.access import Problem, add_problems, json_response, problem_answers, read_body, require_operator
from webhooks.event_stream import SIGN_OF_LIFE, EventStream, Streams, encode_event

MOST_ENTRIES: Final = 500
"""Most journal entries in one response."""
NAME: Final = r"^[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*$"
"""What can be the name of an owner or a repository: not "..", which would make another path at GitHub."""
OPERATOR: Final = Depends(HTTPBearer(scheme_name="operator", description="PLANGATE_API_TOKEN", auto_error=False))
"""Names the token for /openapi.json. `require_operator` checks it."""
UNAUTHORIZED: Final = {401: "A bearer token is needed: PLANGATE_API_TOKEN."}
MALFORMED: Final = {422: "A parameter is malformed."}
OF_A_THREAD: Final = {
    **UNAUTHORIZED,
    **MALFORMED,
    404: "There is no such thread, or you may not see it.",
    409: "The journal cannot be read: it is protected by another key, or was altered.",
    503: "GitHub does not answer, and nothing was read before.",
}


_PARTS: Final = {part.name: (part.type, ...) for cls in (ThreadSummary, ThreadDetail) for part in fields(cls)}
ThreadBody = create_model("Thread", **{name: part for name, part in _PARTS.items() if name != "summary"})  # type: ignore[call-overload]  # fields by name
"""One thread: the row of the list, and the fields of `ThreadDetail` beside it."""


@dataclass(frozen=True, slots=True)
class JournalBody(TimelineEntry):
    """One journal entry: in plain words, and as it is stored."""

    body: dict[str, Any]
    """The fields of its kind, without secrets."""


@dataclass(frozen=True, slots=True)
class ThreadPath:
    """The thread that a path names."""

    owner: Annotated[str, Path(max_length=100, pattern=NAME, description="The repository's owner.")]
    repo: Annotated[str, Path(max_length=100, pattern=NAME, description="The repository's name.")]
    number: Annotated[int, Path(ge=1, lt=10**15, description="The number of the issue or pull request.")]


class ThreadFilters(BaseModel):
    """The parameters of the list of threads."""

    repository: str = Field("", max_length=201, description="`owner/name`, in any case.")
    stage: list[Stage] = Field([], description="One of these stages.")
    waiting_for: list[WaitsFor] = Field([], description="Waiting for one of these.")
    search: str = Field("", max_length=200, description="Words of the title, the name, the number, or the requester.")
    limit: int = Field(USUAL_ROWS, ge=1, le=MOST_ROWS)
    after: str = Field("", max_length=LONGEST_CURSOR, description="The cursor in the link to the next page.")

    def query(self) -> ThreadQuery:
        """Return the query of these parameters."""
        stages, waiting = frozenset(self.stage), frozenset(self.waiting_for)
        return ThreadQuery(self.repository, stages, waiting, self.search, limit=self.limit, after=self.after)


@dataclass(frozen=True, slots=True)
class ApiParts:
    """What the reading routes share."""

    overview: Overview
    settings: Settings

    async def find(self, request: Request, path: ThreadPath) -> ThreadAddress:
        """Return the address of a thread, to the operator. Raises Problem: 401 for others, or 404."""
        require_operator(self.settings, request)
        repository = f"{path.owner}/{path.repo}"
        address = await self.overview.find(repository, path.number)
        if address is None:
            raise Problem(404, "there is no such thread, or you may not see it", f"{repository}#{path.number}", FIND)
        return address


FIND: Final = "list the threads with GET /api/threads, or run `plangate reindex`"


def add_api(app: FastAPI, *, parts: ApiParts, streams: Streams, post_turn: "PostTurn") -> None:
    """Add the routes, and answer errors of the API as problems."""
    add_problems(app)
    reading = APIRouter(prefix="/api/threads", tags=["threads"], dependencies=[OPERATOR])
    _add_list(reading, parts)
    _add_thread(reading, parts)
    _add_journal(reading, parts)
    _add_events(reading, parts, streams)
    app.include_router(reading)
    turns = APIRouter(prefix="/api/threads", tags=["turns"])
    _add_turns(turns, post_turn)
    app.include_router(turns)


def _add_list(router: APIRouter, parts: ApiParts) -> None:
    @router.get("", response_model=list[ThreadSummary], responses=problem_answers({**UNAUTHORIZED, **MALFORMED}))
    async def threads(request: Request, filters: Annotated[ThreadFilters, Query()]) -> Response:
        """List threads, the ones that changed last first.

        The header `Link` has the next page, `X-Total-Count` the number of threads on all pages.
        """
        require_operator(parts.settings, request)
        try:
            page = await parts.overview.page(filters.query())
        except Refused as error:
            raise Problem(422, error.what, error.where, error.fix) from None
        headers = {"x-total-count": str(page.total), **_link(request, page.next)}
        return json_response(as_json(page.threads), headers=headers)


def _add_thread(router: APIRouter, parts: ApiParts) -> None:
    @router.get("/{owner}/{repo}/{number}", response_model=ThreadBody, responses=problem_answers(OF_A_THREAD))
    async def thread(request: Request, path: Annotated[ThreadPath, Depends()]) -> Response:
        """Return one thread: what the list has of it, its plans, agents, checks, approvals, and timeline."""
        address = await parts.find(request, path)
        return json_response(thread_json(await parts.overview.detail(address)))


def _add_journal(router: APIRouter, parts: ApiParts) -> None:
    @router.get(
        "/{owner}/{repo}/{number}/journal", response_model=list[JournalBody], responses=problem_answers(OF_A_THREAD)
    )
    async def journal(
        request: Request,
        path: Annotated[ThreadPath, Depends()],
        after: Annotated[int, Query(ge=0, lt=10**15, description="The number of the last entry that you have.")] = 0,
        limit: Annotated[int, Query(ge=1, le=MOST_ENTRIES)] = MOST_ENTRIES,
    ) -> Response:
        """Return the entries of a thread's journal, oldest first. The header `Link` has the next page."""
        address = await parts.find(request, path)
        steps = await parts.overview.steps(address)
        page = steps[after : after + limit]
        cursor = str(after + limit) if len(steps) > after + limit else None
        lines = [journal_json(step, parts.overview.recorder.redactor) for step in page]
        return json_response(lines, headers=_link(request, cursor))


def journal_json(step: JournalStep, redactor: Redactor) -> dict[str, Any]:
    """Return one journal entry as JSON, without secrets."""
    fields = as_json(timeline_entry(step)) | {"body": step.entry.body}
    return {key: redactor.redact_json(value) if key in _FREE_TEXTS else value for key, value in fields.items()}


_FREE_TEXTS: Final = frozenset({"text", "people", "body"})


def thread_json(detail: ThreadDetail) -> dict[str, Any]:
    """Return a thread as one flat object: its row of the list, and the rest beside."""
    fields: dict[str, Any] = as_json(detail)
    summary: dict[str, Any] = fields.pop("summary")
    return summary | fields


def as_json(value: Any) -> Any:
    """Return a view as JSON. Times are ISO 8601."""
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: as_json(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Mapping):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [as_json(item) for item in value]
    return value.isoformat() if isinstance(value, date | datetime) else value


def _link(request: Request, cursor: str | None) -> dict[str, str]:
    """Return the Link header of the next page: https://www.rfc-editor.org/rfc/rfc8288"""
    if cursor is None:
        return {}
    others = [(name, value) for name, value in request.query_params.multi_items() if name != "after"]
    return {"link": f'<{request.scope["path"]}?{urlencode([*others, ("after", cursor)])}>; rel="next"'}


# --- The event stream of one thread

_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The stream. `entry` has an entry of the journal as JSON, and its number as id. `reset` says"
        " that somebody set the journal back to the entry with that number.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    },
}


def _add_events(router: APIRouter, parts: ApiParts, streams: Streams) -> None:
    answers = problem_answers(
        OF_A_THREAD | {503: "Too many streams are open, or GitHub does not answer: try again later."}
    )

    @router.get(
        "/{owner}/{repo}/{number}/events",
        status_code=200,
        response_class=EventStream,
        responses={**_STREAM, **answers},
    )
    async def events(
        request: Request,
        path: Annotated[ThreadPath, Depends()],
        last_event_id: Annotated[int | None, Header(ge=0, lt=10**15, description="The last entry you have.")] = None,
        after: Annotated[int, Query(ge=0, lt=10**15, description="The same, without a header.")] = 0,
    ) -> Response:
        """Follow a thread: the entries after the last one that you have, and then every further one as it comes.

        The stream ends after ten minutes. Connect again with `Last-Event-ID`: nothing is missed or repeated.
        """
        address = await parts.find(request, path)
        streams.check()
        position = after if last_event_id is None else last_event_id
        news = follow_thread(parts.overview, address, position)
        first = await anext(news)  # what cannot be read is answered with its status, not with a stream
        return EventStream(streams, _lines(parts, address, first, news))


async def _lines(
    parts: ApiParts, address: ThreadAddress, first: News, news: AsyncGenerator[News]
) -> AsyncGenerator[bytes]:
    """Yield the bytes of each event. A journal that can no longer be read ends the stream."""
    yield _encode(parts, first)
    try:
        async with aclosing(news):
            async for news_item in news:
                yield _encode(parts, news_item)
    except PlangateError as error:
        failure("events", error, thread=str(address))


def _encode(parts: ApiParts, news: News) -> bytes:
    if news.set_back_to is not None:
        return encode_event("reset", {"position": news.set_back_to}, news.set_back_to)
    redactor = parts.overview.recorder.redactor
    return b"".join(encode_event("entry", journal_json(step, redactor), step.entry.n) for step in news.steps) or (
        SIGN_OF_LIFE
    )


# --- The route on which people speak

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


def _add_turns(router: APIRouter, post_turn: PostTurn) -> None:
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


async def _read_text(request: Request) -> str:
    """Return the text in a body. Raises Problem."""
    try:
        content = await read_body(request, LARGEST)
    except ClientDisconnect:
        raise Problem(422, "the body ended early", "body", "send all of it") from None
    if content is None:
        raise Problem(413, f"the body has more than {LARGEST:,} bytes", "body", "write less")
    try:
        return TurnBody.model_validate_json(content).text
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(("body", *map(str, first["loc"])))
        raise Problem(422, str(first["msg"]), where, 'send {"text": "..."}') from None
