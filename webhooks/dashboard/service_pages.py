"""The pages of the service: deliveries, figures, live updates; and the dashboard as a whole."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import PlainTextResponse, Response

from bot.core.errors import PlangateError, Refused
from bot.core.names import ThreadAddress
from bot.core.turn import Role
from bot.service.overview.overview import Overview, SentDelivery
from bot.service.overview.views import CostLine
from bot.service.queue.queue_port import StoredDelivery
from bot.service.viewers import AttemptLimit, SignIn
from webhooks.access import Problem
from webhooks.dashboard.pages import (
    HEADERS,
    Answer,
    Attempts,
    NotAllowed,
    NotFound,
    NotServed,
    NotSignedIn,
    Page,
    Pages,
    Sessions,
    Visit,
    add_assets,
    not_served,
)
from webhooks.dashboard.sign_in import add_sign_in
from webhooks.dashboard.thread_pages import (
    add_commands,
    add_thread_pages,
    newest_threads,
    threads_state,
    transcript_state,
)
from webhooks.event_stream import SIGN_OF_LIFE, EventStream, Streams

# --- Live updates by server-sent events -------------------------------------------------------------------------------
# An event says that the page changed, and the page loads itself again.
# An event's id names the state that the browser has seen. A browser that reconnects sends the id back (Last-Event-ID),
# so that no change in between is missed.

LIST_SECONDS: Final = 2.0
"""Seconds between two readings of the list of threads."""
GATHER_SECONDS: Final = 0.1
"""How long a check waits for further news, so that a burst of them is one event."""
THREAD_SECONDS: Final = 15.0
"""Seconds between two readings of a thread without an announcement: other processes write to journals, too."""


def add_live(pages: Pages, streams: Streams) -> None:
    """Add the streams of all threads and of one. `streams` counts those of the whole service."""

    async def stream(request: Request) -> Response:
        try:
            visit = await pages.visit(request)
            streams.check(visit.person)
            only = await pages.address(visit, request) if "number" in request.path_params else None
        except (NotServed, NotFound):
            return not_served()
        except (NotSignedIn, PlangateError, Problem):
            return PlainTextResponse("", 204, HEADERS)  # 204 tells the browser not to connect again
        if visit.session is not None and not visit.access.roles:
            return PlainTextResponse("", 204, HEADERS)
        response = EventStream(streams, _events(pages, request, visit, only), person=visit.person)
        response.headers.update(HEADERS)
        return response

    pages.router.add_api_route("/live", stream, methods=["GET"])
    for path in ("", "/transcripts/{session}"):
        pages.router.add_api_route("/live/{owner}/{name}/{number}" + path, stream, methods=["GET"])


async def _events(pages: Pages, request: Request, visit: Visit, only: ThreadAddress | None) -> AsyncGenerator[bytes]:
    """Yield an event whenever the visible state differs from the state that the browser knows."""
    last = request.headers.get("last-event-id") or request.query_params.get("seen", "")
    session, announcements = request.path_params.get("session", ""), pages.reading.recorder.announcements
    pause = LIST_SECONDS if only is None or session else THREAD_SECONDS

    def sees(repository: int) -> bool:
        return visit.role(repository) >= Role.READ  # by the newest visit: `visit` is replaced below

    with announcements.subscribe(only) if only else announcements.subscribe_to_list(sees) as signal:
        while True:
            signal.clear()
            state = await _state(pages, visit, only, session)
            yield SIGN_OF_LIFE if state == last else f"id: {state}\nevent: moved\ndata: 1\n\n".encode()
            last = state
            with suppress(TimeoutError):
                await asyncio.wait_for(signal.wait(), pause)
            await asyncio.sleep(GATHER_SECONDS)
            try:
                visit = await pages.visit(request, is_use=False)
            except (NotSignedIn, PlangateError):
                return
            if only is not None and visit.role(only.repository) < Role.READ:
                return


async def _state(pages: Pages, visit: Visit, only: ThreadAddress | None, session: str) -> str:
    if only is None:
        return threads_state(await newest_threads(pages.reading, visit))
    if session:
        return await transcript_state(pages.reading, only, session)
    return threads_state([(await pages.reading.detail(only)).summary])


# --- Deliveries -------------------------------------------------------------------------------------------------------
# The page lists what GitHub delivered, with a button to deliver it again, and the stored deliveries that wait for a
# check. A person sees the deliveries of the repositories in which GitHub gives them a role. People who administer a
# repository may have GitHub deliver again; a delivery only wakes the bot, so this decides nothing.

PATH = "/deliveries"
MOST_REDELIVERIES = 20
"""Deliveries that one person may request again in REDELIVERY_SECONDS: each costs requests of the App."""
MOST_REDELIVERIES_IN_ALL = 60
REDELIVERY_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class SentRow:
    """One delivery that GitHub sent, as a person sees it."""

    attempts: SentDelivery
    repository: str
    may_redeliver: bool


def add_delivery_pages(pages: Pages) -> None:
    """Add the page of deliveries, and the address that its buttons post to."""
    limit = AttemptLimit(pages.clock, MOST_REDELIVERIES, MOST_REDELIVERIES_IN_ALL, REDELIVERY_SECONDS)

    async def deliveries(visit: Visit, request: Request) -> Answer:
        stored = [
            (delivery, datetime.fromtimestamp(delivery.stored_at, UTC))
            for delivery in await pages.reading.deliveries()
            if _may_see(visit, delivery)
        ]
        try:
            sent, is_listed = sent_rows(visit, await pages.reading.sent_deliveries()), True
        except PlangateError:  # GitHub does not answer; what is stored here can be shown all the same
            sent, is_listed = [], False
        is_redelivered = "redelivered" in request.query_params
        values = {"rows": stored, "sent": sent, "listed": is_listed, "is_redelivered": is_redelivered}
        return Page("deliveries.html", "Deliveries", values)

    async def redeliver(visit: Visit, _: Request, form: Mapping[str, str]) -> Answer:
        command, session = ("redeliver", form.get("attempt", "")), visit.session
        if session is None:
            raise NotAllowed
        async with session.command_lock:  # a form that is sent twice acts once
            if command not in session.posted:
                attempt = find_attempt(sent_rows(visit, await pages.reading.sent_deliveries()), command[1])
                if not limit.has_room(visit.person):
                    raise Refused("too many deliveries were requested again in the last 10 minutes")
                limit.record(visit.person)
                await pages.reading.sent.redeliver(attempt)
                session.remember(command, PATH)
        return f"{PATH}?redelivered"

    pages.show(PATH, deliveries)
    pages.accept(PATH, redeliver)


def sent_rows(visit: Visit, deliveries: Sequence[SentDelivery]) -> list[SentRow]:
    """Return the deliveries about repositories that the person may read."""
    return [
        SentRow(attempts, visit.access.names.get(repository, ""), visit.role(repository) >= Role.ADMIN)
        for attempts in deliveries
        if (repository := attempts[0].repository) is not None and visit.role(repository) >= Role.READ
    ]


def find_attempt(rows: Sequence[SentRow], number: str) -> int:
    """Return the attempt of that number. Raises NotFound and NotAllowed."""
    row = next((row for row in rows if str(row.attempts[0].id) == number), None)
    if row is None:
        raise NotFound
    if not row.may_redeliver:
        raise NotAllowed
    return row.attempts[0].id


def _may_see(visit: Visit, delivery: StoredDelivery) -> bool:
    """Return whether a delivery concerns a thread that the person may see. Others are the operator's."""
    return visit.session is None or visit.role(delivery.address.repository if delivery.address else 0) >= Role.READ


