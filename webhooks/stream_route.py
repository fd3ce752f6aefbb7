"""The API's event stream of one thread: its journal, entry by entry, as the entries come. SHELL: no rules here."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request
from starlette.responses import Response

from bot.core.errors import PlangateError
from bot.core.names import ThreadAddress
from bot.logs import failure
from bot.service.overview.following import News, follow_thread
from webhooks.api import OF_A_THREAD, OPERATOR, ApiParts, ThreadPath, journal_json
from webhooks.event_stream import SIGN_OF_LIFE, EventStream, Streams, encode_event
from webhooks.problems import problem_answers

_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The stream. `entry` has an entry of the journal as JSON, and its number as id. `reset` says"
        " that somebody set the journal back to the entry with that number.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    },
}


def add_events(app: FastAPI, parts: ApiParts, streams: Streams) -> None:
    """Add the route of the event streams."""
    router = APIRouter(prefix="/api/threads", tags=["threads"], dependencies=[OPERATOR])
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

    app.include_router(router)


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
    redactor = parts.overview.redactor
    return b"".join(encode_event("entry", journal_json(step, redactor), step.entry.n) for step in news.steps) or (
        SIGN_OF_LIFE
    )
