"""GitHub tokens: an App's, scoped to one repository (W4), a fixed one, and those of people who sign in."""

import asyncio
import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import Any, Final
from urllib.parse import urlencode

from bot.core.errors import Misconfigured, Refused, Transient
from bot.core.names import RepositoryId
from bot.github.client import TIMEOUT, USER_AGENT, GitHubClient, without_netrc
from bot.github.pace import WritePace
from bot.github.responses import BadToken
from bot.ports import Clock

# --- Tokens of an App (W4), or a fixed one ---------------------------------------------------------------------------
# An App's tokens are created on demand and scoped to one repository. Keys come in as functions, so that no field that
# could be printed holds a secret.

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
        """Return a new JWT: RS256, valid for 9 minutes (GitHub allows 10).

        It is issued a minute in the past to allow for clock skew.
        """
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


# --- Tokens with which the App acts for a person ---------------------------------------------------------------------
# They are obtained when the person signs in, renewed while they are used, and stay in memory. Keys come in as
# functions, so that no field that could be printed holds a secret.
#
# https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-user-access-token-for-a-github-app
# https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/refreshing-user-access-tokens

RENEW_BEFORE: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class UserToken:
    """A person's access token, and the refresh token that replaces both; "" where tokens of the App do not expire."""

    access: str = field(repr=False)
    expires: datetime | None = None
    refresh: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class WebFlow:
    """GitHub's web application flow for one App."""

    server_url: str
    client_id: str
    client_secret: Callable[[], str] = field(repr=False)
    clock: Clock
    authorities: str = ""
    """Path of the certificates to trust (SSL_CERT_FILE); "" for those of the library."""

    def authorize_url(self, *, redirect_uri: str, state: str, verifier: str) -> str:
        """Return where a browser goes to sign in. GitHub sends it back to `redirect_uri` with `state` and a code."""
        query = {
            "client_id": self.client_id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
        }
        return f"{self.server_url}/login/oauth/authorize?{urlencode(query)}"

    async def redeem(self, code: str, *, redirect_uri: str, verifier: str) -> UserToken:
        """Return the token for a code. Raises BadToken if GitHub refuses the code, and Transient without an answer."""
        return await self._ask({"code": code, "redirect_uri": redirect_uri, "code_verifier": verifier})

    async def renew(self, refresh: str) -> UserToken:
        """Return a new token. From then on, the refresh token and the token that came with it do not work any more.

        Raises BadToken and Transient.
        """
        return await self._ask({"grant_type": "refresh_token", "refresh_token": refresh})

    async def _ask(self, form: Mapping[str, str]) -> UserToken:
        grant = await asyncio.to_thread(self._exchange, form)
        if "access_token" not in grant:  # GitHub refuses with status 200 and an `error`
            name = str(grant.get("error", "an answer without a token"))
            fix = "check PLANGATE_CLIENT_ID and PLANGATE_CLIENT_SECRET" if "client" in name else "sign in again"
            raise BadToken(f"GitHub refused the sign-in: {name}", where="access_token", fix=fix)
        lifetime = grant.get("expires_in")
        expires = self.clock.now() + timedelta(seconds=int(lifetime)) if lifetime else None
        return UserToken(str(grant["access_token"]), expires, str(grant.get("refresh_token", "")))

    def _exchange(self, form: Mapping[str, str]) -> dict[str, Any]:
        """Return GitHub's answer to a request for a token. Raises Transient if there is none."""
        import requests

        url = f"{self.server_url}/login/oauth/access_token"
        own = {"client_id": self.client_id, "client_secret": self.client_secret()}
        headers = {"Accept": "application/json", "User-Agent": USER_AGENT}
        try:
            with requests.Session() as session:
                session.auth = without_netrc
                answer = session.post(
                    url,
                    {**own, **form},
                    headers=headers,
                    timeout=TIMEOUT,
                    verify=self.authorities or True,
                    allow_redirects=False,  # a redirect would carry the client's secret to another address
                )
                fields = None if answer.is_redirect else answer.json()
        except (requests.exceptions.RequestException, ValueError, OSError):
            fields = None
        if not isinstance(fields, dict):
            raise Transient("GitHub did not answer the sign-in", where=url, fix="try again")
        return fields


@dataclass(slots=True)
class UserCredentials:
    """The credentials of one person who is signed in. Two requests at once renew the token only once."""

    flow: WebFlow
    _token: UserToken = field(repr=False)
    _renewing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def token(self) -> str:
        """Return a token that is valid now. Raises Refused if the person has to sign in again."""
        async with self._renewing:
            if self._token.expires is not None and self._token.expires - RENEW_BEFORE <= self.flow.clock.now():
                await self._renew()
            return self._token.access

    def replace_refused(self, token: str) -> bool:  # noqa: ARG002 - the port's
        """Return False: a token that GitHub refuses before its time was revoked."""
        return False

    async def _renew(self) -> None:
        if not self._token.refresh:
            raise Refused("the sign-in expired", where="access_token", fix="sign in again")
        self._token = await self.flow.renew(self._token.refresh)


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of a verifier: https://datatracker.ietf.org/doc/html/rfc7636#section-4.2"""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
