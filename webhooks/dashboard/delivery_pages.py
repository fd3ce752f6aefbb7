"""Deliveries: what GitHub delivered, with a button to deliver it again, and the stored ones that wait for a check.

A person sees the deliveries of the repositories in which GitHub gives them a role. People who administer a repository
may have GitHub deliver again; a delivery only wakes the bot, so this decides nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import Request

from bot.core.actor import Role
from bot.core.errors import PlangateError, Refused
from bot.service.attempt_limit import AttemptLimit
from bot.service.overview.views import DeliveryView, SentDelivery
from webhooks.dashboard.pages import Answer, Page, Pages
from webhooks.dashboard.visits import NotAllowed, NotFound, Visit

PATH = "/deliveries"
MOST_REDELIVERIES = 20
"""Deliveries that one person may request again in REDELIVERY_SECONDS: each costs requests of the App."""
MOST_REDELIVERIES_IN_ALL = 60
REDELIVERY_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class SentRow:
    """One delivery that GitHub sent, as a person sees it."""

    delivery: SentDelivery
    repository: str
    may_redeliver: bool


def add_delivery_pages(pages: Pages) -> None:
    """Add the page of deliveries, and the address that its buttons post to."""
    board = pages.dashboard
    limit = AttemptLimit(board.clock, MOST_REDELIVERIES, MOST_REDELIVERIES_IN_ALL, REDELIVERY_SECONDS)

    async def deliveries(visit: Visit, request: Request) -> Answer:
        stored = [delivery for delivery in await board.reading.deliveries() if _may_see(visit, delivery)]
        try:
            sent, is_listed = sent_rows(visit, await board.reading.sent_deliveries()), True
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
                attempt = find_attempt(sent_rows(visit, await board.reading.sent_deliveries()), command[1])
                if not limit.has_room(visit.person):
                    raise Refused("too many deliveries were requested again in the last 10 minutes")
                limit.record(visit.person)
                await board.reading.redeliver(attempt)
                session.remember(command, PATH)
        return f"{PATH}?redelivered"

    pages.show(PATH, deliveries)
    pages.accept(PATH, redeliver)


def sent_rows(visit: Visit, deliveries: Sequence[SentDelivery]) -> list[SentRow]:
    """Return the deliveries about repositories that the person may read."""
    return [
        SentRow(
            delivery, visit.access.names.get(delivery.repository, ""), visit.role(delivery.repository) >= Role.ADMIN
        )
        for delivery in deliveries
        if delivery.repository is not None and visit.role(delivery.repository) >= Role.READ
    ]


def find_attempt(rows: Sequence[SentRow], number: str) -> int:
    """Return the attempt of that number. Raises NotFound and NotAllowed."""
    row = next((row for row in rows if str(row.delivery.attempt) == number), None)
    if row is None:
        raise NotFound
    if not row.may_redeliver:
        raise NotAllowed
    return row.delivery.attempt


def _may_see(visit: Visit, delivery: DeliveryView) -> bool:
    """Return whether a delivery concerns a thread that the person may see. Others are the operator's."""
    return visit.session is None or visit.role(delivery.repository or 0) >= Role.READ
