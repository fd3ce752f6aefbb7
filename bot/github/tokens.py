"""GitHub tokens: an App's, created on demand and scoped to one repository (W4), or a fixed one.

Keys come in as functions, so that no field that could be printed holds a secret.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import Any, Final

from bot.core.errors import Misconfigured
from bot.core.names import RepositoryId
from bot.github.client import GitHubClient
from bot.github.pace import WritePace
from bot.ports import Clock

# https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-github-app
_BACK: Final = timedelta(seconds=60)
_JWT_LIFE: Final = timedelta(minutes=9)
_RENEW_BEFORE: Final = timedelta(minutes=5)


@dataclass(slots=True)
class StaticToken:
    """A token that somebody created: a machine account's, or the job's own."""

    reveal: Callable[[], str] = field(repr=False)

    async def token(self) -> str:
        """Return the token."""
        return self.reveal()

    def replace_refused(self, token: str) -> bool:  # noqa: ARG002 - the port's
        """Return False: there is no other token."""
        return False


@dataclass(slots=True)
class AppJwt:
    """Authenticates as the App itself. Valid for /app and for creating installation tokens."""

    app: str
    private_key: Callable[[], str] = field(repr=False)
    clock: Clock

    async def token(self) -> str:
        """Return a new JWT: RS256, valid for 9 minutes (GitHub allows 10), issued a minute in the past to allow for
        clock skew."""
        from github.Auth import AppAuth

        now = self.clock.now()
        claims = {"iat": int((now - _BACK).timestamp()), "exp": int((now + _JWT_LIFE).timestamp()), "iss": self.app}
        try:
            key = await asyncio.to_thread(_signing_key, self.private_key())
        except (ValueError, TypeError):
            where = "PLANGATE_PRIVATE_KEY, PLANGATE_PRIVATE_KEY_PATH"
            fix = "set one of them to the PEM file from GitHub"
            raise Misconfigured("the App's private key cannot be read", where=where, fix=fix) from None
        # Not AppAuth itself: it takes the time from the machine, and loads the key each time.
        return str(await asyncio.to_thread(AppAuth.create_jwt_sign(lambda: key, "RS256"), claims))

    def replace_refused(self, token: str) -> bool:  # noqa: ARG002 - the port's
        """Return False: GitHub would refuse a new JWT as well."""
        return False


@lru_cache(maxsize=2)
def _signing_key(pem: str) -> Any:
    """Return a loaded RSA key, cached: validating its numbers takes far longer than signing with it.

    Raises ValueError or TypeError for anything else.
    """
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(pem.encode(), password=None)
    if not isinstance(key, RSAPrivateKey):
        raise TypeError
    return key


@dataclass(frozen=True, slots=True)
class _Held:
    """A token, and when it expires."""

    token: str = field(repr=False)
    expires: datetime


@dataclass(slots=True)
class AppTokens:
    """Tokens of one installation, scoped to one repository and the given permissions, and renewed 5 minutes early.

    https://docs.github.com/en/rest/apps/apps#create-an-installation-access-token-for-an-app
    """

    client: GitHubClient
    """A client that authenticates with AppJwt."""
    installation: int
    repository: RepositoryId | None = None
    permissions: Mapping[str, str] | None = None
    _held: _Held | None = None
    _made: list[_Held] = field(default_factory=list)
    """All tokens that were created. A renewed one stays valid for a few more minutes."""
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def token(self) -> str:
        """Return a token that is valid for at least 5 more minutes."""
        async with self._making:
            if self._held is None or self.client.clock.now() + _RENEW_BEFORE >= self._held.expires:
                self._held = await self._make()
                self._made.append(self._held)
            return self._held.token

    def replace_refused(self, token: str) -> bool:
        """Discard a token that GitHub refused, so that the next request creates a new one. Always returns True."""
        if self._held is not None and self._held.token == token:
            self._held = None
        return True

    async def revoke(self) -> None:
        """Revoke every token that was created. If it raises, the tokens expire within the hour.

        https://docs.github.com/en/rest/apps/installations#revoke-an-installation-access-token
        """
        tokens, self._made, self._held = self._made, [], None
        for token in tokens:
            if token.expires > self.client.clock.now():
                own = StaticToken(partial(getattr, token, "token"))
                urls, clock = (self.client.api_url, self.client.graphql_url), self.client.clock
                client = GitHubClient(*urls, own, clock, WritePace(clock, 0.0), authorities=self.client.authorities)
                await client.delete("/installation/token")
                client.close()

    async def _make(self) -> _Held:
        body: dict[str, object] = {}
        if self.repository is not None:
            body["repository_ids"] = [self.repository]
        if self.permissions is not None:
            body["permissions"] = dict(self.permissions)
        answer = await self.client.post(f"/app/installations/{self.installation}/access_tokens", body, repeatable=True)
        return _Held(str(answer["token"]), datetime.fromisoformat(str(answer["expires_at"])))
