"""Returns the move with which a session asks people, and delivers their answer to the session (L8)."""

from collections.abc import Sequence
from dataclasses import replace

from bot.agent.history.escaping import escape_reminders
from bot.agent.history.pending import pending_question, release
from bot.agent.light_calls import explain_permission
from bot.agent.session import Session
from bot.core.moves import Asked, Instructed, Replied
from bot.core.question import AskKind, Grant
from bot.core.thread.state import ThreadState
from bot.core.transcript import pending_calls
from bot.workflow.thread_context import ThreadContext


async def question_move(context: ThreadContext, state: ThreadState, session: Session) -> Asked | None:
    """Return the move that asks people, if the session waits for an answer that nobody has given yet, else None.

    Saves the transcript first, so that the answer finds the call that waits for it.
    """
    asking = pending_question(session) if _reply(state, session) is None else None
    if asking is None:
        return None
    if asking.matter is AskKind.PERMISSION:
        asking = replace(asking, meaning=await explain_permission(session.context.light, asking))
    await context.resources.transcripts.save()
    return Asked(asking=asking, session=session.id)


async def deliver_reply(
    context: ThreadContext, state: ThreadState, session: Session, additions: Sequence[str] = ()
) -> str:
    """Deliver people's answer to a session, with the `additions` that they made to the request.

    Return the id of the call that they permitted and that must now run, or "".
    """
    reply = _reply(state, session)
    if reply is None:
        release(session)
        return ""
    if state.question.comment:
        await context.dialogue.fold_question(state.question.comment)
    if reply.grant in {Grant.ONCE, Grant.PLAN}:
        return reply.call
    session.answer(reply.call, escape_reminders(reply.reply or ""), is_error=reply.is_error, reminders=additions)
    return ""


def _reply(state: ThreadState, session: Session) -> Replied | Instructed | None:
    """Return the journaled answer to the session's pending call, even if the rules have changed since."""
    replies = (state.question.reply(session.id, call["id"]) for call in pending_calls(session.history))
    return next((reply for reply in replies if reply is not None), None)
