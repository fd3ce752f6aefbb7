"""One thread on the simulated GitHub, with people of every role, and the bot's dialogue on it."""

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.core.configuration import Ask, Configuration
from bot.core.marker import Key
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.plan import Contract, PlanDocument
from bot.core.turn import Actor, ActorKind, Turn
from bot.github.client import GitHubClient
from bot.github.dialogue import GitHubDialogue
from bot.github.pace import WritePace
from bot.github.repository import Address
from bot.github.tokens import AppJwt, AppTokens
from bot.github.turns import BotIdentity, ParsedTextCache
from bot.ports import Dialogue
from bot.testing.github import credentials
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.github.world import TurnedClock

HOME = "acme/pocket"
DEFAULTS = Configuration()
UNQUOTED = Configuration(ask=Ask(untrusted_context=False))
ROLES = {"ada": "admin", "mia": "maintain", "will": "write", "tom": "triage", "rea": "read"}


class NoFence:
    """The ThreadFence port for a thread that no other process works on."""

    async def raise_if_moved(self) -> None:
        """Do nothing."""

    async def check_run(self) -> None:
        """Do nothing."""


no_fence = NoFence()


@dataclass(frozen=True)
class Signed:
    """Makes MACs with a key of the test's own, as `marker_key` does."""

    secret: bytes = b"key"

    @property
    def key_id(self) -> str:
        return "0a1b2c3d"

    def mac(self, text: str) -> str:
        return hashlib.sha256(self.secret + text.encode()).hexdigest()[:32]


@dataclass
class Ground:
    """The simulated GitHub with one repository, and the ways to it."""

    github: SimulatedGitHub
    clock: TurnedClock
    app: GitHubClient = field(init=False)
    client: GitHubClient = field(init=False)
    address: Address = Address("acme", "pocket")
    parsed_texts: ParsedTextCache = field(default_factory=ParsedTextCache)

    def __post_init__(self) -> None:
        world = self.github.world
        world.add_repository(HOME, {"README.md": "# Pocket\n", "src/a.py": "a = 1\n"})
        for login, role in ROLES.items():
            world.set_role(HOME, login, role)
        world.add_user("stranger")
        installed = credentials.install(world, self.github.app, "acme")
        urls = self.github.api_url, self.github.graphql_url
        app = self.github.app
        self.app = GitHubClient(
            *urls, AppJwt(str(app.id), lambda: app.pem, self.clock), self.clock, WritePace(self.clock)
        )
        wanted = dict.fromkeys(("issues", "pull_requests", "contents"), "write")
        tokens = AppTokens(self.app, installed.id, RepositoryId(self.repository), wanted)
        self.client = GitHubClient(*urls, tokens, self.clock, WritePace(self.clock))

    @property
    def repository(self) -> int:
        return self.github.world.repository(HOME).id

    @property
    def bot(self) -> Actor:
        return Actor(self.github.app.bot, "plangate[bot]", ActorKind.BOT)

    @property
    def head(self) -> CommitId:
        world = self.github.world
        return CommitId(world.bare(world.repository(HOME)).refs()["refs/heads/main"])

    def person(self, login: str) -> Any:
        """Return a person, a second after whatever happened last."""
        self.clock.advance(1)
        return self.github.world.person(login)

    def issue(
        self, body: str = "please @plangate fix it", by: str = "will", *, title: str = "Fix *it*"
    ) -> ThreadNumber:
        return ThreadNumber(self.person(by).open_issue(HOME, title, body).number)

    def dialogue(
        self,
        thread: ThreadNumber,
        configuration: Configuration = DEFAULTS,
        *,
        labels: bool = False,
        secret: bytes = b"key",
        bots: frozenset[int] = frozenset(),
        told: str = "",
    ) -> GitHubDialogue:
        self.clock.advance(1)
        signer = Signed(secret)
        return GitHubDialogue(
            self.client,
            self.address,
            thread,
            BotIdentity(self.bot, bots=bots),
            Key(signer.key_id, signer.mac),
            "main",
            self.parsed_texts,
            no_fence,
            configuration,
            label_threads=labels,
            told=told,
        )

    def plan(self, thread: ThreadNumber, **other: Any) -> PlanDocument:
        plan = PlanDocument(
            repository=RepositoryId(self.repository),
            thread=thread,
            plan=1,
            base=self.head,
            markdown="Change `src/a.py`.",
            contract=Contract(scope=("src/**",)),
            tier="normal",
            budget_usd=5.0,
            expires=self.clock.now() + timedelta(days=7),
        )
        return replace(plan, **other)

    def comments(self, thread: ThreadNumber, *, ours: bool = True) -> list[Any]:
        world = self.github.world
        every = world.comments_of(world.issue(HOME, thread))
        return [comment for comment in every if not ours or comment.author == self.bot.id]

    def asked(self, start: str = "") -> list[str]:
        """List the requests, such as ``POST /repos/...``, that begin so."""
        return [logged.name for logged in self.github.requests if logged.name.startswith(start)]


async def turns_of(
    dialogue: Dialogue, seen: Collection[str] = (), heard_until: datetime | None = None
) -> tuple[Turn, ...]:
    """List the turns of a thread on which everybody may act, without what turned out to be none."""
    found = await dialogue.turns(seen, heard_until, may_act=lambda _: True)
    return tuple(turn for turn in found if not turn.aside)


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    clock = TurnedClock()
    with SimulatedGitHub(tmp_path, clock=clock) as github:
        made = Ground(github, clock)
        yield made
        made.client.close()
        made.app.close()
