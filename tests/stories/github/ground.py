"""What the stories on GitHub stand on: one simulated GitHub with its people, a scripted model, and the real bot.

A story reads like its thread: ``maya`` maintains, ``ada`` is the admin, ``will`` writes, ``rita`` reads. What people do
comes a second after whatever happened last; ``await story.rests()`` lets the bot check every thread, as it would
after a delivery or a tick.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from bot.clock import SystemClock
from bot.config.settings import GitHubSettings, Secret, Settings
from bot.core import marker
from bot.core.errors import Transient
from bot.core.gate import Stage
from bot.core.moves import Entry
from bot.core.names import RepositoryId, ThreadAddress, ThreadNumber
from bot.core.thread.state import ThreadState
from bot.service.connections import key_of
from bot.service.github_host import GitHubHost
from bot.store.git_journal import GitJournal
from bot.store.thread_refs import Remote, ThreadRefs
from bot.testing.github import credentials
from bot.testing.github.entities import Comment, Installation, Issue
from bot.testing.github.faults import Logged
from bot.testing.github.person import Person
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.github.world import GitHubState
from bot.testing.model.reply import Fault, Reply, call, say
from bot.testing.model.request_view import ModelRequest
from bot.testing.model.server import ScriptedModel
from bot.testing.sample import FILES, NAMED, TITLE
from tests.stories.github.clocks import QuickClock
from tests.stories.ground import until

HOME: Final = "parcel/shop"
ROLES: Final = {"ada": "admin", "maya": "maintain", "will": "write", "tess": "triage", "rita": "read"}
WISH: Final = "Please let orders of exactly 50 ship free."
FIXED: Final = "parcel/shipping.py"
NEVER: Final = 1e9
"""Seconds that no story lasts: planning shows no progress, unless a story is about that."""
PATIENCE: Final = 40.0
"""Seconds until something that must happen counts as never happening."""


class Pause:
    """A moment at which the model waits: a story learns that it is there, says something, and lets it go on."""

    def __init__(self) -> None:
        self._there, self._on = threading.Event(), threading.Event()

    def hold(self) -> None:
        self._there.set()
        self._on.wait(PATIENCE)

    @property
    def there(self) -> bool:
        return self._there.is_set()

    async def reached(self) -> None:
        """Wait, on the side of the story, until the model waits."""
        assert await asyncio.to_thread(self._there.wait, PATIENCE), "the model never came to its pause"

    def go_on(self) -> None:
        """Let the model go on."""
        self._on.set()


FIX: Final = (
    call("Read", file_path=FIXED),
    call("Edit", file_path=FIXED, old_string="total > FREE_FROM", new_string="total >= FREE_FROM"),
    say("Orders of 50 ship free."),
)
NOTE: Final = (
    call("Read", file_path="CHANGELOG.md"),
    call(
        "Edit",
        file_path="CHANGELOG.md",
        old_string="- Express delivery.\n",
        new_string="- Express delivery.\n- Orders of exactly 50 ship free.\n",
    ),
    say("Noted in the changelog."),
)


@dataclass(slots=True)
class Model:
    """What the model does: hands in a plan, and after the approval works in steps; `pauses` are by step, p0 or w1."""

    scope: tuple[str, ...] = (FIXED,)
    commands: tuple[str, ...] = ()
    plan: str = "In `parcel/shipping.py`, compare with `>=`."
    before: tuple[Reply | Fault, ...] = ()
    """What it answers while it plans, before it hands the plan in."""
    work: tuple[Reply | Fault, ...] = FIX
    seconds: float = 0.0
    """How long it takes over each step of approved work."""
    pauses: dict[str, Pause] = field(default_factory=dict)
    heard: list[ModelRequest] = field(default_factory=list)
    down: str = ""
    """Which models are overloaded, by how their names begin."""
    light: Reply | Fault = say(NAMED)
    """What it answers small questions."""
    lightly: list[ModelRequest] = field(default_factory=list)

    def __call__(self, request: ModelRequest) -> Reply | Fault:
        if not request.tools:
            self.lightly.append(request)
            return self.light
        self.heard.append(request)
        if self.down and request.model.startswith(self.down):
            return Fault.status(529)
        works = is_work(request)
        if pause := self.pauses.get(f"{'w' if works else 'p'}{request.step}"):
            pause.hold()
        if works:
            return self.do(request)
        if request.step < len(self.before):
            return self.before[request.step]
        return self.hand_in()

    def hand_in(self) -> Reply:
        handed: dict[str, object] = {"plan": self.plan, "scope": list(self.scope), "commands": list(self.commands)}
        return call("exit_plan_mode", **handed)

    def do(self, request: ModelRequest) -> Reply | Fault:
        time.sleep(self.seconds)
        return self.work[min(request.step, len(self.work) - 1)]

    def pause(self, step: str) -> Pause:
        return self.pauses.setdefault(step, Pause())

    def go_on(self) -> None:
        for pause in self.pauses.values():
            pause.go_on()

    def turn_to_the_changelog(self) -> None:
        """Plan and do something else from now on."""
        self.plan, self.scope, self.work = "Note it in `CHANGELOG.md`.", ("CHANGELOG.md",), NOTE

    @property
    def works(self) -> list[ModelRequest]:
        return [request for request in self.heard if is_work(request)]

    @property
    def worked(self) -> int:
        return len(self.works)


def is_work(request: ModelRequest) -> bool:
    return any("The plan is approved. Plan mode is off" in text for text in request.texts())


@dataclass(slots=True)
class Hub:
    """One simulated GitHub with the repository, its people and the App; what was said, made and asked there."""

    github: SimulatedGitHub
    installation: Installation
    advance: Callable[[float], None]
    about: int = field(default=1, kw_only=True)
    """The thread that is spoken of where no other is named."""
    repository: str = field(default=HOME, kw_only=True)

    @property
    def world(self) -> GitHubState:
        return self.github.world

    @property
    def bot(self) -> int:
        return self.github.app.bot

    def person(self, login: str) -> Person:
        """Return a person, a second after whatever happened last."""
        self.advance(1.1)
        return self.world.person(login)

    def opens(self, login: str, body: str = f"@plangate {WISH}", title: str = TITLE) -> Issue:
        """Open an issue, with a mention if nothing else is said."""
        return self.person(login).open_issue(self.repository, title, body)

    def says(self, login: str, body: str, number: int = 0) -> Comment:
        return self.person(login).comment(self.repository, number or self.about, body)

    def reacts(self, login: str, content: str, comment: Comment | None = None) -> None:
        """React to the newest plan, or to another comment."""
        self.person(login).react(comment or self.plan, content)

    def issue(self, number: int = 0) -> Issue:
        return self.world.issue(self.repository, number or self.about)

    async def journal(self, settings: Settings, number: int = 0) -> tuple[Entry, ...]:
        """Read a thread's journal, verified: chained, and sealed with the key that those settings have."""
        repository, clock = self.world.repository(self.repository), SystemClock()
        remote = Remote(f"{self.github.server_url}/{self.repository}.git")
        refs = ThreadRefs(remote, settings.data_dir / "reading.git", clock)
        journal = GitJournal(refs, RepositoryId(repository.id), key=key_of(settings), clock=clock)
        return await journal.read(ThreadNumber(number or self.about))

    def comments(self, number: int = 0) -> list[Comment]:
        """List the bot's comments on a thread, oldest first."""
        return [each for each in self.world.comments_of(self.issue(number)) if each.author == self.bot]

    def said(self, kind: str, number: int = 0) -> list[str]:
        """List the bot's texts of one kind (plan, tell, waits, progress) on a thread, oldest first."""
        return [marker.without(each.text.body) for each in self.comments(number) if kind_of(each) == kind]

    def plans(self, number: int = 0) -> list[Comment]:
        return [each for each in self.comments(number) if kind_of(each) == "plan"]

    @property
    def plan(self) -> Comment:
        return self.plans()[-1]

    @property
    def digest(self) -> str:
        """The digest of the newest plan, as its marker tells it."""
        return digest_of(self.plan)

    def signs(self, subject: Issue | Comment) -> list[str]:
        """List the bot's reactions under something that was said."""
        return [each.content for each in self.world.reactions_to(subject.node_id) if each.user == self.bot]

    def branches(self) -> dict[str, str]:
        refs = self.world.bare(self.world.repository(self.repository)).refs()
        return {name.removeprefix("refs/heads/"): at for name, at in refs.items() if "heads/plangate/" in name}

    def pulls(self) -> list[Issue]:
        """List the pull requests, oldest first."""
        home = self.world.repository(self.repository).id
        return [each for each in tuple(self.world.issues.values()) if each.pull and each.repository == home]

    def file(self, branch: str, path: str = FIXED) -> str:
        bare = self.world.bare(self.world.repository(self.repository))
        return bare.run("show", f"refs/heads/{branch}:{path}").decode()

    def asked(self, *starts: str) -> list[Logged]:
        """List the requests whose method and path begin so."""
        return [logged for logged in self.github.requests if logged.name.startswith(starts)]

    def nothing_done(self) -> bool:
        return not self.branches() and not self.pulls()


