"""HTTP of the service, and `serve`: receives deliveries and reports health (docs/api.md). SHELL: no rules here."""

import asyncio
import errno
import signal
import socket
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp

from bot.compose.app_set_up import open_app_set_up
from bot.compose.local import try_model
from bot.compose.receipts import published_keys
from bot.compose.worker_process import (
    HAND_BACK_SECONDS,
    forced_exit_timer,
    overview_of,
    periodic_work,
    recorder_of,
    reporting_host,
)
from bot.config.environment import redactor_for
from bot.config.environment import settings as read_settings
from bot.config.settings import Settings
from bot.core.errors import Misconfigured, Unreadable
from bot.core.secrets.redaction import Redactor
from bot.logs import failure, redirect_output, say, setup
from bot.service.maintenance_pass import MaintenanceRounds
from bot.service.person_turns import PersonTurns, TurnLedger
from bot.service.service import Service
from bot.service.viewers import SignIn
from webhooks.access import may_read
from webhooks.api import ApiParts, add_api
from webhooks.client_limits import ClientLimits, bounded_protocol
from webhooks.dashboard.service_pages import add_dashboard
from webhooks.delivery_route import DEFAULT_BOUNDS, Bounds, Deliveries, DeliveriesFirst, describe_deliveries
from webhooks.event_stream import Streams
from webhooks.setup.set_up import CLOSED_SET_UP, SetUpRoutes, SetUpVisitor, announce_set_up

# --- The socket -------------------------------------------------------------------------------------------------------
# With the queue in PostgreSQL, several processes on one machine may listen on one port, so that one of them can be
# upgraded or killed while the others answer. Linux shares new connections out among them, and lets only processes of
# one user do so (SO_REUSEPORT).
# https://man7.org/linux/man-pages/man7/socket.7.html

BACKLOG: Final = 256
"""Size of the accept queue. With the open connections it stays below a process's usual file limit (1,024)."""

_IN_USE_ALONE: Final = (
    "end that process, choose another --port, or set PLANGATE_DATABASE_URL so that several can share it"
)
_IN_USE: Final = "end that process, which shares no port or belongs to another user, or choose another --port"
_OTHERS: Final = "choose another --host or --port"


def bind_listener(host: str, port: int, *, shares: bool = False) -> socket.socket:
    """Return a socket on an address (port 0: any free port). Raises Misconfigured if that fails.

    A socket that `shares` its port does not listen yet: Linux would give it connections that other processes could
    answer now. Any other socket listens at once, so that connections wait for the process instead of being refused.
    """
    # The protocol is named because asyncio turns off Nagle's algorithm only if it is.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
        if not shares:
            listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        is_taken = error.errno == errno.EADDRINUSE
        fix = (_IN_USE if shares else _IN_USE_ALONE) if is_taken else _OTHERS
        raise Misconfigured(f"cannot listen: {error.strerror}", where=f"{host}:{port}", fix=fix) from error
    return listener


# --- The application, and the server

DRAIN_SECONDS: Final = 2
SHUTDOWN_SECONDS: Final = 9.0

_METRICS: Final[dict[int | str, dict[str, Any]]] = {
    401: {"description": "a bearer token is needed", "content": {"text/plain": {"schema": {"type": "string"}}}},
}


Routes = Callable[[FastAPI], None]
"""Adds routes to an application."""


def application(service: Service, bounds: Bounds = DEFAULT_BOUNDS, *further: Routes) -> ASGIApp:
    """Return the HTTP application of a service, with the routes that each of `further` adds.

    The service itself is started separately, or not at all.
    """
    # FastAPI's documentation pages load their scripts from a CDN, so they are turned off.
    # Redirects to a path without its last slash would name the host that the request names.
    app = FastAPI(title="Plangate", docs_url=None, redoc_url=None, routes=[*CLOSED_SET_UP], redirect_slashes=False)
    deliveries = Deliveries(service, bounds)
    describe_deliveries(app, deliveries)
    _add_health(app, service)
    _add_receipt_keys(app, service)
    for add in further:
        add(app)
    return DeliveriesFirst(app, deliveries)


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get("/healthz")
    async def healthz() -> JSONResponse:
        """Respond as long as the process can."""
        return JSONResponse({"status": "ok"})

    @app.get("/readyz", responses={503: {"description": "deliveries cannot be stored"}})
    async def readyz(request: Request) -> JSONResponse:
        """Respond 200 if deliveries can be stored. Callers who may read /metrics get details in the body."""
        is_ready = await service.can_store()
        details = await service.state() if may_read(service.settings, request) else {}
        return JSONResponse({"status": "ready" if is_ready else "not ready", **details}, 200 if is_ready else 503)

    @app.get("/metrics", response_class=PlainTextResponse, responses=_METRICS)
    async def metrics(request: Request) -> PlainTextResponse:
        """Return metrics for Prometheus. Requires the API token; a service without one that is not
        public lets this machine read them."""
        if not may_read(service.settings, request):
            return PlainTextResponse("a bearer token is needed\n", 401, {"www-authenticate": "Bearer"})
        return PlainTextResponse(service.metrics(), media_type="text/plain; version=0.0.4")


