"""Joins the rooms for threads on GitHub: what the service, the Action and `sweep` work with.

One `GitHubHost` serves many threads. Each look builds a desk for one thread from live facts, so that nothing that is
remembered here can be stale; what is kept between looks (tokens, what git last saw) only saves time.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Self

from bot.agent.limits import Ledger
from bot.agent.prompts import Environment
from bot.agent.session import World
from bot.clock import SystemClock
from bot.compose.parts import MEMORIES, bounds_of, gate_of, key_of, model_of, orders_of, policy_of
from bot.config import PATH, Settings, configuration
from bot.core.approval import Actor
from bot.core.errors import Misconfigured, PlangateError, Refused
from bot.core.gate import Stage
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.github import reach, repository
from bot.github.dialogue import GitHubDialogue, Manners
from bot.github.door import Credentials, Door
from bot.github.poll import fingerprints
from bot.github.pulls import GitHubPulls
from bot.github.tokens import AppJwt, AppTokens, StaticToken
from bot.ports import Place
from bot.store.git_journal import GitJournal
from bot.store.keys import MarkerSigner, StateKey
from bot.store.thread_refs import Remote, ThreadRefs
from bot.store.transcripts import SpooledTranscripts
from bot.workflow import engine
from bot.workflow.desk import Desk
from bot.workflow.record import Record, record
from bot.workspace.remote import RemoteRepository
from bot.workspace.workspace import GitWorkspace

if TYPE_CHECKING:
    from types import TracebackType

    from bot.agent.model.client import AnthropicModel
    from bot.configuration import Configuration

AT_REST = frozenset({Stage.LISTENING, Stage.ANSWERED, Stage.DONE, Stage.REJECTED, Stage.IN_REVIEW, Stage.ASKED})
"""Stages that only people move on: such a thread is not looked at until somebody speaks."""

REFRESH_SECONDS = 60.0

PERMISSIONS = {"contents": "write", "issues": "write", "pull_requests": "write", "metadata": "read"}
"""What a token that works on one repository may do, and no more (W4)."""


@dataclass(frozen=True, slots=True)
class Address:
    """One thread on GitHub, and the App installation through which it is reached (None with a plain token)."""

    installation: int | None
    repository: int
    owner: str
    name: str
    number: int


@dataclass(slots=True)
class Reached:
    """One repository as it is spoken to: a door, its tokens, and the newest token for git."""

    door: Door
    credentials: Credentials
    refs: ThreadRefs = field(init=False)
    remote: RemoteRepository = field(init=False)
    token: str = field(default="", repr=False)

    def newest(self) -> str:
        """Give the token that git uses next."""
        return self.token


@dataclass(slots=True)
class GitHubHost:
    """Looks at threads on GitHub; use it as an async context manager."""

    settings: Settings
    only: tuple[repository.Address, ...] = ()
    """The repositories to serve; empty for all that the credentials reach."""
    clock: SystemClock = field(default_factory=SystemClock)
    _model: "AnthropicModel | None" = None
    _bot: Actor | None = None
    _reached: dict[tuple[int | None, str], Reached] = field(default_factory=dict)
    _shown: dict[Address, str] = field(default_factory=dict)
    _seen: dict[str, str] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        """Make sure that there are credentials."""
        github = self.settings.github
        if not (github.as_app or github.token):
            raise Misconfigured(
                "no credentials for GitHub",
                where="PLANGATE_APP_ID, PLANGATE_GITHUB_TOKEN",
                mend="set PLANGATE_APP_ID with PLANGATE_PRIVATE_KEY, or PLANGATE_GITHUB_TOKEN",
            )
        self._model = model_of(self.settings)
        return self

    async def __aexit__(
        self, kind: "type[BaseException] | None", error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        """Close the model's connections."""
        if self._model is not None:
            await self._model.close()

    async def look(self, address: Address) -> Record:
        """Carry a thread on until it rests; a cancelled look is taken up by the next one."""
        async with self._desk(address) as desk:
            return self._noted(address, await engine.look(desk))

    async def listen(self, address: Address) -> Record:
        """Only take in what people said, while another look of the same thread is under way."""
        async with self._desk(address) as desk:
            return self._noted(address, await engine.listen(desk))

    async def open_threads(self) -> tuple[Address, ...]:
        """List every thread that waits or was interrupted, over all repositories that are served."""
        found = []
        async for installation, number, address in self._repositories():
            reached = await self._reach(installation, number, address)
            journal = GitJournal(reached.refs, RepositoryId(number), key=self._key, clock=self.clock)
            for thread in await journal.threads():
                at = Address(installation, number, address.owner, address.name, thread)
                with suppress(Refused):  # another key's thread is not ours
                    now = self._noted(at, record(await journal.read(thread)))
                    if now.stage not in AT_REST or now.debts or now.kept:
                        found.append(at)
        return tuple(found)

    async def changed(self, addresses: Iterable[Address]) -> tuple[Address, ...]:
        """Tell whose plan got a reaction or an edit since the last call: one query for up to 100 plans."""
        groups: dict[tuple[int | None, str], dict[str, Address]] = {}
        for address in addresses:
            if plan := self._shown.get(address):
                key = (address.installation, "" if address.installation else f"{address.owner}/{address.name}")
                groups.setdefault(key, {})[plan] = address
        moved = []
        for plans in groups.values():
            first = next(iter(plans.values()))
            at = repository.Address(first.owner, first.name)
            reached = await self._reach(first.installation, first.repository, at)
            for plan, print_ in (await fingerprints(reached.door, tuple(plans))).items():
                if self._seen.get(plan) != print_:
                    self._seen[plan] = print_
                    moved.append(plans[plan])
        return tuple(moved)

    @property
    def _key(self) -> StateKey:
        return key_of(self.settings)

    def _noted(self, address: Address, now: Record) -> Record:
        """Remember which plan comment to poll."""
        if now.stage is Stage.AWAITING_APPROVAL:
            self._shown[address] = now.fact("shown")
        else:
            self._shown.pop(address, None)
        return now

    @asynccontextmanager
    async def _desk(self, address: Address) -> AsyncIterator[Desk]:
        """Join everything for one thread, from live facts."""
        at = repository.Address(address.owner, address.name)
        reached = await self._reach(address.installation, address.repository, at)
        workspaces: list[GitWorkspace] = []
        refreshing = asyncio.ensure_future(self._refreshing(reached))
        try:
            desk, dialogue = await self._joined(address, reached, workspaces)
            yield desk
            await dialogue.close()
        finally:
            refreshing.cancel()
            await asyncio.gather(refreshing, *(workspace.close() for workspace in workspaces), return_exceptions=True)

    async def _joined(
        self, address: Address, reached: Reached, opened: list[GitWorkspace]
    ) -> tuple[Desk, GitHubDialogue]:
        at = repository.Address(address.owner, address.name)
        facts = await repository.repository(reached.door, at)
        if facts.id != address.repository:
            raise Refused("the delivery names another repository", where=at.path, mend="check the webhook's sender")
        if facts.head is None:
            raise Refused("the repository has no commit yet", where=at.path, mend="push one")
        keys = await _configuration(reached.door, at, facts.default_branch)
        bot = await self._account(reached)
        key = self._key
        thread = ThreadNumber(address.number)
        dialogue = GitHubDialogue.on(
            reached.door,
            at,
            thread,
            bot=bot,
            signer=MarkerSigner(key, facts.id),
            keys=self._manners(keys),
            base=facts.default_branch,
        )
        subject = await dialogue.subject()
        base = subject.head or facts.head
        place = Place(facts.id, thread, subject.title, base, facts.default_branch, branch=subject.branch)
        orders = orders_of(keys)
        workspace = GitWorkspace.on(reached.remote, self.settings.data_dir, bounds_of(keys))
        opened.append(workspace)
        spool = self.settings.data_dir / "transcripts"
        world = World(
            self._opened,
            SpooledTranscripts(reached.refs, facts.id, thread, key=key, spool=spool),
            self.clock,
            gate_of(keys, sandboxed=True),
            Ledger(orders.budget_usd),
            user_id=f"{facts.id:x}",
        )
        desk = Desk(
            place,
            partial(_environment, reached.door, at, workspace.checkouts.shown_as),
            GitJournal(reached.refs, facts.id, key=key, clock=self.clock),
            dialogue,
            workspace,
            world,
            orders,
            policy_of(keys, bot.id),
            GitHubPulls(reached.door, at, bot),
        )
        return desk, dialogue

    async def _reach(self, installation: int | None, number: int, at: repository.Address) -> Reached:
        """Give the way to one repository, with tokens that reach no other."""
        known = self._reached.get((installation, at.path))
        if known is None:
            credentials = self._credentials(installation, number)
            known = Reached(self._door_with(credentials), credentials)
            url = at.clone_url(self.settings.github.server_url)
            known.remote = RemoteRepository(url, known.newest)
            scratch = self.settings.data_dir / "state" / f"{number}.git"
            known.refs = ThreadRefs(Remote(url, environment=known.remote.environment), scratch, self.clock)
            self._reached[installation, at.path] = known
        known.token = await known.credentials.token()
        return known

    def _credentials(self, installation: int | None, number: int | None) -> Credentials:
        github = self.settings.github
        if installation is None:
            return StaticToken(github.token.reveal)
        scope = RepositoryId(number) if number is not None else None
        return AppTokens(self._app(), installation, scope, PERMISSIONS if scope is not None else None)

    def _door_with(self, credentials: Credentials) -> Door:
        github = self.settings.github
        return Door(github.api_url, github.graphql_url, credentials, self.clock, between_writes=github.write_pause)

    def _app(self) -> Door:
        """Give a door that is opened as the App itself."""
        github = self.settings.github
        return self._door_with(AppJwt(github.app_id, github.private_key.reveal, self.clock))

    async def _refreshing(self, reached: Reached) -> None:
        """Keep the token for git fresh while a look is under way: installation tokens last an hour."""
        while True:
            await self.clock.sleep(REFRESH_SECONDS)
            with suppress(PlangateError):
                reached.token = await reached.credentials.token()

    async def _repositories(self) -> AsyncIterator[tuple[int | None, int, repository.Address]]:
        """Yield (installation, number, name) of every repository that is served."""
        if self.only:
            for at in self.only:
                yield await self.find(at)
        elif self.settings.github.as_app:
            async for installation in reach.installations(self._app()):
                door = self._door_with(self._credentials(installation, None))
                async for number, at in reach.installed(door):
                    yield installation, number, at
        else:
            async for number, at in reach.owned(self._door_with(self._credentials(None, None))):
                yield None, number, at

    async def find(self, at: repository.Address) -> tuple[int | None, int, repository.Address]:
        """Look a repository up by name: (installation, number, name); raises Missing."""
        installation = None
        if self.settings.github.as_app:
            installation = await repository.installation(self._app(), at)
        facts = await repository.repository(self._door_with(self._credentials(installation, None)), at)
        return installation, facts.id, facts.address

    async def _account(self, reached: Reached) -> Actor:
        """Say who the bot is; asked once."""
        if self._bot is None:
            as_app = self.settings.github.as_app
            found = repository.app_bot(self._app(), reached.door) if as_app else repository.token_bot(reached.door)
            self._bot = await found
        return self._bot

    def _manners(self, keys: "Configuration") -> Manners:
        approve = keys.approve
        return Manners(
            keys.mention,
            frozenset(keys.ask.bots),
            keys.ask.untrusted_context,
            policy_of(keys, 0).role,
            approve.users,
            approve.teams,
            self.settings.github.server_url,
        )

    @property
    def _opened(self) -> "AnthropicModel":
        if self._model is None:
            raise Misconfigured("the host is not open", mend="use it as an async context manager")
        return self._model


