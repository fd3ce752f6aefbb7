"""Opens the main agent's session for a stage: a new one, or the one that was interrupted, byte for byte."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from bot.agent.assembly import (
    MAIN,
    AssembledSession,
    SessionPlace,
    SessionSettings,
    assemble_session,
    begin_session,
    restore_session,
)
from bot.agent.ending import request_finish
from bot.agent.history.escaping import escape_reminders
from bot.agent.history.pending import run_permitted_call
from bot.agent.limits import Limits
from bot.agent.loop import run
from bot.agent.monitor import OverLimit
from bot.agent.permissions.modes import Mode
from bot.agent.permissions.plan_mode import pending_plan_call
from bot.agent.permissions.rehearsal import Rehearsal
from bot.agent.scope import ScopeWatch
from bot.agent.session import Session
from bot.agent.session_events import AgentEvent, End, Ended, ModeChanged, RequestStarted, SessionStarted
from bot.agent.subagents.project_types import types_of
from bot.core.errors import Broken, Transient
from bot.core.gate import Stage
from bot.core.maintenance import PlanLimits
from bot.core.moves import Failed, Limited
from bot.core.names import SessionId
from bot.core.network import Network
from bot.core.thread.state import ThreadState
from bot.ports import Access, AnswerStarted
from bot.workflow.journal.writing import read_state
from bot.workflow.requests import addition_text
from bot.workflow.session.budgets import bind_budgets
from bot.workflow.session.network_journal import journal_network
from bot.workflow.session.progress import ProgressReporter
from bot.workflow.session.quotes import attached_pictures, pull_section, quote_thread
from bot.workflow.session.saved_work import WorkSaver, checkout, read_transcript, toolhost
from bot.workflow.thread_context import ThreadContext

_log: Final = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class SessionStart:
    """How a session begins when it is new: its task, its mode, and what it may do to the checkout."""

    session_id: SessionId
    access: Access
    task: str
    mode: Mode = Mode.PLAN
    hosts: tuple[str, ...] = ()
    """The hosts that the sandbox may reach; none while planning."""
    scope: ScopeWatch | None = None
    """Watches for touched paths that the approved plan does not name (K5); None while planning."""
    quotes: bool = False
    """Whether a new session gets the thread, quoted below the task."""


@asynccontextmanager
async def open_session(context: ThreadContext, state: ThreadState, start: SessionStart) -> AsyncIterator[Session]:
    """Yield the session of that id on a toolhost with that access. Every new request begins in plan mode (P2)."""
    lines = await read_transcript(context, start.session_id)
    # A reading session without a line has left nothing in the checkout: what is there belongs to a deleted thread.
    tree = await checkout(context, state, fresh=not lines and start.access is Access.READ)
    settings, seconds = context.settings, context.settings.command_minutes * 60
    async with (
        journal_network(context, state, start.session_id) as network_log,
        toolhost(context, tree, start.access, network := Network(start.hosts, network_log.record)) as host,
        aclosing(Rehearsal(context.workspace, tree, settings.setup, seconds)) as rehearsal,
    ):
        gate = replace(context.resources.gate, granted=state.approval.granted)
        resources = replace(context.resources, gate=gate, emit=context.listener, light=settings.light_model)
        environment = await context.environment(state.request.base)
        place = SessionPlace(context.workspace, tree, host, environment, network, rehearsal, start.scope)
        session_settings = await _session_settings(context, state, start)
        assembled = assemble_session(session_settings, resources, place=place, network_log=network_log, lines=lines)
        if lines:
            await restore_session(assembled, lines, journaled=state.costs.consumption(start.session_id))
        bind_budgets(context, state)
        if not lines:
            pictures = await attached_pictures(context, state, planning=start.mode is Mode.PLAN)
            beside = await quote_thread(context, state, tree) if start.quotes else pull_section(context, tree)
            task = f"{escape_reminders(start.task)}\n\n{beside}".rstrip()
            begin_session(assembled.session, place.environment, task, pictures)
            context.listener(ModeChanged(MAIN, start.mode, state.request.turn.actor.login))
        async with assembled.subagents.warm_cache():
            yield assembled.session
        _log_subagents(context, assembled)


async def _session_settings(context: ThreadContext, state: ThreadState, start: SessionStart) -> SessionSettings:
    """Return the settings of this session, in which it differs from others of its thread.

    Sub-agents that only read are restricted if strangers may have a say (S9).
    """
    settings, place = context.settings, context.location
    types, untrusted = types_of(await context.agents()), state.request.untrusted
    return SessionSettings(
        start.session_id,
        settings.model,
        replace(settings.subagents, types=types, untrusted=untrusted),
        start.mode,
        Limits(settings.limits.steps, settings.limits.seconds),
        reviews=start.mode is Mode.PLAN and place.pull is not None,
        plan_limits=None if state.task is None else PlanLimits(place.thread, state.task.decided),
    )


async def run_session(context: ThreadContext, state: ThreadState, session: Session, permit: str = "") -> Ended | None:
    """Run a session until it rests, and report its events to listener and thread. None if the thread was moved.

    `permit` is the pending call that people allowed; it runs first.
    """
    progress = ProgressReporter(context, state)
    context.listener(SessionStarted(session.agent, session.id))
    source = run_permitted_call(session, permit) if permit else run(session)
    working = asyncio.ensure_future(_consume(context, source, progress, WorkSaver(context, state, session.agent)))
    watching = asyncio.ensure_future(wait_until_moved(context, state, session))
    showing = asyncio.ensure_future(progress.show_until_cancelled())
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else None
    finally:
        for task in (working, watching, showing):
            task.cancel()
        result, *_ = await asyncio.gather(working, watching, showing, return_exceptions=True)
        if not isinstance(result, Ended):
            context.listener(_interrupted_end(session, result))
        await progress.finish(has_plan=pending_plan_call(session.history) is not None)


def _interrupted_end(session: Session, error: BaseException) -> Ended:
    """Return the end of a session that could not report it: it was stopped, or its surroundings failed."""
    if isinstance(error, Exception):
        return Ended(session.agent, End.FAILED, type(error).__name__)
    return Ended(session.agent, End.CANCELLED, "")


async def _consume(
    context: ThreadContext,
    source: AsyncGenerator[AgentEvent | AnswerStarted, None],
    progress: ProgressReporter,
    saving: WorkSaver,
) -> Ended:
    async with aclosing(source) as events:
        async for event in events:
            if isinstance(event, AnswerStarted):
                continue
            if isinstance(event, RequestStarted) and event.agent == MAIN:
                await context.before_step()
            context.listener(event)
            progress.receive(event)
            if isinstance(event, Ended):
                return event
            await saving.save_after(event)
    raise Broken("a session ended without saying why")


async def wait_until_moved(context: ThreadContext, state: ThreadState, session: Session | None = None) -> None:
    """Return once the thread was moved or taken over, such as by a stop.

    Reads the journal every `watch_seconds` (5 seconds). The caller then cancels the work, which ends its sandboxes.
    Until then, `session` gets what people add while it plans (L4a), and finishes early if they say so.
    """
    while context.settings.watch_seconds:
        await context.resources.clock.sleep(context.settings.watch_seconds)
        try:
            later = await read_state(context)
        except Transient:
            continue  # the journal cannot be read now: the work continues
        if later.has_moved_since(state):
            return
        if session is not None and later.stage is Stage.PLANNING:
            session.queued += unsent_additions(session, later)
            if later.request.untrusted:
                session.mark_untrusted()
        if session is not None and later.is_finishing:
            request_finish(session)
    await asyncio.Event().wait()


async def run_until_moved(context: ThreadContext, state: ThreadState, work: Coroutine[Any, Any, _T]) -> _T | None:
    """Run long work and return its result; None if the thread was moved or taken over meanwhile."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(wait_until_moved(context, state))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else None
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