def _add_receipt_keys(app: FastAPI, service: Service) -> None:
    answers: dict[int | str, dict[str, Any]] = {
        404: {"description": "no key signs here"},
        503: {"description": "the list of keys cannot be read"},
    }

    @app.get("/.well-known/plangate-keys.json", responses=answers)
    async def receipt_keys() -> Response:
        """Return the public keys of receipts, for everybody who wants to check one."""
        try:
            content = await asyncio.to_thread(published_keys, service.settings)
        except Misconfigured as error:
            return JSONResponse({"error": error.what}, 404)
        except Unreadable as error:  # the file stays as it is, with its entries about revoked keys
            failure("keys of receipts", error)
            return JSONResponse({"error": error.what}, 503)
        return Response(content, media_type="application/json")


def serve(
    settings: Settings, host: str, port: int, *, worker: bool = True, log: tuple[str, str] = ("text", "INFO")
) -> int:
    """Serve until SIGTERM or SIGINT, then shut down, and return the exit code.

    Shutting down takes at most 10 s, or with a worker whose queue is in a database, as long as handing the work back.

    If the settings name no account, serve the set-up first, and then, on the same socket, as the App that it created.

    Raises Misconfigured if there is no webhook secret or if the address cannot be bound.
    """
    shares = bool(settings.database) and not settings.github.needs_set_up
    with bind_listener(host, port, shares=shares) as listener:
        if not settings.github.needs_set_up:
            return _serve(settings, listener, worker=worker, log=log)
        redactor = redactor_for(settings)
        setup(*log, redactor=redactor)
        if not asyncio.run(_set_up(settings, listener, host, redactor)):
            return 0
        with redirect_output(redactor_for()):
            return _serve(read_settings(), listener, worker=worker, log=log)


async def _set_up(settings: Settings, listener: socket.socket, host: str, redactor: Redactor) -> bool:
    """Serve the set-up until it is over, or until a signal arrives. Return whether the App's credentials are saved."""
    with open_app_set_up(settings, redactor) as app_set_up:
        if app_set_up.is_saved:
            return True
        routes = SetUpRoutes(app_set_up, SetUpVisitor(host))
        server = _Server(_config(routes.application(), ClientLimits()), lambda: None)
        serving = asyncio.ensure_future(server.serve([listener.dup()]))
        over = asyncio.ensure_future(routes.is_over.wait())
        await asyncio.sleep(0)  # from now on signals are handled
        announce_set_up(routes.visitor, listener.getsockname()[:2])
        await asyncio.wait({serving, over}, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving
        over.cancel()
        return app_set_up.is_saved


def _serve(settings: Settings, listener: socket.socket, *, worker: bool, log: tuple[str, str]) -> int:
    github = settings.github
    if not github.webhook_secret:
        raise Misconfigured(
            "no webhook secret", where="PLANGATE_WEBHOOK_SECRET", fix="set it to the webhook secret on GitHub"
        )
    redactor = redactor_for(settings)
    setup(*log, redactor=redactor)
    exit_timer = forced_exit_timer(
        DRAIN_SECONDS + HAND_BACK_SECONDS if worker and settings.database else SHUTDOWN_SECONDS
    )

    async def run_until_signal() -> None:
        recorder, streams = recorder_of(settings, redactor), Streams()

        def stop() -> None:
            exit_timer.start()
            streams.end()

        async with reporting_host(settings, redactor, recorder) as github:
            await github.connections.check_private_key()
            model = partial(try_model, settings)
            rounds = MaintenanceRounds(github)
            service = Service(settings, github, worker=worker, periodic=periodic_work(github, rounds), model=model)
            service.counters = github.counters
            limits = ClientLimits(per_address=settings.service.connections_per_address)
            overview = overview_of(service, github, recorder, rounds)
            turns = PersonTurns(github, TurnLedger(settings.data_dir / "turns"), github.clock)
            api = partial(add_api, parts=ApiParts(overview, settings), streams=streams, post_turn=turns.post)
            sign_in = SignIn(settings, github.clock, redactor)
            pages = partial(add_dashboard, reading=overview, sign_in=sign_in, streams=streams)
            await run(service, listener, limits, stopping=stop, further=(api, pages))

    asyncio.run(run_until_signal())
    exit_timer.cancel()
    return 0


async def run(
    service: Service,
    listener: socket.socket,
    limits: ClientLimits,
    *,
    stopping: Callable[[], None] = lambda: None,
    further: Sequence[Routes] = (),
) -> None:
    """Run a service and its HTTP on a listening socket until a signal arrives. Calls `stopping` once, at the signal."""
    async with service.running():
        name = listener.getsockname()
        announce = partial(say, "listening", host=name[0], port=name[1], worker=service.queue.worker is not None)
        served = application(service, DEFAULT_BOUNDS, *further)
        await _Server(_config(served, limits), stopping, announce).serve(sockets=[listener])
        say("stopping")


class _Server(uvicorn.Server):
    """A server that a signal only stops. uvicorn's own would raise the signal again, and so skip the code after it."""

    def __init__(
        self, config: uvicorn.Config, stopping: Callable[[], None], announce: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(config)
        self._stopping = stopping
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and log that: from now on, an older process on the same port may be ended."""
        await super().startup(sockets)
        self._announce()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop at a signal. The handlers stay installed, so that a second signal does not interrupt checks that are
        ending."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        yield

    def _stop(self) -> None:
        if not self.should_exit:
            self._stopping()
        self.should_exit = True


def _config(app: ASGIApp, limits: ClientLimits) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=bounded_protocol(limits),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
