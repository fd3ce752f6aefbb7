"""A thread with all of its ports in memory: the ground for the tests of the verbs.

`process` returns the run of a new process: what is durable is shared with those before it, and nothing else.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from bot.agent.limits import Ledger
from bot.agent.permissions.plan_mode import EXIT_PLAN_MODE
from bot.agent.permissions.tool_gate import PermissionGate, ToolRules, parse_rule
from bot.agent.prompts import Environment, prompt_text
from bot.agent.resources import HumanAvailability, SessionResources
from bot.core.approval import Policy
from bot.core.configuration import Configuration
from bot.core.moves import JournaledTurn, MoveEvent, Requested
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.plan import Contract, PlanDocument
from bot.core.thread.state import ThreadState
from bot.core.transcript import Json
from bot.core.turn import Actor, Role
from bot.core.work import LocalRun, ThreadLocation
from bot.ports import ModelRequest, Pulls
from bot.terminal import Terminal
from bot.workflow import engine
from bot.workflow.thread_run import StateCache, ThreadJournal, ThreadRun, WorkConditions, WorkControl
from tests.agent.ground import ENVIRONMENT, HandClock
from tests.memory_store import MemoryTranscripts
from tests.workflow.memory_ports import (
    Life,
    MemoryPulls,
    MemoryWorkspace,
    MortalJournal,
    Script,
    ScriptedAnswers,
)
from tests.workflow.memory_thread import MemoryThread

WILL: Final = Actor(5, "will")
"""Asks."""
MAYA: Final = Actor(2, "maya")
"""Approves."""
BOT: Final = Actor(9, "plangate")
BASE: Final = CommitId("a" * 40)
LOCATION: Final = ThreadLocation(RepositoryId(1), ThreadNumber(7), "Fix it", BASE, "main")
FILE: Final = "a.py"
RULES: Final = ToolRules(ask=(parse_rule("Bash(curl:*)"),))
"""What people are asked about."""
ALONE: Final = WorkConditions(watch_seconds=0)
"""A process that does not look whether others moved the thread."""


def configured(**keys: object) -> Configuration:
    """The configuration of a file with these keys, without light calls, which a script does not expect."""
    return Configuration.model_validate({"models": {"light": None}, **keys})


def say(text: str) -> list[Json]:
    return [{"type": "text", "text": text}]


def call(name: str, **given: object) -> list[Json]:
    return [{"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": given}]


def submit(text: str = "Do it.", **contract: object) -> list[Json]:
    return call(EXIT_PLAN_MODE, plan=text, **({"scope": [FILE]} | contract))


def is_working(request: ModelRequest) -> bool:
    approved = prompt_text("approved").strip()
    return any(approved in str(block.get("text") or block.get("content")) for block in _blocks(request))


def was_called(request: ModelRequest, tool: str) -> bool:
    return any(block.get("name") == tool for block in _blocks(request))


def _blocks(request: ModelRequest) -> Iterator[Json]:
    for message in request.messages:
        yield from (block for block in message["content"] if isinstance(block, dict))


def plan_and_work(request: ModelRequest) -> list[Json]:
    """Plan; once that is approved, write the file and say so."""
    if not is_working(request):
        return submit()
    return say("Done.") if was_called(request, "Write") else call("Write", file_path=FILE, content="a = 2\n")


def ask_permission(request: ModelRequest) -> list[Json]:
    """Plan; while working, ask for permission before the file is written."""
    if not is_working(request) or was_called(request, "Bash"):
        return plan_and_work(request)
    return call("Bash", command="curl https://example.org")


def outgrow_plan(request: ModelRequest) -> list[Json]:
    """Plan; while working, write a file that the plan does not name first."""
    if is_working(request) and not was_called(request, "Write"):
        return call("Write", file_path="b.py", content="b = 1\n")
    return plan_and_work(request)


def plan_with_check(request: ModelRequest) -> list[Json]:
    """Plan with a check, and work."""
    return plan_and_work(request) if is_working(request) else submit(commands=["check"])


async def _environment(_: CommitId) -> Environment:
    return ENVIRONMENT


@dataclass(slots=True)
class Ground:
    """One thread, its people, and what is durable of the work on it."""

    script: Script = plan_and_work
    configuration: Configuration = field(default_factory=configured)
    conditions: WorkConditions = ALONE
    clock: HandClock = field(default_factory=HandClock)
    life: Life = field(default_factory=Life)
    location: ThreadLocation = LOCATION
    available: HumanAvailability = HumanAvailability(answers=True, permits=True)
    slots: int = 1
    """How many sessions may run."""
    transcripts: MemoryTranscripts = field(default_factory=MemoryTranscripts)
    thread: MemoryThread = field(init=False)
    journal: MortalJournal = field(init=False)
    workspace: MemoryWorkspace = field(init=False)
    pulls: MemoryPulls = field(init=False)
    model: ScriptedAnswers = field(init=False)

    def __post_init__(self) -> None:
        self.thread = MemoryThread(self.clock, self.life)
        self.journal = MortalJournal(self.clock, self.life)
        self.workspace = MemoryWorkspace(self.life)
        self.pulls = MemoryPulls(self.life, self.workspace.branches)
        self.model = ScriptedAnswers(self.script)

    def process(self, *, run: str = "") -> ThreadRun:
        place = self.location
        gate, ledger = PermissionGate(RULES, sandboxed=True), Ledger(self.configuration.budget.session_usd)
        resources = SessionResources(
            self.model, self.transcripts, self.clock, gate, ledger, availability=self.available
        )
        journal = ThreadJournal(self.journal, place.repository, place.thread, StateCache())
        return ThreadRun(
            *(place, journal, self.thread, self.workspace, resources, _environment, self.pulls),
            configuration=self.configuration,
            conditions=replace(self.conditions, run=run),
            policy=Policy(bot=BOT.id),
            control=WorkControl(begin_session=lambda: self.slots > 0),
        )

    async def reading(self, *, run: str = "") -> ThreadRun:
        """Return the run of a new process that has read the journal."""
        process = self.process(run=run)
        await process.read()
        return process

    async def check(self) -> ThreadState:
        """Check the thread in a new process, a second after all that happened before."""
        self.clock.seconds += 1
        try:
            return await self.life.live(engine.check_thread(self.process()))
        finally:
            self.clock.seconds += 1

    async def read_comment(self, who: Actor, text: str) -> ThreadState:
        """Have somebody say something, which another process reads while a check goes on."""
        self.clock.seconds += 1
        self.thread.say(who, text)
        return await engine.read_comments(self.process())

    async def state(self) -> ThreadState:
        return await self.process().journal.read()

    async def planned(self, text: str = "Do it.") -> ThreadState:
        """Have a plan shown for a request of somebody who may ask."""
        self.thread.say(WILL, text)
        return await self.check()

    async def approved(self) -> None:
        """Have a plan shown and approved; the next check carries it out."""
        await self.planned()
        self.thread.decide(MAYA)

    async def published(self) -> ThreadState:
        await self.approved()
        return await self.check()

    @property
    def told(self) -> list[str]:
        return self.thread.texts("text")

    async def kinds(self) -> list[str]:
        return [str(entry.kind) for entry in await self.journal.read(self.location.thread)]

    async def moved(self, *moves: MoveEvent) -> ThreadState:
        """Journal moves, as other processes would."""
        process = await self.reading()
        for move in moves:
            await process.append(move)
        return process.state

    def requested(self, text: str = "Do it.") -> Requested:
        return Requested(said=JournaledTurn.of(self.thread.say(WILL, text)), base=BASE, title="Fix it")

    def plan(self) -> PlanDocument:
        return PlanDocument(
            repository=self.location.repository,
            thread=self.location.thread,
            plan=1,
            base=BASE,
            markdown="Do it.",
            contract=Contract((FILE,)),
            tier="normal",
            budget_usd=1.0,
            expires=self.clock.now() + timedelta(days=7),
        )


@dataclass(slots=True)
class LocalGround(Ground):
    """A run on a local repository: somebody who says yes to every plan, and a branch as the result."""

    location: ThreadLocation = LocalRun(RepositoryId(1), ThreadNumber(7), "Do it.", BASE)
    available: HumanAvailability = HumanAvailability()
    screen: io.StringIO = field(default_factory=io.StringIO)

    def process(self, *, run: str = "") -> ThreadRun:
        made = Ground.process(self, run=run)
        dialogue = Terminal("Do it.", self.clock, self.screen, yes=True)
        self.clock.seconds += 1  # nobody answers at once
        configuration, policy = made.configuration.for_terminal(), Policy(role=Role.READ, high_needs=1)
        return replace(made, dialogue=dialogue, pulls=Pulls(), configuration=configuration, policy=policy)
