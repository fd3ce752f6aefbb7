"""Connections to GitHub: clients and tokens, each scoped to its purpose, and the repositories that are served."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from bot.config.settings import GitHubSettings, Settings
from bot.core.errors import Misconfigured, PlangateError, Refused, Transient
from bot.core.names import RepositoryId, ThreadAddress
from bot.core.secrets.redaction import Redactor
from bot.core.turn import Actor
from bot.github import repository
from bot.github.checks import CheckResults
from bot.github.client import Credentials, GitHubClient
from bot.github.pace import ReportedLimit, WritePace
from bot.github.repository import ReachableRepository
from bot.github.responses import Unprocessable
from bot.github.tokens import AppJwt, AppTokens, StaticToken
from bot.ports import Clock
from bot.store.sealing import StateKey
from bot.store.thread_refs import Remote, ThreadRefs
from bot.workspace.remote import RemoteRepository, Route

REFRESH_SECONDS: Final = 60.0
REVOKING_SECONDS: Final = 2.0
"""Maximum seconds for which a process that ends waits for GitHub. A token that is not revoked expires in an hour."""
WORKING: Final = {"contents": "write", "issues": "write", "pull_requests": "write", "metadata": "read"}
"""Permissions of a token that works on one repository, and no more (W4)."""
READING_RUNS: Final = {"actions": "read", "metadata": "read"}
"""Permissions of a token that asks whether an Actions run has ended."""
JOB_LOGIN: Final = "github-actions[bot]"
"""Login that the token of a GitHub Actions job speaks as."""
JOB_ID: Final = 41898282
"""Numeric id of that account on github.com: https://api.github.com/users/github-actions[bot]"""
READING_CHECKS: Final = {"checks": "read", "metadata": "read"}
"""Permissions of a token that reads the check runs of a commit."""
WRITING_CHECKS: Final = {"checks": "write", "metadata": "read"}
"""Permissions of a token that creates the check run of a receipt."""
POLLING: Final = {"issues": "read", "pull_requests": "read", "metadata": "read"}
"""Permissions of the one token that polls an installation."""
READING_MEMBERS: Final = {"members": "read"}
"""Permissions of the one token that reads team membership (approve.teams, CODEOWNERS)."""

_LEVELS: Final = ("none", "read", "write", "admin")
_log: Final = logging.getLogger(__name__)


def missing_permissions(granted: Mapping[str, str], needed: Mapping[str, str] = WORKING) -> tuple[str, ...]:
    """Return the needed permissions that were not granted, such as ``issues: write``; by default those of work."""
    low = (name for name, level in needed.items() if _level(granted.get(name, "none")) < _level(level))
    return tuple(f"{name}: {needed[name]}" for name in low)


def _level(name: str) -> int:
    return _LEVELS.index(name) if name in _LEVELS else 0


def key_of(settings: Settings) -> StateKey:
    """Return the state key for GitHub threads: as set, else derived from the App's private key, else from the API key.

    A key that was set must be long enough for a secret. The other two are secrets already.
    """
    if settings.state_key:
        return StateKey.of(settings.state_key.reveal())
    derived = settings.github.private_key or settings.api_key
    if not derived:
        raise Misconfigured(
            "no key to encrypt stored state", where="PLANGATE_STATE_KEY", fix="set it to a long random text"
        )
    return StateKey(derived.reveal().encode())


def speaks_as_job(bot: Actor) -> bool:
    """Return whether the bot's account is that of a job's token, on whose pull requests no workflow starts by itself.

    https://docs.github.com/en/actions/concepts/security/github_token#when-github_token-triggers-workflow-runs
    """
    return bot.login == JOB_LOGIN