@dataclass(slots=True)
class Story(Hub):
    """A hub with the bot in this process: it checks when the story says so."""

    host: GitHubHost
    clock: QuickClock
    model: Model
    api: ScriptedModel
    records: dict[int, ThreadState] = field(default_factory=dict)

    def address(self, number: int = 1) -> ThreadAddress:
        repository = self.world.repository(HOME)
        return ThreadAddress(self.installation.id, repository.id, repository.owner_login, repository.name, number)

    async def rests(self, *numbers: int) -> ThreadState:
        """Let the bot check those threads, or at all, and give the record of the first."""
        for number in numbers or sorted(issue.number for issue in self.world.issues.values()):
            self.records[number] = await self.host.check_thread(self.address(number))
        return self.records[min(numbers or self.records)]

    async def persists(self, number: int = 1) -> ThreadState:
        """Let the bot check again and again while a service fails, as the worker does."""
        for _ in range(8):
            try:
                return await self.rests(number)
            except Transient:
                continue
        raise AssertionError("every check failed")

    async def reads_comments(self, number: int = 1) -> None:
        """Let the bot read comments, as it does when a delivery comes while a check is under way."""
        self.records[number] = await self.host.read_comments(self.address(number))

    @asynccontextmanager
    async def at_work(self, pause: Pause, number: int = 1) -> "AsyncIterator[asyncio.Future[ThreadState]]":
        """Be there while a check is under way and the model waits; afterwards it goes on, and the check ends."""
        checking = asyncio.ensure_future(self.host.check_thread(self.address(number)))
        try:
            await first(pause.reached(), checking)
            yield checking
            pause.go_on()
            self.records[number] = await checking
        finally:
            pause.go_on()
            checking.cancel()
            await asyncio.gather(checking, return_exceptions=True)

    async def watched(self, *, again: bool = True) -> None:
        """Wait until work has seen what the journal holds now: it lists, fetches and, unless stopped, lists `again`."""
        reads = len(self.asked(listed := f"POST /{HOME}.git/git-upload-pack")) + 3 + again  # of which a fetch is two

        def has_read() -> bool:
            self.clock.advance(0.5)  # the next reading is due at once
            return len(self.asked(listed)) >= reads

        await asyncio.to_thread(until, has_read, "a reading")

    async def planned(self, login: str = "will") -> Comment:
        """Let somebody ask, and give the plan comment."""
        self.opens(login)
        await self.rests(1)
        assert self.stage is Stage.AWAITING_APPROVAL, self.stage
        return self.plan

    async def approved(self, login: str = "will") -> Comment:
        """Let somebody ask, and maya approve the plan, which no check has seen yet; give the plan comment."""
        plan = await self.planned(login)
        self.reacts("maya", "+1")
        return plan

    def configure(self, text: str, path: str = ".github/plangate.yml") -> None:
        """Push the configuration of the default branch."""
        self.person("ada").push(HOME, {path: text})

    async def entries(self) -> tuple[Entry, ...]:
        return await self.journal(self.host.settings)

    @property
    def stage(self) -> Stage:
        """Where the first thread stands, as of the last check."""
        return self.records[1].stage


