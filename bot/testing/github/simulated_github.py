"""The simulated GitHub as a context manager: two addresses on 127.0.0.1 and everything behind them.

`api_url` serves REST, and GraphQL at /graphql; `server_url` serves git smart HTTP and the pages for people.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from bot.ports import Clock
from bot.testing.github.credentials import register_app
from bot.testing.github.entities import App
from bot.testing.github.faults import FaultInjector, Faults, Logged
from bot.testing.github.git_http import git_routes
from bot.testing.github.graphql.graphql_api import graphql_route
from bot.testing.github.oauth import OAuth, oauth_routes
from bot.testing.github.rest.application import routes
from bot.testing.github.rest.endpoint import ApiError, RateLimits
from bot.testing.github.rest.runs import log_routes
from bot.testing.github.shapes import Site
from bot.testing.github.webhooks import Webhooks
from bot.testing.github.world import GitHubState, TurnedClock
from bot.testing.host import host_application


class SimulatedGitHub:
    """One GitHub in a folder; `with SimulatedGitHub(folder) as github: github.api_url, github.world`.

    `clock` is its time (default: a clock that moves only with `clock.advance`). `pages` creates the routes of the pages
    for people. `slug` names the App that is registered with it. If the server itself fails, the context raises that
    error when it ends.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Clock | None = None,
        slug: str = "plangate",
        pages: Callable[[GitHubState], Sequence[BaseRoute]] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.world = GitHubState(folder, clock or TurnedClock())
        self.app: App = register_app(self.world, slug, owner="plangate-operator")
        self.faults = Faults(self.world)
        self.limits = RateLimits()
        self.oauth = OAuth(self.world)
        self._record: list[Logged] = []
        self._errors: list[Exception] = []
        self._pages = pages or (lambda _: [])
        self._open = ExitStack()

    def __enter__(self) -> Self:
        api, server = _Later(), _Later()
        gates = [FaultInjector(each, self.faults, self._record) for each in (api, server)]
        self.api_url, self.server_url = (self._open.enter_context(host_application(gate)) for gate in gates)
        self.graphql_url = f"{self.api_url}/graphql"
        site = Site(self.world, self.api_url, self.server_url)
        self.webhooks = Webhooks(site)
        self._open.callback(self.webhooks.close)
        api.app = self._application([*routes(site, self.webhooks, self.limits), graphql_route(site, self.limits)])
        server.app = self._application(
            [*oauth_routes(self.oauth), *log_routes(self.world), *git_routes(self.world), *self._pages(self.world)]
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()
        if error is None and self._errors:
            raise self._errors[0]

    @property
    def requests(self) -> tuple[Logged, ...]:
        return tuple(self._record)

    def clone_url(self, repository: str) -> str:
        return f"{self.server_url}/{repository}.git"

    def _application(self, served: list[BaseRoute]) -> Starlette:
        async def missing(_request: Request, _: Exception) -> Response:
            return JSONResponse(ApiError(404, "Not Found").body(), 404)

        async def fail(_request: Request, error: Exception) -> Response:
            self._errors.append(error)
            return JSONResponse(ApiError(500, f"the simulated GitHub raised {error!r}").body(), 500)

        return Starlette(routes=served, exception_handlers={404: missing, 405: missing, Exception: fail})


class _Later:
    app: Starlette

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)
