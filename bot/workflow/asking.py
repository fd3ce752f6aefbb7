"""Asking: shows what a session waits for, and takes the first answer that counts; the thread rests until there is one.

Rules: a planner is answered by those who may ask; a question or permission request of approved work by those who may
approve, and by no comment that anybody edited: words of others must not steer approved work (product.md, Turns).
"""

from datetime import datetime, timedelta

from bot.agent.tools.ask_user import NOBODY
from bot.core import question_text
from bot.core.errors import Transient
from bot.core.gate import Move
from bot.core.question import Asking, Grant, Reply, Rules, Who, settle
from bot.core.reply_text import closed
from bot.core.transcript import Json
from bot.core.turn import Sign, Turn
from bot.ports import Entry
from bot.workflow.approving import move_if_stopped
from bot.workflow.desk import Desk, Done
from bot.workflow.ledger import current, note, take_over
from bot.workflow.record import SHOWN, Record


async def perform(desk: Desk, record: Record) -> Done | None:
    """Show the question, exactly once, and look for its answer; None while there is none."""
    if not desk.world.at_hand.answers:
        return _done(record, {"reply": NOBODY, "is_error": True})
    if record.steers and not desk.orders.same_session and (stop := await move_if_stopped(desk, record)) is not None:
        return stop
    if desk.world.clock.now() >= _expires(desk, record):
        return Done(Move.EXPIRED, {"owes": question_text.unanswered(desk.orders.expires_days, desk.orders.mention)})
    asking = record.asking
    shown = record.question or await _shown(desk, record)
    rules = _rules(desk, record)
    look = await desk.dialogue.answers(asking, shown.body["question"], who=_who(record), may=rules.may)
    if not look.complete:
        raise Transient("not everything that can be an answer could be read", where="question", mend="look again")
    if not look.open:
        return Done(Move.STOPPED, {"owes": closed(desk.orders.mention)})
    if look.gone:
        await _shown(desk, record)
    reply, findings = settle(asking, look, rules)
    if reply is not None:
        return await _taken(desk, record, reply)
    if findings:
        await desk.dialogue.unsettled(question_text.not_counted(findings), record.thread.ask)
    return None


def waits_for(record: Record, turn: Turn) -> bool:
    """Tell whether a turn can be the answer to the open question: then it waits until that is settled."""
    shown = record.question
    if shown is None or not turn.key.startswith("comment-"):
        return False
    return turn.at > datetime.fromisoformat(shown.body["question_at"])


async def _shown(desk: Desk, record: Record) -> Entry:
    """Show the question and journal where; raises Conflict where another job is quicker."""
    await take_over(desk, record)
    proposed = await desk.dialogue.ask(record.asking, record.thread.ask, who=_who(record))
    at = proposed.at or desk.world.clock.now()
    facts = {"question": proposed.id, "question_url": proposed.url, "question_at": at.isoformat()}
    later = await note(desk, await current(desk), SHOWN, {"ask": record.thread.ask, **facts})
    return later.last(SHOWN)


async def _taken(desk: Desk, record: Record, reply: Reply) -> Done:
    asking = record.asking
    facts: Json = {"by": [reply.by.login], "login": reply.by.login, "reply": question_text.reply_text(asking, reply)}
    if reply.turn:
        facts["turn"] = reply.turn
        await desk.dialogue.acknowledge(Turn(reply.turn, reply.by, reply.words, reply.at), Sign.SEEN)
    if reply.grant is not None:
        facts |= _granted(asking, reply.grant)
    return _done(record, facts)


def _granted(asking: Asking, grant: Grant) -> Json:
    facts: Json = {"grant": str(grant), "tool": asking.tool, "subject": asking.subject}
    return facts | {"is_error": True} if grant is Grant.NO else facts


def _done(record: Record, facts: Json) -> Done:
    """Give the move that an answer amounts to: back to planning, or on with approved work."""
    told = {"call": record.asking.call, "session": record.last(Move.ASKED).body["session"], **facts}
    if record.steers:
        return Done(Move.INSTRUCTED, told, record.thread.digest)
    return Done(Move.REPLIED, told)


def _expires(desk: Desk, record: Record) -> datetime:
    """Give the end of the wait: the time that a plan waits; for approved work no longer than its plan holds."""
    end = record.last(Move.ASKED).at + timedelta(days=desk.orders.expires_days)
    return min(end, record.plan.expires) if record.steers else end


def _who(record: Record) -> str:
    return question_text.WHO_MAY_STEER if record.steers else question_text.WHO_MAY_ASK


def _rules(desk: Desk, record: Record) -> Rules:
    """Say whose answer counts."""
    policy, orders = desk.policy, desk.orders

    def may_steer(who: Who) -> bool:
        second = not policy.four_eyes or who.actor.id not in record.requesters
        return second and policy.may_decide(who.actor, who.role, listed=who.listed)

    def may_ask(who: Who) -> bool:
        return who.actor.id != policy.bot and orders.may_ask(who.actor, who.role)

    return Rules(may_steer if record.steers else may_ask, record.steers)