def unsent_additions(session: Session, state: ThreadState) -> list[str]:
    """List the additions to the newest request that the session has neither sent nor queued."""
    additions = (escape_reminders(addition_text(entry)) for entry in state.request.newest_entries[1:])
    contents = [message["content"] for message in session.history if message["role"] == "user"]
    sent_texts = {block.get("text") for content in contents if isinstance(content, list) for block in content}
    return [text for text in dict.fromkeys(additions) if text not in sent_texts and text not in session.queued]


def unfinished_move(context: ThreadContext, ended: Ended) -> Limited | Failed:
    """Return the move for a session that ended without an answer or a plan."""
    return context.limit_move(ended.text) if ended.end is End.LIMIT else context.failure_move(ended.text)


def has_room(session: Session) -> bool:
    """Return whether the limits of a session and its budget allow a further request."""
    try:
        session.monitor.check()
    except OverLimit:
        return False
    return not session.resources.ledger.used_up


def session_of(context: ThreadContext, state: ThreadState) -> SessionId:
    """Return the session of the thread's stage: planning or execution."""
    return state.request.planning_session if state.stage is Stage.PLANNING else context.work_session(state)


def _log_subagents(context: ThreadContext, assembled: AssembledSession) -> None:
    """Log the metrics of a session's sub-agents (S13)."""
    if (metrics := assembled.subagents.metrics).started:
        ids = {"thread": f"{context.location.repository}#{context.location.thread}", "session": assembled.session.id}
        _log.info("sub-agents", extra={"fields": {**ids, **metrics.facts()}})
