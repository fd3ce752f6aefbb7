"""A simulated GitHub with one repository and its people, and how a test speaks to it."""

import json
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from bot.testing.github.credentials import personal_token
from bot.testing.github.entities import Installation, Repository
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.github.world import TurnedClock

NAME = "acme/shop"
FILES = {"README.md": "# Shop\n", "src/a.py": "one\ntwo\nthree\n"}


@cache
def loaded_key(pem: str) -> Any:
    """Return the App's private key. Loading it takes 40 ms, since its numbers are validated."""
    from jwt.algorithms import RSAAlgorithm

    return RSAAlgorithm(RSAAlgorithm.SHA256).prepare_key(pem)


@dataclass
class Reply:
    """An answer as it came over the wire."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)


@dataclass
class Ground:
    """The world of a test: acme/shop (private), alice maintains it, bob writes, carol triages, dave reads."""

    github: SimulatedGitHub
    clock: TurnedClock
    repository: Repository
    installation: Installation
    token: str

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """Make one REST request, as the App's installation unless another token ("": none) is given."""
        value = self.token if token is None else token
        sent = {"Authorization": f"Bearer {value}"} if value else {}
        data = None if body is None else json.dumps(body).encode()
        address = urlsplit(self.github.api_url)
        with closing(HTTPConnection(str(address.hostname), address.port, timeout=10)) as connection:
            connection.request(method, path, data, {**sent, **(headers or {})})
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())

    def query(self, text: str, *, token: str | None = None, **variables: Any) -> Any:
        return self.ask("POST", "/graphql", {"query": text, "variables": variables}, token=token).json

    def pat(self, login: str, *scopes: str) -> str:
        return personal_token(self.github.world, login, scopes=scopes or ("repo", "workflow")).value

    def jwt(self, *, lasts: int = 300, issued: int = -60) -> str:
        import jwt

        now = int(self.clock.now().timestamp())
        claims = {"iat": now + issued, "exp": now + lasts, "iss": str(self.github.app.id)}
        return jwt.encode(claims, loaded_key(self.github.app.pem), "RS256")
