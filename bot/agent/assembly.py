"""Assembles the session of a main agent, restores one, and continues it with people's answers (L8, L9, P7)."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from bot.agent import dispatch
from bot.agent.light_calls import LightCalls
from bot.agent.limits import Limits, Monitor
from bot.agent.loop import drive, end_on_canary
from bot.agent.permissions.tool_gate import Mode
from bot.agent.prompts import Environment, first_message, prompt_text, system_blocks
from bot.agent.prompts.environment_text import allowance
from bot.agent.resources import (
    RepositoryReads,
    RequestPrefix,
    SessionLog,
    SessionPlace,
    SessionResources,
    load_request_prefix,
)
from bot.agent.session import NOT_RUN, Session
from bot.agent.session_events import AgentEvent, Ended, Sink, iterate_events
from bot.agent.subagents.assignment import interrupted_notice
from bot.agent.subagents.pool import SubagentPool, task_tool
from bot.agent.subagents.types import AgentType
from bot.agent.tools.registry import ALL, by_name, optional_tools, schemas
from bot.agent.tools.session_tools import REVIEW, TASK_PLAN
from bot.agent.tools.tool import ToolContext
from bot.core.brief import as_data
from bot.core.configuration import Configuration
from bot.core.errors import CanaryShown
from bot.core.maintenance import PlanLimits
from bot.core.names import AgentId, SessionId
from bot.core.question import Asking
from bot.core.transcript import Json, Line, pending_calls
from bot.core.turn import Picture
from bot.core.work import Consumption
from bot.ports import AnswerStarted

# --- Pending questions and permitted calls (L8, P7) -------------------------------------------------------------------
# Rules: people permit the stored call, and nothing else is run; a deny rule overrides any permission; the other calls
# of the same message are not run, and the model is told so.


def pending_question(session: Session) -> Asking | None:
    """Return what people must be asked before the session can continue.

    Returns None if the session waits for nothing, or for the approval of a plan.
    """
    suspension = next(_suspending_calls(session), None)
    return suspension.asking if suspension is not None else None


def release(session: Session) -> None:
    """Answer the first pending call if no pending call needs people any longer, as after a change of the rules.

    The result tells the model why the call did not run: it is denied, or it may be called again.
    """
    pending = pending_calls(session.history)
    if pending and next(_suspending_calls(session), None) is None:
        prepared = dispatch.prepare(session, pending[0])
        text = prepared.text if isinstance(prepared, dispatch.RefusedCall) else NOT_RUN
        session.answer(pending[0]["id"], text, is_error=True)


def run_permitted_call(session: Session, call: str) -> AsyncGenerator[AgentEvent | AnswerStarted, None]:
    """Run the stored pending call with this id, then drive the session on. The last event is Ended.

    If the caller stops after the call has finished, its result is saved. After a crash before that, the call is still
    pending and is run again.
    """
    return iterate_events(partial(_drive_from_call, session, call))


async def _drive_from_call(session: Session, call: str, emit: Sink) -> Ended:
    stored = next(block for block in pending_calls(session.history) if block["id"] == call)
    results: dict[str, Json] = {}
    prepared = dispatch.prepare(session, stored, permitted=True)
    session.monitor.tool_calls += 1
    try:
        await dispatch.run(session, [prepared], results, emit=emit)
    except CanaryShown as error:
        return end_on_canary(session, error)
    except asyncio.CancelledError:
        if results:
            session.settle(results[call])
        raise
    session.settle(results[call])
    return await drive(session, emit)


def _suspending_calls(session: Session) -> Iterator[dispatch.SuspendedCall]:
    for call in pending_calls(session.history):
        prepared = dispatch.prepare(session, call)
        if isinstance(prepared, dispatch.SuspendedCall):
            yield prepared


# --- Assembles, begins, and restores a main session (L9) --------------------------------------------------------------
# Everything is made in the order in which it is needed: log and monitor, what the tools use, the sub-agents, the tools,
# the request prefix, the session. A sub-agent shares the first three with the session that starts it, and never needs
# the session itself.

MAIN = AgentId("main")


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What makes one session different from others at the same place."""

    id: SessionId
    types: Mapping[str, AgentType]
    """The types of its sub-agents."""
    configuration: Configuration = Configuration()
    mode: Mode = Mode.PLAN
    untrusted: bool = False
    """Whether strangers have a say on the thread, so that sub-agents that only read get the restricted limits (S9)."""
    reviews: bool = False
    """Whether it may answer with a review of a pull request."""
    plan_limits: PlanLimits | None = None
    """What no plan of the scheduled task may contain; None for a session of no scheduled task."""


