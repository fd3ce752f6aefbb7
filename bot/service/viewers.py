"""People who use the dashboard: what each may see by their own token (W5), and limits on failed attempts (W1b)."""

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from bot.config.settings import Settings
from bot.core.errors import PlangateError, Refused
from bot.core.names import ThreadAddress
from bot.core.secrets.redaction import Redactor
from bot.core.turn import Actor, Role
from bot.github.client import GitHubClient
from bot.github.permissions import rights_role
from bot.github.responses import rest_actor
from bot.github.tokens import UserCredentials, WebFlow
from bot.ports import Clock
from bot.service.connections import github_client

# --- Limits on failed attempts of strangers (W1b) ---------------------------------------------------------------------
# They hold for each account, and for all together.


@dataclass(slots=True)
class AttemptLimit:
    """Counts attempts that failed in the last `seconds`, and those under way, so that many at once count as well.

    Callers ask `has_room` first, so that at most `in_all` attempts are remembered.
    """

    clock: Clock
    per_account: int
    in_all: int
    seconds: float
    _attempts: deque[tuple[float, object]] = field(init=False, default_factory=deque)
    """When each began, and for which account, oldest first."""

    def has_room(self, account: object) -> bool:
        """Return whether an account may try once more."""
        while self._attempts and self._attempts[0][0] <= self.clock.monotonic() - self.seconds:
            self._attempts.popleft()
        own = sum(account == other for _, other in self._attempts)
        return own < self.per_account and len(self._attempts) < self.in_all

    @contextmanager
    def count(self, account: object, failure: type[PlangateError] = Refused) -> Iterator[None]:
        """Count an attempt while the block runs, and afterward if the block raises such an error."""
        attempt, is_failed = self.record(account), False
        try:
            yield
        except failure:
            is_failed = True
            raise
        finally:
            if not is_failed:
                with suppress(ValueError):  # it began so long ago that it is no longer counted
                    self._attempts.remove(attempt)

    def record(self, account: object) -> tuple[float, object]:
        """Count an attempt however it ends, and return its record."""
        self._attempts.append((self.clock.monotonic(), account))
        return self._attempts[-1]


# --- People who use the dashboard (W5) --------------------------------------------------------------------------------
# Each person sees what GitHub shows to their own token. A viewer's repositories are read as one list, so that a
# repository that does not exist, and one that the viewer may not see, get the same response.

VISIBLE_SECONDS: Final = 60.0
"""Seconds for which a viewer's list of repositories stays valid."""


@dataclass(frozen=True, slots=True)
class ViewerAccess:
    """What one person may see: the repositories of the App in which GitHub gives them a role."""

    roles: Mapping[int, Role] = field(default_factory=dict)
    """Numeric id of the repository -> the person's role."""
    names: Mapping[int, str] = field(default_factory=dict)
    """Numeric id -> ``owner/name`` now, for people's eyes and for the addresses of requests."""
    installations: frozenset[int] = frozenset()
    """The installations of the App that reach them."""

    def role(self, repository: int) -> Role:
        """Return the person's role in a repository. A name decides nothing: another repository may have taken it."""
        return self.roles.get(repository, Role.NONE)


@dataclass(slots=True)
class Viewer:
    """A person who is signed in, with their own token."""

    client: GitHubClient = field(repr=False)
    actor: Actor
    _access: ViewerAccess = ViewerAccess()
    _read_at: float | None = None
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def access(self) -> ViewerAccess:
        """Return what the person may see, as of VISIBLE_SECONDS ago at most.

        Raises Refused if the person has to sign in again, and Transient.
        """
        async with self._reading:
            now = self.client.clock.monotonic()
            if self._read_at is None or now - self._read_at >= VISIBLE_SECONDS:
                self._access = await self._read_access()
                self._read_at = now
            return self._access

    async def comment(self, thread: ThreadAddress, body: str) -> str:
        """Comment on a thread as this person, and return the comment's address. Raises PlangateError.

        The repository is addressed by the name that it has now, because another one may have taken its old name.
        """
        name = (await self.access()).names.get(thread.repository)
        if name is None:
            raise Refused("you may not see this repository any more", where=str(thread), fix="load the page again")
        path = f"/repos/{name}/issues/{thread.number}/comments"
        comment = await self.client.post(path, {"body": body})
        return str(comment["html_url"])

    async def _read_access(self) -> ViewerAccess:
        """Read all pages. https://docs.github.com/en/rest/apps/installations"""
        pages = self.client.pages("/user/installations", items="installations")
        installations = [int(installation["id"]) async for installation in pages]
        roles: dict[int, Role] = {}
        names: dict[int, str] = {}
        for number in installations:
            path = f"/user/installations/{number}/repositories"
            async for repository in self.client.pages(path, items="repositories"):
                roles[int(repository["id"])] = max(rights_role(repository), Role.READ)
                names[int(repository["id"])] = str(repository["full_name"])
        return ViewerAccess(roles, names, frozenset(installations))


@dataclass(frozen=True, slots=True)
class SignIn:
    """Signs people in as users of the App."""

    settings: Settings
    clock: Clock
    redactor: Redactor = field(default_factory=Redactor)

    @property
    def is_set_up(self) -> bool:
        """Whether the operator gave the App's client id and secret."""
        github = self.settings.github
        return bool(github.as_app and github.client_id and github.client_secret)

    def authorize_url(self, *, redirect_uri: str, state: str, verifier: str) -> str:
        """Return where a browser goes to sign in."""
        return self._flow().authorize_url(redirect_uri=redirect_uri, state=state, verifier=verifier)

    async def viewer(self, code: str, *, redirect_uri: str, verifier: str) -> Viewer:
        """Return the person who comes back from GitHub with a code. Raises Refused and Transient."""
        token = await self._flow().redeem(code, redirect_uri=redirect_uri, verifier=verifier)
        credentials = UserCredentials(self._flow(), token)
        client = github_client(self.settings, credentials, self.clock, redactor=self.redactor)
        actor = rest_actor(await client.get("/user"))
        if not actor.id:
            raise Refused("GitHub did not say who signed in", where="GET /user", fix="sign in again")
        return Viewer(client, actor)

    def _flow(self) -> WebFlow:
        github = self.settings.github
        secret = github.client_secret.reveal
        return WebFlow(github.server_url, github.client_id, secret, self.clock, self.settings.network.authorities)
