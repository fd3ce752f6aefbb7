"""How a session comes to wait for an answer from people, and how it gets their answer (L8)."""

from collections.abc import Sequence
from dataclasses import replace

from bot.agent.history.escaping import escape_reminders
from bot.agent.history.pending import pending_question, release
from bot.agent.light_calls import explain_permission
from bot.agent.session import Session
from bot.core.moves import Asked, Instructed, Replied
from bot.core.question import AskKind, Grant
from bot.core.thread_state import ThreadState
from bot.core.transcript import pending_calls
from bot.workflow.thread_context import ThreadContext


async def question_move(context: ThreadContext, state: ThreadState, session: Session) -> Asked | None:
    """Return the move to ask people if the session waits for an answer that they have not given, else None.

    The transcript is where the journal is before anybody is asked: what people answer must find its call.
    """
    asking = pending_question(session) if _reply(state, session) is None else None
    if asking is None:
        return None
    if asking.matter is AskKind.PERMISSION:
        asking = replace(asking, meaning=await explain_permission(session.context.light, asking))
    await context.resources.transcripts.save()
    return Asked(asking=asking, session=session.id)


async def deliver_reply(context: ThreadContext, state: ThreadState, session: Session, said: Sequence[str] = ()) -> str:
    """Deliver to a session what people answered and what they said beside it.

    Return the id of the call that they permitted and that must now run, or "".
    """
    reply = _reply(state, session)
    if reply is None:
        release(session)
        return ""
    if state.question_comment:
        await context.dialogue.fold_question(state.question_comment)
    if reply.grant in {Grant.ONCE, Grant.PLAN}:
        return reply.call
    session.answer(reply.call, escape_reminders(reply.reply or ""), is_error=reply.is_error, reminders=said)
    return ""


def _reply(state: ThreadState, session: Session) -> Replied | Instructed | None:
    """Return what people answered to the call that the session waits with, whatever the rules say now."""
    found = (state.reply(session.id, call["id"]) for call in pending_calls(session.history))
    return next((reply for reply in found if reply is not None), None)