@dataclass(slots=True)
class GitToken:
    """The token that git uses for one repository."""

    credentials: Credentials
    _newest: str = field(default="", repr=False)
    _loop: asyncio.AbstractEventLoop | None = None
    """The event loop that fetched the token."""

    def newest(self) -> str:
        """Return the token that git uses next."""
        return self._newest

    async def refresh(self) -> None:
        """Fetch a token that is valid now."""
        self._loop = asyncio.get_running_loop()
        self._newest = await self.credentials.token()

    async def renew(self) -> bool:
        """Fetch another token, after a server refused this one. Return whether there is another."""
        if is_renewable := self.credentials.replace_refused(self._newest):
            await self.refresh()
        return is_renewable

    def renew_from_thread(self) -> bool:
        """Do what `renew` does, from another thread than the event loop's; in the loop's own thread, return False."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._loop is not None and asyncio.run_coroutine_threadsafe(self.renew(), self._loop).result()
        return False


@dataclass(frozen=True, slots=True)
class RepositoryAccess:
    """Access to one repository: a client, the token for git, git's remote, and the threads' refs."""

    at: repository.Address
    client: GitHubClient
    token: GitToken
    remote: RemoteRepository
    refs: ThreadRefs
    lacks: tuple[str, ...] = ()
    """The permissions of work that the App was not granted here, such as ``issues: write``."""

    @asynccontextmanager
    async def kept_fresh(self) -> AsyncIterator[None]:
        """Keep the token for git fresh during the block, because installation tokens last an hour."""

        async def refreshing() -> None:
            while True:
                await self.client.clock.sleep(REFRESH_SECONDS)
                with suppress(PlangateError):
                    await self.token.refresh()

        task = asyncio.ensure_future(refreshing())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class ServedRepository:
    """A repository that is served, and the App installation that reaches it (None with a plain token)."""

    installation: int | None
    listed: ReachableRepository

    @property
    def id(self) -> RepositoryId:
        """Its number on GitHub."""
        return RepositoryId(self.listed.id)

    @property
    def at(self) -> repository.Address:
        """Its address at the time of the listing."""
        return self.listed.address

    def thread(self, number: int) -> ThreadAddress:
        """Return the address of one of its threads."""
        return ThreadAddress(self.installation, self.id, self.at.owner, self.at.name, number)


InstallationListing: TypeAlias = tuple[int | None, Sequence[ServedRepository] | None]
"""An installation, and its repositories that are served; None if they cannot be listed now."""


@dataclass(slots=True)
class Connections:
    """All connections of one process to GitHub. Raises Misconfigured without credentials."""

    settings: Settings
    clock: Clock
    redactor: Redactor = field(default_factory=Redactor)
    _reached: dict[tuple[int | None, int, str], RepositoryAccess] = field(default_factory=dict)
    _others: dict[tuple[int | None, int | None, frozenset[tuple[str, str]]], GitHubClient] = field(default_factory=dict)
    _paces: dict[int | None, WritePace] = field(default_factory=dict)
    """One for each account that GitHub limits: an installation, or the account of the plain token (E2)."""
    _bot: Actor | None = None
    _has_workflow_scope: bool | None = None

    def __post_init__(self) -> None:
        github = self.settings.github
        if not (github.as_app or github.token):
            raise Misconfigured(
                "no credentials for GitHub",
                where="PLANGATE_APP_ID, PLANGATE_GITHUB_TOKEN",
                fix="set PLANGATE_APP_ID with PLANGATE_PRIVATE_KEY, or PLANGATE_GITHUB_TOKEN",
            )

    async def reach(self, installation: int | None, number: int, at: repository.Address) -> RepositoryAccess:
        """Return access to one repository, with tokens that reach no other.

        If an App lacks permissions of work, access has the others, so that the bot can report on GitHub what it lacks.
        """
        key = installation, number, at.path
        access = self._reached.get(key)
        if access is None or access.lacks:  # missing permissions may have been granted since
            access = self._reached[key] = self._access(installation, number, at, WORKING)
        try:
            await access.token.refresh()
        except Unprocessable:
            granted = (await repository.installation_on(self.app(), at)).permissions
            if not (lacks := missing_permissions(granted)):
                raise
            fewer = {name: min(level, granted[name], key=_level) for name, level in WORKING.items() if name in granted}
            access = self._reached[key] = replace(self._access(installation, number, at, fewer), lacks=lacks)
            await access.token.refresh()
        return access

    async def reach_served(self, served: ServedRepository) -> RepositoryAccess:
        """Return access to a repository that is served."""
        return await self.reach(served.installation, served.id, served.at)

    async def reach_thread(self, thread: ThreadAddress) -> RepositoryAccess:
        """Return access to the repository of a thread."""
        return await self.reach(thread.installation, thread.repository, repository.Address.of_thread(thread))

    def _access(
        self, installation: int | None, number: int, at: repository.Address, permissions: dict[str, str]
    ) -> RepositoryAccess:
        server, credentials = self.settings.github.server_url, self._credentials(installation, number, permissions)
        url, token, network = at.clone_url(server), GitToken(credentials), self.settings.network
        route = Route(network.proxy(url), network.authorities)  # the operator's
        known_as, wait = f"{server}#{number}", self.clock.sleep
        remote = RemoteRepository(url, token.newest, route=route, known_as=known_as, wait=wait, renew=token.renew)
        scratch = self.settings.data_dir / "state" / f"{number}.git"
        through = Remote(url, environment=remote.environment, renew=token.renew_from_thread)
        refs = ThreadRefs(through, scratch, self.clock)
        return RepositoryAccess(at, self._client_of(installation, credentials), token, remote, refs)

    def poller(self, installation: int | None) -> GitHubClient:
        """Return the client that polls all plans of an installation or, with a plain token, of all repositories."""
        return self.client_with(POLLING, installation)

    def members(self, installation: int | None) -> GitHubClient:
        """Return the client that reads team membership. An App may lack the permission for it."""
        return self.client_with(READING_MEMBERS, installation)

    def check_results(self, installation: int | None, number: int, at: repository.Address) -> CheckResults:
        """Return access to the check runs of a repository, and to the logs of its jobs."""
        checks, actions = (self.client_with(needed, installation, number) for needed in (READING_CHECKS, READING_RUNS))
        return CheckResults(checks, actions, at)

    def client_with(
        self, permissions: dict[str, str], installation: int | None, number: int | None = None
    ) -> GitHubClient:
        """Return the client with those permissions of an App for one repository, or for all if `number` is None.

        There is one client per set of permissions and repository, besides the one that works. An App may lack the
        permissions; each request then fails.
        """
        key = installation, number, frozenset(permissions.items())
        if key not in self._others:
            self._others[key] = self._client_of(installation, self._credentials(installation, number, permissions))
        return self._others[key]

    async def served_repositories(self, only: tuple[repository.Address, ...]) -> AsyncIterator[ServedRepository]:
        """Yield the repositories with these addresses; without any, every repository that the credentials reach."""
        async for _, repositories in self.listings(only):
            for served in repositories or ():
                yield served

    async def listings(self, only: tuple[repository.Address, ...]) -> AsyncIterator[InstallationListing]:
        """Yield the same repositories as `served_repositories`, grouped by installation."""
        for at in only:
            served = await self.repository_by_name(at)
            yield served.installation, [served]
        for installation in () if only else await self.installations():
            try:
                yield installation, [served async for served in self.served_by(installation)]
            except (Refused, Transient) as error:  # suspended, uninstalled, or failing: go on with the others
                if installation is None:
                    raise
                _log.warning("an installation cannot be read: %s", error)
                yield installation, None

    async def installations(self) -> tuple[int | None, ...]:
        """Return the installations that are served. With a plain token, the only item is None."""
        if not self.settings.github.as_app:
            return (None,)
        return tuple([found.id async for found in repository.app_installations(self.app()) if not found.suspended])

    async def served_by(self, installation: int | None) -> AsyncIterator[ServedRepository]:
        """Yield the repositories of one installation, without archived ones, to which nobody can write."""
        client = self.poller(installation)
        async for listed in (
            repository.pushable_repositories(client)
            if installation is None
            else repository.installation_repositories(client)
        ):
            if not listed.archived:
                yield ServedRepository(installation, listed)

    async def repository_by_name(self, at: repository.Address) -> ServedRepository:
        """Return the repository with that name. Raises Missing."""
        installation = None
        if self.settings.github.as_app:
            installation = (await repository.installation_on(self.app(), at)).id
        return ServedRepository(installation, await repository.repository_by_name(self.poller(installation), at))

    async def bot(self, client: GitHubClient) -> Actor:
        """Return the bot's account, which is read once."""
        if self._bot is None:
            as_app = self.settings.github.as_app
            account = await (repository.app_bot(self.app(), client) if as_app else repository.token_bot(client))
            public = self.settings.github.server_url == GitHubSettings().server_url
            self._bot = replace(account, id=JOB_ID) if public and account.login == JOB_LOGIN else account
        return self._bot

    async def may_push_workflows(self, client: GitHubClient, bot: Actor) -> bool:
        """Return whether the bot may be able to push workflows: False for an App (see WORKING), for a job's token, and
        for a classic token without that scope, which is looked up once.

        https://docs.github.com/en/actions/concepts/security/github_token
        https://docs.github.com/en/apps/oauth-apps/building-oauth-apps/scopes-for-oauth-apps
        """
        if self.settings.github.as_app or speaks_as_job(bot):
            return False
        if self._has_workflow_scope is None:
            scopes = await client.scopes()
            self._has_workflow_scope = scopes is None or "workflow" in scopes
        return self._has_workflow_scope

    def is_bot(self, actor: int | None) -> bool:
        """Return whether an account is known to be the bot's own."""
        return self._bot is not None and self._bot.id == actor

    async def check_private_key(self) -> None:
        """Raise Misconfigured if the bot is an App, and its private key cannot sign. Sends nothing."""
        if self.settings.github.as_app:
            await self.app().credentials.token()

    def app(self) -> GitHubClient:
        """Return a client that authenticates as the App itself."""
        github = self.settings.github
        credentials = AppJwt(github.app_id, github.private_key.reveal, self.clock)
        return github_client(self.settings, credentials, self.clock, redactor=self.redactor)

    def person_client(self, token: str) -> GitHubClient:
        """Return a client that speaks as the person whose token this is. The caller closes it.

        It has a redactor of its own, so that tokens from strangers cannot displace those in the process's redactor.
        """
        credentials = StaticToken(lambda: token)
        return github_client(self.settings, credentials, self.clock, redactor=self.redactor.fork())

    def reported_limits(self) -> Iterator[tuple[int | None, ReportedLimit]]:
        """Yield what GitHub last reported about the requests that each installation has left."""
        for installation, pace in self._paces.items():
            for limit in pace.limits.values():
                yield installation, limit

    async def close(self) -> None:
        """Revoke the tokens that were created, as far as GitHub does so within REVOKING_SECONDS (W4)."""
        for reached in self._reached.values():
            await asyncio.to_thread(reached.refs.close)
        clients = [*(reached.client for reached in self._reached.values()), *self._others.values()]
        app_tokens = [client.credentials for client in clients if isinstance(client.credentials, AppTokens)]
        with suppress(TimeoutError):
            async with asyncio.timeout(REVOKING_SECONDS):
                await asyncio.gather(*(tokens.revoke() for tokens in app_tokens), return_exceptions=True)

    def _credentials(self, installation: int | None, number: int | None, permissions: dict[str, str]) -> Credentials:
        if installation is None:
            return StaticToken(self.settings.github.token.reveal)
        return AppTokens(self.app(), installation, None if number is None else RepositoryId(number), permissions)

    def _client_of(self, installation: int | None, credentials: Credentials) -> GitHubClient:
        """Return a client that shares its pace with all clients of its installation; GitHub counts them as one."""
        pace = self._paces.setdefault(installation, WritePace(self.clock, self.settings.github.write_pause))
        return github_client(self.settings, credentials, self.clock, pace=pace, redactor=self.redactor)


def github_client(
    settings: Settings, credentials: Credentials, clock: Clock, *, redactor: Redactor, pace: WritePace | None = None
) -> GitHubClient:
    """Return a client of the operator's GitHub server. Without `pace`, it shares its pace with no other client."""
    github = settings.github
    return GitHubClient(
        github.api_url,
        github.graphql_url,
        credentials,
        clock,
        pace or WritePace(clock, github.write_pause),
        redactor=redactor,
        authorities=settings.network.authorities,
    )
