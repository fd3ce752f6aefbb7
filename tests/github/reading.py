"""A reader of the simulated repository, for the tests of what a session may read there."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bot.core.brief import Passage, RepositoryQuery, RepositoryText, Topic
from bot.core.names import RepositoryId, ThreadNumber
from bot.core.transcript import Json
from bot.core.turn import Actor, Role
from bot.github.attached_pictures import AttachedPictures
from bot.github.checks import CheckResults
from bot.github.client import GitHubClient
from bot.github.pace import WritePace
from bot.github.permissions import Roles
from bot.github.repository_reader import GitHubReader
from bot.github.thread_quotes import Attribution
from bot.github.tokens import AppTokens, StaticToken
from bot.github.turns import BotIdentity
from bot.testing.github import credentials
from bot.testing.github.entities import CheckRun
from tests.github.conftest import HOME, Ground

JOB = {"issues": "write", "pull_requests": "write", "contents": "write", "checks": "read", "actions": "read"}
"""The permissions of a job's token, as `plangate init` writes them into the workflow."""


def may_ask(_: Actor, role: Role | None) -> bool:
    return role is not None and role >= Role.WRITE


async def no_pictures(url: str) -> Json:
    raise AssertionError(url)


@dataclass
class Reading:
    """The reader of acme/pocket with a job's token, or with another one."""

    ground: Ground
    permissions: dict[str, str] = field(default_factory=lambda: dict(JOB))
    untrusted_context: bool = True
    as_app: bool = False
    thread: ThreadNumber = ThreadNumber(1)
    show: Callable[[str], Awaitable[Json]] = no_pictures
    clients: list[GitHubClient] = field(default_factory=list)

    @property
    def reader(self) -> GitHubReader:
        ground = self.ground
        world = ground.github.world
        token = credentials.job_token(world, world.repository(HOME), self.permissions).value
        client = self._client(StaticToken(lambda: token))
        installed = next(iter(world.installations.values()))
        asked = (
            AppTokens(ground.app, installed.id, RepositoryId(ground.repository), {"checks": "read", "members": "write"})
            if self.as_app
            else StaticToken(lambda: token)
        )
        checks = CheckResults(self._client(asked), self._client(asked), ground.address)
        roles = Roles(client, ground.address)
        attribution = Attribution(client, BotIdentity(ground.bot), roles, ground.parsed_texts, may_ask)
        thread = ground.dialogue(self.thread).thread_as_read
        attached = AttachedPictures(client, ground.address, thread, attribution, self.show)
        return GitHubReader(client, ground.address, "main", attribution, checks, attached, self.untrusted_context)

    def _client(self, tokens: Any) -> GitHubClient:
        github, clock = self.ground.github, self.ground.clock
        self.clients.append(GitHubClient(github.api_url, github.graphql_url, tokens, clock, WritePace(clock)))
        return self.clients[-1]

    async def read(self, topic: Topic, number: int = 0, **query: Any) -> RepositoryText:
        """Read as a planning session does, unless `strangers` says otherwise."""
        asked = RepositoryQuery(topic, number, **{"strangers": True, **query})
        try:
            return await self.reader.read(asked)
        finally:
            for client in self.clients:
                client.close()

    async def passages(self, topic: Topic, number: int = 0, **query: Any) -> tuple[Passage, ...]:
        return (await self.read(topic, number, **query)).passages


def text_of(found: RepositoryText | tuple[Passage, ...]) -> str:
    """Return everything that was shown."""
    passages = found.passages if isinstance(found, RepositoryText) else found
    return "\n".join(f"{passage.head}\n{passage.text}" for passage in passages)


def fail_job(ground: Ground, commit: str, log: bytes, *, name: str = "tests", at: datetime | None = None) -> CheckRun:
    """Record a failed job of GitHub Actions on a commit, with its log."""
    world = ground.github.world
    app = next((each for each in world.apps.values() if each.slug == "github-actions"), None)
    app = app or credentials.register_app(world, "github-actions", owner="github")
    now = at or world.now()
    run = CheckRun(
        world.next_id(), ground.repository, app.id, name, commit, "completed", now, "failure", now, title="1 failed"
    )
    world.check_runs[run.id], world.job_logs[run.id] = run, log
    return run