def assemble_session(
    settings: SessionSettings,
    resources: SessionResources,
    *,
    place: SessionPlace,
    lines: Sequence[Line] = (),
) -> tuple[Session, SubagentPool]:
    """Return a session that has not begun, and the pool of its sub-agents.

    `lines` are those of its saved transcript, whose prefix it keeps.
    """
    log = SessionLog(settings.id, MAIN, resources)
    model, budget = settings.configuration.models.main, settings.configuration.budget
    monitor = Monitor(resources.clock, Limits(budget.steps, budget.minutes * 60))
    reader = resources.repository
    context = ToolContext(
        place.host,
        place.checkout.shown_as,
        settings.mode,
        LightCalls(log, resources.light),
        rehearsal=place.rehearsal if resources.gate.rehearsed else None,
        memory=place.environment.project,
        scope=place.scope,
        web=resources.web,
        network_log=place.network_log,
        reads=None if reader is None else RepositoryReads(reader, strangers=settings.mode is Mode.PLAN),
        plan_limits=settings.plan_limits,
    )
    pool = SubagentPool(settings, place, log, context, monitor)
    review = (REVIEW,) if settings.reviews else ()
    task = task_tool(settings.types, pool.delegate)
    tools = by_name((*ALL, *optional_tools(resources), *review, task))
    if settings.plan_limits is not None:
        tools = {**tools, TASK_PLAN.name: TASK_PLAN}
    new_prefix = RequestPrefix("main", model, system_blocks("main"), schemas(tools))
    prefix = load_request_prefix(lines, model) or new_prefix
    return Session(log, prefix, tools, context, monitor, pool.rows), pool


def begin_session(session: Session, environment: Environment, task: str, pictures: Sequence[Picture] = ()) -> None:
    """Begin a new session with its task and the pictures that belong to it, and tell it what its mode means."""
    environment = replace(environment, allowance=allowance(session.monitor.limits, session.resources.ledger))
    planning = session.context.mode is Mode.PLAN
    reminder = _planning_reminder(session.resources.gate.rehearsed) if planning else prompt_text("approved")
    session.begin(first_message(environment, task, [reminder], picture_blocks(pictures)))
    if any(picture.image and picture.foreign for picture in pictures):
        session.mark_untrusted()


async def restore_session(
    session: Session, pool: SubagentPool, lines: Sequence[Line], *, journaled: Consumption
) -> None:
    """Restore a saved session and its sub-agents.

    Spending that this process has booked is not booked again. `journaled` is the session's consumption according to the
    thread's journal. It is booked as carried, so that it counts once.
    """
    ledger = session.resources.ledger
    booked = dict(ledger.rows)
    ran_here = any(agent == session.agent for agent, _ in booked)
    session.restore(lines)
    if ran_here:
        ledger.rows = booked
    await asyncio.to_thread(pool.restore, lines)
    if session.unfinished_answer is None:
        session.queued += interrupted_notice(session.log, lines)
    if not ran_here:
        ledger.carried += ledger.used(session.agent, *pool.rows).lower(journaled)


def _planning_reminder(commands: frozenset[str]) -> str:
    lines = "".join(f"\n- {command}" for command in sorted(commands))
    may = f"\nThese commands may run, exactly so, on a copy that is thrown away afterwards:{lines}" if commands else ""
    return prompt_text("plan_mode") + may


def picture_blocks(pictures: Sequence[Picture]) -> list[Json]:
    """Return for each picture a line of text, followed by the picture. The line says why a picture is not shown."""
    blocks: list[Json] = []
    for number, picture in enumerate(pictures, start=1):
        alt = f", alternative text: {picture.alt}" if picture.alt else ""
        note = ":" if picture.image else f" (picture, not shown: {picture.why})"
        blocks.append({"type": "text", "text": as_data(f"Picture {number}, {picture.label}{alt}{note}")})
        blocks += [picture.image] if picture.image else []
    return blocks
