"""A parent with sub-agents on a workspace without a disk, and scripts for both sides."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from bot.agent.assembly import SessionSettings, assemble_session
from bot.agent.permissions.tool_gate import Mode
from bot.agent.prompts import first_message, prompt_text
from bot.agent.resources import SessionPlace
from bot.agent.session import Session
from bot.agent.session_events import AgentChanged, AgentEvent
from bot.agent.subagents.pool import SubagentPool
from bot.agent.subagents.types import TYPES, AgentType
from bot.core.approval import ApprovedPlan
from bot.core.configuration import Agents, Configuration, Execution, Subagents
from bot.core.errors import Broken, Refused
from bot.core.names import CommitId, SessionId
from bot.core.network import NO_NETWORK, Network
from bot.core.work import (
    UNBOUND,
    Checkout,
    CommitOrder,
    FrozenWork,
    MergeResult,
    PullCommits,
    PushedWork,
    SandboxBounds,
)
from bot.ports import Access, BeforePush, ToolOutput
from bot.testing.model.reply import Fault, Policy, Reply, call, say
from bot.testing.model.request_view import ModelRequest
from tests.agent.ground import ENVIRONMENT, FOLDER, Answer, DeskHost, Room, of

BASE = CommitId("0" * 40)


@dataclass
class DeskWorkspace:
    """A Workspace without a disk: notes what it is asked for."""

    log: list[str] = field(default_factory=list)
    hosts: dict[str, DeskHost] = field(default_factory=dict)
    conflicts: dict[str, str] = field(default_factory=dict)
    forks: list[str] = field(default_factory=list)
    """The lasting ones, by their whole names."""
    broken: str = ""
    answer: Answer = lambda operation, _: ToolOutput(operation)
    bounds: list[SandboxBounds] = field(default_factory=list)
    hold: asyncio.Event | None = None
    starts: asyncio.Event | None = None
    """Where given, no sandbox is there before it is set."""
    opened: asyncio.Queue[DeskHost] = field(default_factory=asyncio.Queue)

    async def checkout(
        self,
        name: str,
        base: CommitId,
        kept: Callable[[], bytes] = bytes,
        *,
        fresh: bool = False,
        pull: PullCommits | None = None,
    ) -> Checkout:
        assert (kept(), fresh, pull) == (b"", False, None)
        return Checkout(name, FOLDER, base)

    async def links(self, commit: CommitId) -> dict[str, str]:  # noqa: ARG002
        return {}

    async def keep(self, checkout: Checkout) -> bytes:  # noqa: ARG002
        return b""

    async def changed_paths(self, checkout: Checkout) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    async def fork(self, checkout: Checkout, name: str, *, lasting: bool = False) -> Checkout:
        agent = name.rpartition("-")[0]
        if name in self.forks:
            return Checkout(agent, checkout.shown_as, checkout.base, found=True)
        self.log.append(f"fork {agent}")
        self.forks += [name] * lasting
        if self.broken in {"fork", f"fork {agent}"}:
            raise Broken("the disk is full")
        await asyncio.sleep(0)
        return Checkout(agent, checkout.shown_as, checkout.base)

    async def freeze(self, checkout: Checkout, name: str, leftovers: Mapping[str, str]) -> FrozenWork:
        raise Broken(f"nothing is verified here: {checkout.path}, {name}, {leftovers}")

    async def merge(self, fork: Checkout, into: Checkout) -> MergeResult:
        self.log.append(f"merge {fork.path} into {into.path}")
        if self.broken == "merge":
            raise Refused("the merge failed: no room")
        return MergeResult((f"{fork.path}.py",), self.conflicts)

    async def open(
        self, checkout: Checkout, access: Access, *, network: Network = NO_NETWORK, bounds: SandboxBounds = UNBOUND
    ) -> DeskHost:
        self.bounds.append(bounds)
        self.log.append(f"open {checkout.path} to {access}{' and ' + ' '.join(network.hosts) if network.hosts else ''}")
        if self.broken == "open":
            raise Refused("no sandbox", where="here", fix="install one")
        if self.starts is not None:
            await self.starts.wait()
        host = self.hosts.setdefault(f"{len(self.hosts)} {checkout.path}", DeskHost(self.answer, hold=self.hold))
        await self.opened.put(host)
        return host

    async def publish(
        self,
        plan: ApprovedPlan,  # noqa: ARG002 - the port's
        checkout: Checkout,  # noqa: ARG002
        commit: CommitOrder,  # noqa: ARG002
        *,
        before_push: BeforePush | None = None,  # noqa: ARG002
    ) -> PushedWork:
        raise Broken("nothing is published here")

    async def discard(self, checkout: Checkout) -> None:
        self.log.append(f"discard {checkout.path}")


@dataclass
class Team:
    """A parent's session, and the pool of its sub-agents."""

    session: Session
    pool: SubagentPool
    workspace: DeskWorkspace


AGENTS = Agents()


def team(
    r: Room,
    *,
    mode: Mode = Mode.ACCEPT_EDITS,
    at_once: int = 3,
    in_all: int = 20,
    on_one: int = 1,
    types: Mapping[str, AgentType] = TYPES,
    untrusted: bool = False,
    agents: Agents = AGENTS,
    network: Network = NO_NETWORK,
    ident: str = "thread-1",
) -> Team:
    workspace = DeskWorkspace()
    told = replace(ENVIRONMENT, place="on #12 on GitHub.")
    execution = Execution(parallel_tasks=on_one, subagents=Subagents(at_once=at_once, in_all=in_all))
    configuration = Configuration(execution=execution, agents=agents)
    session, pool = assemble_session(
        SessionSettings(SessionId(ident), types, configuration, mode, untrusted),
        r.world,
        place=SessionPlace(workspace, Checkout("main", FOLDER, BASE), r.host, told, network),
    )
    reminders = [prompt_text("plan_mode")] if mode is Mode.PLAN else []
    session.begin(first_message(ENVIRONMENT, "Fix the shipping.", reminders))
    return Team(session, pool, workspace)


def task(brief: str, kind: str = "explore") -> Reply:
    return call("Task", description=f"do {brief[:5]}", prompt=f"Brief: {brief}, please.", subagent_type=kind)


def brief(request: ModelRequest) -> str:
    """What a sub-agent was asked, empty for the parent."""
    first = request.texts()[0]
    return first.partition("Brief: ")[2].partition(", please.")[0]


def script(tasks: Reply, child: Policy, *, after: Reply | None = None) -> Policy:
    """A parent that sends its tasks and then ends, and children that follow their own script."""

    def policy(request: ModelRequest) -> Reply | Fault:
        if brief(request):
            return child(request)
        return (after or say("Done.")) if request.step else tasks

    return policy


def children(r: Room) -> list[ModelRequest]:
    return [request for request in r.api.requests if brief(request)]


def final(events: list[AgentEvent]) -> dict[str, AgentChanged]:
    """The last row of each sub-agent."""
    return {row.agent: row for row in of(events, AgentChanged)}
