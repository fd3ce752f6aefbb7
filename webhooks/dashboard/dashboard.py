"""Joins the dashboard to the HTTP of the service."""

from fastapi import APIRouter, FastAPI

from bot.service.overview.overview import Overview
from bot.service.viewers import SignIn
from webhooks.dashboard.commands import add_commands
from webhooks.dashboard.delivery_pages import add_delivery_pages
from webhooks.dashboard.figures_pages import add_figures_pages
from webhooks.dashboard.live import add_live
from webhooks.dashboard.pages import Pages, add_assets
from webhooks.dashboard.sessions import Attempts, Sessions
from webhooks.dashboard.sign_in import add_sign_in
from webhooks.dashboard.thread_pages import add_thread_pages
from webhooks.dashboard.visits import Dashboard
from webhooks.event_stream import Streams


def add_dashboard(app: FastAPI, *, reading: Overview, sign_in: SignIn, streams: Streams) -> None:
    """Add the pages to an application."""
    board = Dashboard(reading, sign_in, Sessions(sign_in.clock), Attempts(sign_in.clock))
    pages = Pages(board, APIRouter(include_in_schema=False))
    add_assets(pages.router)
    add_sign_in(pages)
    add_thread_pages(pages)
    add_commands(pages)
    add_figures_pages(pages)
    add_delivery_pages(pages)
    add_live(pages, streams)
    app.include_router(pages.router)
    pages.add_error_pages(app)
