"""A server that answers from a script and keeps what it was asked: what GitHub rarely does, as often as wanted."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bot.github.client import GitHubClient
from bot.github.pace import WritePace
from bot.testing.github.world import TurnedClock
from bot.testing.host import host_application


@dataclass
class Asked:
    verb: str
    path: str
    query: dict[str, str]
    token: str
    body: Any


@dataclass
class Reply:
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None


@dataclass
class Script:
    replies: list[Reply]
    url: str = ""
    asked: list[Asked] = field(default_factory=list)

    async def answer(self, request: Request) -> Response:
        raw = await request.body()
        token = request.headers["authorization"].partition(" ")[2]
        body = json.loads(raw) if raw else None
        self.asked.append(Asked(request.method, request.url.path, dict(request.query_params), token, body))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        content = reply.raw if reply.raw is not None else json.dumps(reply.body).encode()
        headers = {name: value.replace("URL", self.url) for name, value in reply.headers.items()}
        return Response(content, reply.status, headers)


@dataclass
class Tokens:
    values: list[str]

    async def token(self) -> str:
        return self.values[0]

    def replace_refused(self, token: str) -> bool:
        if len(self.values) < 2:
            return False
        self.values.remove(token)
        return True


@contextmanager
def scripted(*replies: Reply, tokens: tuple[str, ...] = ("t",)) -> Iterator[tuple[GitHubClient, Script, TurnedClock]]:
    script = Script(list(replies))
    verbs = ["GET", "POST", "PATCH", "PUT", "DELETE"]
    with host_application(Starlette(routes=[Route("/{path:path}", script.answer, methods=verbs)])) as url:
        script.url, clock = url, TurnedClock()
        client = GitHubClient(url, f"{url}/graphql", Tokens(list(tokens)), clock, WritePace(clock))
        try:
            yield client, script, clock
        finally:
            client.close()
