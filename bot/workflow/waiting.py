"""Waiting: how the session of a stage comes to wait for people, and how it goes on with what they said (L8)."""

from collections.abc import Sequence
from dataclasses import replace

from bot.agent.history.pending import pending_question, release
from bot.agent.light_calls import explain_permission
from bot.agent.session import Session
from bot.core.gate import Move
from bot.core.question import AskKind, Grant, to_json
from bot.core.transcript import Json, pending_calls
from bot.workflow.record import Record
from bot.workflow.thread_context import EffectResult, ThreadContext


async def move_to_ask(context: ThreadContext, record: Record, session: Session) -> EffectResult | None:
    """Return the move to ask people if the session waits for an answer that they have not given, else None.

    The transcript is where the journal is before anybody is asked: what people answer must find its call.
    """
    asking = pending_question(session) if _reply(record, session) is None else None
    if asking is None:
        return None
    if asking.matter is AskKind.PERMISSION:
        asking = replace(asking, meaning=await explain_permission(session.context.light, asking))
    await context.resources.transcripts.save()
    return EffectResult(Move.ASKED, {"asking": to_json(asking), "session": session.id})


async def deliver_reply(context: ThreadContext, record: Record, session: Session, said: Sequence[str] = ()) -> str:
    """Deliver to a session what people answered and what they said beside it.

    Return the id of the call that they permitted and that must now run, or "".
    """
    reply = _reply(record, session)
    if reply is None:
        release(session)
        return ""
    if shown := record.fact("question"):
        await context.dialogue.fold_question(shown)
    if reply.get("grant") in {Grant.ONCE, Grant.PLAN}:
        return str(reply["call"])
    session.answer(reply["call"], reply["reply"], is_error=bool(reply.get("is_error")), reminders=said)
    return ""


def _reply(record: Record, session: Session) -> Json | None:
    """Return what people answered to the call that the session waits with, whatever the rules say now."""
    found = (record.reply(session.id, call["id"]) for call in pending_calls(session.history))
    return next((reply for reply in found if reply is not None), None)
