"""What a suspended session waits for, and how it continues with people's answers (L8, P7).

Rules: people permit the stored call, and nothing else is run; a deny rule overrides any permission; the other calls of
the same message are not run, and the model is told so.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from functools import partial

from bot.agent import dispatch
from bot.agent.async_iteration import iterate_events
from bot.agent.ending import end_on_canary
from bot.agent.loop import drive
from bot.agent.session import NOT_RUN, Session
from bot.agent.session_events import AgentEvent, Ended, Sink
from bot.core.errors import CanaryShown
from bot.core.question import Asking
from bot.core.transcript import Json, pending_calls
from bot.ports import AnswerStarted


def pending_question(session: Session) -> Asking | None:
    """Return what people must be asked before the session can continue.

    Returns None if the session waits for nothing, or for the approval of a plan.
    """
    suspension = next(_suspending_calls(session), None)
    return suspension.asking if suspension is not None else None


def release(session: Session) -> None:
    """Resume a session whose pending calls no longer need anybody because the rules changed. The model is told."""
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
    """Run a call that people permitted, store its result, and continue the session."""
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
    """Yield the calls that suspend the session, in order."""
    for call in pending_calls(session.history):
        prepared = dispatch.prepare(session, call)
        if isinstance(prepared, dispatch.SuspendedCall):
            yield prepared
