"""Serves an ASGI application on a free port of 127.0.0.1 in a thread of its own.

The server starts within milliseconds and stops at once, even with open connections. It does not change the process's
logging, because the demo runs it next to the real service.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp
from uvicorn import Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

STARTUP_SECONDS = 10
BACKLOG = 1024


@contextmanager
def host_application(app: ASGIApp, port: int = 0, *, interface: str = "127.0.0.1") -> Iterator[str]:
    """Serve an application while the context is open, and yield its base address on this machine.

    Port 0 means any free port. `interface` is the address to listen on.
    """
    # asyncio turns off Nagle's algorithm only if the protocol is given; with Nagle, every answer takes 40 ms.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind((interface, port))
        listener.listen(BACKLOG)
        host = _Host(app, listener)
        thread = threading.Thread(target=host.run, name="simulated-server", daemon=True)
        thread.start()
        if not host.ready.wait(STARTUP_SECONDS):
            raise TimeoutError(f"the simulated server did not start within {STARTUP_SECONDS} s")
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            host.stop()
            thread.join()


@contextmanager
def serve_routes(routes: Sequence[BaseRoute], port: int = 0) -> Iterator[str]:
    with host_application(Starlette(routes=[*routes]), port) as address:
        yield address


@contextmanager
def receive_webhooks(take: Callable[[str, bytes], None]) -> Iterator[str]:
    async def deliver(request: Request) -> Response:
        take(request.headers.get("x-github-event", ""), await request.body())
        return Response(status_code=202)

    with serve_routes([Route("/", deliver, methods=["POST"])]) as address:
        yield address


@dataclass(slots=True)
class _Host:
    app: ASGIApp
    listener: socket.socket
    ready: threading.Event = field(default_factory=threading.Event)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)

    async def _serve(self) -> None:
        server = _quiet_server(self.app)
        await server.startup(sockets=[self.listener])
        # Set the default headers, as uvicorn's main loop would. That loop is not used, because it checks only ten times
        # a second whether to stop.
        await server.on_tick(0)
        self.ready.set()
        await self._stopping.wait()
        for listening in server.servers:
            listening.close()
        for connection in list(server.server_state.connections):
            connection.transport.abort()
        for task in list(server.server_state.tasks):
            task.cancel()
        await asyncio.gather(*server.server_state.tasks, return_exceptions=True)
        await asyncio.sleep(0)


def _quiet_server(app: ASGIApp) -> Server:
    log = logging.getLogger(__name__)
    # Intentionally cut answers need no log entry, and the application reports its own errors.
    log.setLevel(logging.CRITICAL)

    class QuietProtocol(HttpToolsProtocol):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.logger = log
            self.access_log = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # always a stream
            """Let the application abort the connection: scope["extensions"]["connection.abort"]["abort"]()."""
            super().connection_made(transport)
            served = self.app

            async def application(scope: Any, receive: Any, send: Any) -> None:
                abort = {"connection.abort": {"abort": transport.abort}}
                scope["extensions"] = {**scope.get("extensions", {}), **abort}
                await served(scope, receive, send)

            self.app = application

    config = uvicorn.Config(app, http=QuietProtocol, ws="none", lifespan="off", log_config=None, log_level=None)
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    return server
