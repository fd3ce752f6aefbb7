"""Waiting: how the session of a stage comes to wait for people, and how it goes on with what they said (L8)."""

from collections.abc import Sequence

from bot.agent.pending import held, release
from bot.agent.session import Session
from bot.core.errors import Broken
from bot.core.gate import Move
from bot.core.question import Grant, to_json
from bot.workflow.desk import Desk, Done
from bot.workflow.record import Record


async def asked(desk: Desk, now: Record, session: Session) -> Done | None:
    """Give the move to ask people, where the session waits for them and they have not answered.

    The transcript is where the journal is before anybody is asked: what people answer must find its call.
    """
    asking = held(session)
    if asking is None or now.reply(session.id, asking.call) is not None:
        return None
    await desk.world.transcripts.save()
    return Done(Move.ASKED, {"asking": to_json(asking), "session": session.id})


async def told(desk: Desk, now: Record, session: Session, said: Sequence[str] = ()) -> str:
    """Give a session what people answered, and what they said beside it; gives the id of the call that they permitted,
    which is to be run ("" for none)."""
    asking = held(session)
    if asking is None:
        release(session)
        return ""
    reply = now.reply(session.id, asking.call)
    if reply is None:
        raise Broken("nobody answered what the session waits for", where=f"session {session.id}")
    if shown := now.fact("question"):
        await desk.dialogue.settled(shown)
    if reply.get("grant") in {Grant.ONCE, Grant.PLAN}:
        return str(asking.call)
    session.answer(asking.call, reply["reply"], is_error=bool(reply.get("is_error")), reminders=said)
    return ""