# --- Costs as charts, scheduled tasks, and what the service does

PERIODS: Final = (7, 30, 90)
DEFAULT_DAYS: Final = 30


def add_figures_pages(pages: Pages) -> None:
    """Add the pages of costs, scheduled tasks, and the service."""

    async def costs(visit: Visit, request: Request) -> Answer:
        parameter = request.query_params.get("days", "")
        days = next((period for period in PERIODS if str(period) == parameter), DEFAULT_DAYS)
        today = pages.clock.now().date()
        since = today - timedelta(days=days - 1)
        report = await pages.reading.costs(visit.visible, since)
        values = {"costs": report, "days": every_day(report.days, since, today), "period": days, "periods": PERIODS}
        return Page("costs.html", "Costs", values)

    async def maintenance(visit: Visit, _: Request) -> Answer:
        tasks = await pages.reading.tasks(visit.visible)
        return Page("maintenance.html", "Maintenance", {"tasks": tasks})

    async def service(visit: Visit, _: Request) -> Answer:
        if visit.session is not None and not visit.access.roles:
            raise NotFound
        health = await pages.reading.health()
        if visit.session is not None:
            own = visit.access.installations
            health = replace(health, rate_limits=tuple(limit for limit in health.rate_limits if limit[0] in own))
        read_at = health.state["reconciled"]
        reconciled = datetime.fromisoformat(str(read_at)) if read_at else None
        return Page("service.html", "Service", {"health": health, "reconciled": reconciled})

    pages.show("/costs", costs)
    pages.show("/maintenance", maintenance)
    pages.show("/service", service)


def every_day(lines: tuple[CostLine, ...], since: date, until: date) -> list[CostLine]:
    """Return one line for each day, also for those that cost nothing."""
    by_name = {line.name: line for line in lines}
    names = [(since + timedelta(days=step)).isoformat() for step in range((until - since).days + 1)]
    return [by_name.get(name, CostLine(name, 0.0, 0, 0)) for name in names]


def add_dashboard(app: FastAPI, *, reading: Overview, sign_in: SignIn, streams: Streams) -> None:
    """Add the pages to an application."""
    router = APIRouter(include_in_schema=False)
    pages = Pages(reading, sign_in, Sessions(sign_in.clock), Attempts(sign_in.clock), router)
    add_assets(pages.router)
    add_sign_in(pages)
    add_thread_pages(pages)
    add_commands(pages)
    add_figures_pages(pages)
    add_delivery_pages(pages)
    add_live(pages, streams)
    app.include_router(pages.router)
    pages.add_error_pages(app)
