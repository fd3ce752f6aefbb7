"""Opens the main agent's session for a stage: a new one, or the one that was interrupted, byte for byte."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from bot.agent.events import Ended
from bot.agent.limits import Limits
from bot.agent.loop import run
from bot.agent.modes import Mode
from bot.agent.prompts import first_message, prompt, system
from bot.agent.session import Frozen, Session
from bot.agent.subagents import TYPES, Crew, Post
from bot.agent.tools.registry import ALL, by_name, schemas
from bot.agent.tools.task import task_tool
from bot.agent.tools.tool import Context
from bot.core.errors import Broken
from bot.core.names import AgentId, SessionId
from bot.core.transcript import Line, LineKind
from bot.ports import Access, Began
from bot.workflow.desk import Desk

MAIN = AgentId("main")


@asynccontextmanager
async def opened(desk: Desk, ident: SessionId, access: Access, task: str) -> AsyncIterator[Session]:
    """Give the session of that id on a toolhost with that access; begins it in plan mode when it is new (P2)."""
    host = await desk.workspace.open(desk.checkout, access)
    try:
        lines = desk.world.transcripts.load(ident)
        tools = by_name((*ALL, task_tool((kind.name, kind.purpose) for kind in TYPES.values())))
        frozen = _frozen(lines) or Frozen("main", desk.orders.model, system("main"), schemas(tools))
        context = Context(host, desk.checkout.shown_as, Mode.PLAN)
        limits = desk.orders.limits
        session = Session(ident, MAIN, frozen, desk.world, tools, context, Limits(limits.steps, limits.seconds))
        context.delegate = _crew(desk, session).delegate
        if lines:
            _restored(session, lines)
        else:
            session.begin(first_message(desk.environment, task, [prompt("plan_mode")]))
        yield session
    finally:
        await host.close()


async def driven(desk: Desk, session: Session) -> Ended:
    """Run a session until it rests, telling the listener everything on the way."""
    async with aclosing(run(session)) as events:
        async for event in events:
            if isinstance(event, Began):
                continue
            desk.listener(event)
            if isinstance(event, Ended):
                return event
    raise Broken("a session ended without saying why")


def _restored(session: Session, lines: tuple[Line, ...]) -> None:
    """Take a saved session over; what this process has booked for it already is not booked a second time."""
    ledger = session.world.ledger
    booked = dict(ledger.rows)
    session.restore(lines)
    if any(agent == session.agent for agent, _ in booked):
        ledger.rows = booked


def _frozen(lines: tuple[Line, ...]) -> Frozen | None:
    """Give a saved session's frozen parts as they were sent; never rendered again (L9)."""
    if not lines or lines[0].kind is not LineKind.OPENED:
        return None
    body = lines[0].body
    return Frozen(body["agent_type"], body["model"], tuple(body["system"]), tuple(body["tools"]))


def _crew(desk: Desk, session: Session) -> Crew:
    post = Post(
        desk.world,
        desk.workspace,
        desk.checkout,
        desk.environment,
        desk.orders.subagent_model,
        session.agent,
        session.id,
    )
    return Crew(post, session.context, desk.orders.at_once, desk.orders.in_all)