async def first(waiting: Coroutine[None, None, None], checking: "asyncio.Future[ThreadState]") -> None:
    """Wait for something that happens while a check is under way; a check that ends before fails the story."""
    task = asyncio.ensure_future(waiting)
    both: set[asyncio.Future[Any]] = {task, checking}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        raise AssertionError(f"the check ended before: {await checking}")
    await task


def kind_of(comment: Comment) -> str:
    """Return the kind that a comment's marker names; "" without one."""
    found = marker.parse(comment.text.body)
    return found.kind if found else ""


def digest_of(comment: Comment) -> str:
    found = marker.parse(comment.text.body)
    assert found is not None
    return found.digest


def settings(github: SimulatedGitHub, base_url: str, data: Path) -> Settings:
    app = github.app
    reached = GitHubSettings(
        github.api_url,
        github.graphql_url,
        github.server_url,
        app_id=str(app.id),
        private_key=Secret(app.pem),
        webhook_secret=Secret(app.webhook_secret),
        write_pause=0.0,
        progress_seconds=NEVER,
    )
    return Settings(api_key=Secret("test"), base_url=base_url, data_dir=data, github=reached)


Reached: TypeAlias = tuple[SimulatedGitHub, Installation, Callable[[float], None], Model, ScriptedModel]


@contextmanager
def reachable(folder: Path, model: Model, clock: QuickClock) -> Iterator[Reached]:
    """Serve a GitHub with its people and a scripted model."""
    with ScriptedModel(model) as api, SimulatedGitHub(folder / "github", clock=clock) as github:
        yield github, settle(github.world, github), clock.advance, model, api


def addresses(github: SimulatedGitHub, api: ScriptedModel) -> dict[str, str]:
    """Return the variables that say where GitHub and the model are."""
    return {
        "GITHUB_API_URL": github.api_url,
        "GITHUB_GRAPHQL_URL": github.graphql_url,
        "GITHUB_SERVER_URL": github.server_url,
        "ANTHROPIC_BASE_URL": api.base_url,
        "PLANGATE_WRITE_PAUSE_SECONDS": "0",
    }


def settle(world: GitHubState, app: SimulatedGitHub, home: str = HOME) -> Installation:
    """Make the repository, its people, and the installation."""
    owner = world.add_user(home.partition("/")[0], "Organization").login
    world.set_settings(world.add_repository(home, FILES).full_name, actions_open_pulls=True)
    for login, role in ROLES.items():
        world.set_role(home, login, role)
    return credentials.install(world, app.app, owner)


def at(world: GitHubState, comment: Comment, login: str, content: str, when: datetime) -> None:
    """Set the second at which a reaction was made."""
    made = world.person(login).react(comment, content)
    world.reactions[made.id] = replace(made, created_at=when)
