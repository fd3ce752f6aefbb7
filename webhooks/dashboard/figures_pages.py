"""Costs as charts, and what the service does: workers, limits, and scheduled tasks."""

from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Final

from fastapi import Request

from bot.service.overview.views import CostLine
from webhooks.dashboard.pages import Answer, Page, Pages
from webhooks.dashboard.visits import NotFound, Visit

PERIODS: Final = (7, 30, 90)
DEFAULT_DAYS: Final = 30


def add_figures_pages(pages: Pages) -> None:
    """Add the pages of costs, scheduled tasks, and the service."""
    board = pages.dashboard

    async def costs(visit: Visit, request: Request) -> Answer:
        parameter = request.query_params.get("days", "")
        days = next((period for period in PERIODS if str(period) == parameter), DEFAULT_DAYS)
        today = board.clock.now().date()
        since = today - timedelta(days=days - 1)
        report = await board.reading.costs(visit.visible, since)
        values = {"costs": report, "days": every_day(report.days, since, today), "period": days, "periods": PERIODS}
        return Page("costs.html", "Costs", values)

    async def maintenance(visit: Visit, _: Request) -> Answer:
        tasks = await board.reading.tasks(visit.visible)
        return Page("maintenance.html", "Maintenance", {"tasks": tasks})

    async def service(visit: Visit, _: Request) -> Answer:
        if visit.session is not None and not visit.access.roles:
            raise NotFound
        health = await board.reading.health()
        if visit.session is not None:
            own = visit.access.installations
            health = replace(
                health, rate_limits=tuple(limit for limit in health.rate_limits if limit.installation in own)
            )
        reconciled = datetime.fromisoformat(health.reconciled) if health.reconciled else None
        return Page("service.html", "Service", {"health": health, "reconciled": reconciled})

    pages.show("/costs", costs)
    pages.show("/maintenance", maintenance)
    pages.show("/service", service)


def every_day(lines: tuple[CostLine, ...], since: date, until: date) -> list[CostLine]:
    """Return one line for each day, also for those that cost nothing."""
    by_name = {line.name: line for line in lines}
    names = [(since + timedelta(days=step)).isoformat() for step in range((until - since).days + 1)]
    return [by_name.get(name, CostLine(name, 0.0, 0, 0)) for name in names]