async def look_once(settings: Settings, thread: str) -> Record:
    """Look at one thread, named OWNER/REPO#N, as the service would."""
    match = re.fullmatch(r"([\w.-]+)/([\w.-]+)#([1-9]\d{0,9})", thread)
    if match is None:
        raise Misconfigured(f"no thread: {thread!r}", where="OWNER/REPO#N", mend="write something like octo/hello#7")
    at = repository.Address(match[1], match[2])
    async with GitHubHost(settings) as host:
        installation, number, named = await host.find(at)
        return await host.look(Address(installation, number, named.owner, named.name, int(match[3])))


async def _configuration(door: Door, at: repository.Address, branch: str) -> "Configuration":
    """Read the configuration of the default branch (product.md, Configuration)."""
    content = await repository.file(door, at, PATH, branch)
    return configuration(content.decode(errors="replace") if content is not None else "")


async def _environment(door: Door, at: repository.Address, folder: str, base: CommitId) -> Environment:
    """Describe the job, with the project memory of the commit that it is planned on."""
    memory, name = None, ""
    for name in MEMORIES:
        if memory := await repository.file(door, at, name, base):
            break
    return Environment(
        folder=folder,
        platform="Linux",
        date=f"{door.clock.now():%Y-%m-%d}",
        repository=f"{at.owner}/{at.name}",
        base=base[:12],
        memory=memory.decode(errors="replace") if memory else "",
        memory_name=name if memory else "",
    )
