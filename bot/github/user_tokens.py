"""Tokens with which the App acts for a person: obtained when the person signs in, and renewed while they are used.

Tokens stay in memory. Keys come in as functions, so that no field that could be printed holds a secret.

https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-user-access-token-for-a-github-app
https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/refreshing-user-access-tokens
"""

import asyncio
import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from bot.core.errors import Refused, Transient
from bot.github.client import TIMEOUT
from bot.github.errors import BadToken
from bot.github.token_connection import USER_AGENT, without_netrc
from bot.ports import Clock

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
