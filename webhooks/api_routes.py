"""Joins the API's routes to a service: reading, event streams, and turns of people."""

from collections.abc import Callable

from fastapi import FastAPI

from bot.compose.github import GitHubHost
from bot.compose.person_host import GitHubPersonHost
from bot.config.settings import Secret
from bot.service.overview.overview import Overview
from bot.service.person_turns import PersonTurns
from bot.service.turn_ledger import TurnLedger
from webhooks.access import OperatorOnly
from webhooks.api import ApiParts, add_api
from webhooks.event_stream import Streams
from webhooks.stream_route import add_events
from webhooks.turn_route import TurnPoster, add_turns


def api_routes(overview: Overview, turns: TurnPoster, api_token: Secret, streams: Streams) -> Callable[[FastAPI], None]:
    """Return a function that adds the API's routes to an application."""

    def add(app: FastAPI) -> None:
        parts = ApiParts(overview, OperatorOnly(api_token))
        add_api(app, parts)
        add_events(app, parts, streams)
        add_turns(app, turns)

    return add


def person_turns(host: GitHubHost) -> PersonTurns:
    """Return the component that posts people's turns in the repositories that a host serves."""
    return PersonTurns(GitHubPersonHost(host), TurnLedger(host.settings.data_dir / "turns"), host.clock)
