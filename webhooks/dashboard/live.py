"""Live updates by server-sent events: an event says that the page changed, and the page loads itself again.

An event's id names the state that the browser has seen. A browser that reconnects sends it back (Last-Event-ID), so
that nothing that happened meanwhile is missed.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

from fastapi import Request
from fastapi.responses import PlainTextResponse, Response

from bot.core.actor import Role
from bot.core.errors import PlangateError
from bot.core.names import ThreadAddress
from webhooks.dashboard.guard import HEADERS, NotServed
from webhooks.dashboard.pages import Pages, not_served
from webhooks.dashboard.thread_pages import newest_threads, threads_state, transcript_state
from webhooks.dashboard.visits import Dashboard, NotFound, NotSignedIn, Visit
from webhooks.event_stream import SIGN_OF_LIFE, EventStream, Streams
from webhooks.problems import Problem

LOOK_SECONDS: Final = 2.0
"""Seconds between two readings of the list of threads."""
GATHER_SECONDS: Final = 0.1
"""How long a check waits for further news, so that a burst of them is one event."""
THREAD_SECONDS: Final = 15.0
"""Seconds between two readings of a thread without an announcement: other processes write to journals, too."""


def add_live(pages: Pages, streams: Streams) -> None:
    """Add the streams of all threads and of one. `streams` counts those of the whole service."""
    board = pages.dashboard

    async def stream(request: Request) -> Response:
        try:
            visit = await board.visit(request)
            streams.check(visit.person)
            only = await board.address(visit, request) if "number" in request.path_params else None
        except (NotServed, NotFound):
            return not_served()
        except (NotSignedIn, PlangateError, Problem):
            return PlainTextResponse("", 204, HEADERS)  # 204 tells the browser not to connect again
        if visit.session is not None and not visit.access.roles:
            return PlainTextResponse("", 204, HEADERS)
        response = EventStream(streams, _events(board, request, visit, only), person=visit.person)
        response.headers.update(HEADERS)
        return response

    pages.router.add_api_route("/live", stream, methods=["GET"])
    for path in ("", "/transcripts/{session}"):
        pages.router.add_api_route("/live/{owner}/{name}/{number}" + path, stream, methods=["GET"])


async def _events(
    board: Dashboard, request: Request, visit: Visit, only: ThreadAddress | None
) -> AsyncGenerator[bytes]:
    """Yield an event whenever what the person may see is in another state than the browser knows."""
    last = request.headers.get("last-event-id") or request.query_params.get("seen", "")
    session, announcements = request.path_params.get("session", ""), board.reading.announcements
    pause = LOOK_SECONDS if only is None or session else THREAD_SECONDS

    def sees(repository: int) -> bool:
        return visit.role(repository) >= Role.READ  # as of the newest check, because `visit` is replaced below

    with announcements.subscribe(only) if only else announcements.subscribe_to_list(sees) as signal:
        while True:
            signal.clear()
            state = await _state(board, visit, only, session)
            yield SIGN_OF_LIFE if state == last else f"id: {state}\nevent: moved\ndata: 1\n\n".encode()
            last = state
            with suppress(TimeoutError):
                await asyncio.wait_for(signal.wait(), pause)
            await asyncio.sleep(GATHER_SECONDS)
            try:
                visit = await board.visit(request, is_use=False)
            except (NotSignedIn, PlangateError):
                return
            if only is not None and visit.role(only.repository) < Role.READ:
                return


async def _state(board: Dashboard, visit: Visit, only: ThreadAddress | None, session: str) -> str:
    if only is None:
        return threads_state(await newest_threads(board.reading, visit))
    if session:
        return await transcript_state(board.reading, only, session)
    return threads_state([(await board.reading.detail(only)).summary])
