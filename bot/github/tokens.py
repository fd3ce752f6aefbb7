"""The tokens that GitHub is spoken to with: an App's, made by need and scoped to one repository (W4), or a fixed one.

Keys come in as functions, so that no secret stands in a field that could be printed.
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
from bot.ports import Clock

# https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-github-app
_BACK: Final = timedelta(seconds=60)
_JWT_LIFE: Final = timedelta(minutes=9)
_RENEW_BEFORE: Final = timedelta(minutes=5)


@dataclass(slots=True)
class StaticToken:
    """A token that somebody made: a machine account's, or the job's own."""

    reveal: Callable[[], str] = field(repr=False)

    async def token(self) -> str:
        """Give the token."""
        return self.reveal()

    def replace_refused(self, token: str) -> bool:  # noqa: ARG002 - the port's
        """There is no other."""
        return False


@dataclass(slots=True)
class AppJwt:
    """Proves to be the App itself; good for /app and for making installation tokens."""

    app: str
    private_key: Callable[[], str] = field(repr=False)
    clock: Clock

    async def token(self) -> str:
        """Give a fresh JWT: RS256, issued a minute back for clocks that differ, 9 minutes long (GitHub allows 10)."""
        import jwt

        def signed() -> str:
            return jwt.encode(claims, _signing_key(self.private_key()), algorithm="RS256")

        now = self.clock.now()
        claims = {"iat": int((now - _BACK).timestamp()), "exp": int((now + _JWT_LIFE).timestamp()), "iss": self.app}
        try:
            return await asyncio.to_thread(signed)
        except (ValueError, TypeError, AttributeError, jwt.PyJWTError):  # AttributeError: a public key
            mend = "set PLANGATE_PRIVATE_KEY to the PEM file that GitHub gave"
            raise Misconfigured("the App's private key cannot be read", mend=mend) from None

    def replace_refused(self, token: str) -> bool:  # noqa: ARG002 - the port's
        """A fresh one would be refused as well."""
        return False


@lru_cache(maxsize=2)
def _signing_key(pem: str) -> Any:
    """Load a private key, once: checking its numbers takes far longer than signing with it does."""
    from jwt.algorithms import RSAAlgorithm

    return RSAAlgorithm(RSAAlgorithm.SHA256).prepare_key(pem)


@dataclass(frozen=True, slots=True)
class _Held:
    token: str = field(repr=False)
    expires: datetime


@dataclass(slots=True)
class AppTokens:
    """The tokens of one installation, scoped to one repository and the permissions given; renewed 5 minutes early.

    https://docs.github.com/en/rest/apps/apps#create-an-installation-access-token-for-an-app
    """

    door: GitHubClient
    """A door that is opened with AppJwt."""
    installation: int
    repository: RepositoryId | None = None
    permissions: Mapping[str, str] | None = None
    _held: _Held | None = None
    _made: list[_Held] = field(default_factory=list)
    """All that were made; one that is renewed lasts a few minutes more."""
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def token(self) -> str:
        """Give a token that lasts 5 minutes more at least."""
        async with self._making:
            if self._held is None or self.door.clock.now() + _RENEW_BEFORE >= self._held.expires:
                self._held = await self._make()
                self._made.append(self._held)
            return self._held.token

    def replace_refused(self, token: str) -> bool:
        """Forget a token that GitHub refused; a new one is made for the next request."""
        if self._held is not None and self._held.token == token:
            self._held = None
        return True

    async def revoke(self) -> None:
        """Have GitHub forget every token that was made; raises where it does not, and then each ends within its hour.

        https://docs.github.com/en/rest/apps/installations#revoke-an-installation-access-token
        """
        made, self._made, self._held = self._made, [], None
        for each in made:
            if each.expires > self.door.clock.now():
                own = StaticToken(partial(getattr, each, "token"))
                door = GitHubClient(self.door.api_url, self.door.graphql_url, own, self.door.clock, between_writes=0.0)
                await door.delete("/installation/token")
                door.close()

    async def _make(self) -> _Held:
        wanted: dict[str, object] = {}
        if self.repository is not None:
            wanted["repository_ids"] = [self.repository]
        if self.permissions is not None:
            wanted["permissions"] = dict(self.permissions)
        made = await self.door.post(f"/app/installations/{self.installation}/access_tokens", wanted, repeatable=True)
        return _Held(str(made["token"]), datetime.fromisoformat(str(made["expires_at"])))
