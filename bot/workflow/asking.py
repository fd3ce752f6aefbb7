"""Asking: shows what a session waits for, and takes the first answer that counts; the thread rests until there is one.

Rules: a planner is answered by those who may ask; a question or permission request of approved work by those who may
approve, and by no comment that anybody edited: words of others must not steer approved work (product.md, Turns).
"""

from datetime import datetime, timedelta

from bot.agent.tools.ask_user import NOBODY
from bot.core import question_text
from bot.core.errors import Transient
from bot.core.gate import Move
from bot.core.question import Asking, Author, Grant, Reply, Rules, find_reply
from bot.core.reply_text import thread_closed
from bot.core.transcript import Json
from bot.core.turn import Acknowledgment, Turn
from bot.ports import Entry
from bot.workflow.approving import move_if_stopped
from bot.workflow.ledger import current, note, take_over
from bot.workflow.record import SHOWN, Record
from bot.workflow.thread_context import EffectResult, ThreadContext


async def perform(context: ThreadContext, record: Record) -> EffectResult | None:
    """Show the question, exactly once, and look for its answer; None while there is none."""
    if not context.resources.at_hand.answers:
        return _resume_move(record, {"reply": NOBODY, "is_error": True})
    if (
        record.steers
        and not context.settings.same_session
        and (stop := await move_if_stopped(context, record)) is not None
    ):
        return stop
    if context.resources.clock.now() >= _expires(context, record):
        return EffectResult(
            Move.EXPIRED,
            {"owes": question_text.question_expired(context.settings.expires_days, context.settings.mention)},
        )
    asking = record.asking
    shown = record.question or await _post_question(context, record)
    rules = _rules(context, record)
    look = await context.dialogue.answers(asking, shown.body["question"], who=_who_may_answer(record), may=rules.may)
    if not look.complete:
        raise Transient("not everything that can be an answer could be read", where="question", mend="look again")
    if not look.open:
        return EffectResult(Move.STOPPED, {"owes": thread_closed(context.settings.mention)})
    if look.gone:
        await _post_question(context, record)
    reply, findings = find_reply(asking, look, rules)
    if reply is not None:
        return await _accept_reply(context, record, reply)
    if findings:
        await context.dialogue.explain_ignored_answers(question_text.not_counted(findings), record.thread.ask)
    return None


def waits_for(record: Record, turn: Turn) -> bool:
    """Return whether a turn may be the answer to the open question and must wait until that is decided."""
    shown = record.question
    if shown is None or not turn.key.startswith("comment-"):
        return False
    return turn.at > datetime.fromisoformat(shown.body["question_at"])


async def _post_question(context: ThreadContext, record: Record) -> Entry:
    """Show the question and journal where; raises Conflict where another job is quicker."""
    await take_over(context, record)
    proposed = await context.dialogue.ask(record.asking, record.thread.ask, who=_who_may_answer(record))
    at = proposed.at or context.resources.clock.now()
    facts = {"question": proposed.id, "question_url": proposed.url, "question_at": at.isoformat()}
    later = await note(context, await current(context), SHOWN, {"ask": record.thread.ask, **facts})
    return later.last(SHOWN)


async def _accept_reply(context: ThreadContext, record: Record, reply: Reply) -> EffectResult:
    asking = record.asking
    facts: Json = {"by": [reply.by.login], "login": reply.by.login, "reply": question_text.reply_text(asking, reply)}
    if reply.turn:
        facts["turn"] = reply.turn
        await context.dialogue.acknowledge(Turn(reply.turn, reply.by, reply.words, reply.at), Acknowledgment.SEEN)
    if reply.grant is not None:
        facts |= _grant_facts(asking, reply.grant)
    return _resume_move(record, facts)


def _grant_facts(asking: Asking, grant: Grant) -> Json:
    facts: Json = {"grant": str(grant), "tool": asking.tool, "subject": asking.subject}
    return facts | {"is_error": True} if grant is Grant.NO else facts


def _resume_move(record: Record, facts: Json) -> EffectResult:
    """Return the move that an answer amounts to: back to planning, or on with approved work."""
    told = {"call": record.asking.call, "session": record.last(Move.ASKED).body["session"], **facts}
    if record.steers:
        return EffectResult(Move.INSTRUCTED, told, record.thread.digest)
    return EffectResult(Move.REPLIED, told)


def _expires(context: ThreadContext, record: Record) -> datetime:
    """Return when the question expires: as a plan does, and for approved work no later than its plan."""
    end = record.last(Move.ASKED).at + timedelta(days=context.settings.expires_days)
    return min(end, record.plan.expires) if record.steers else end


def _who_may_answer(record: Record) -> str:
    return question_text.WHO_MAY_STEER if record.steers else question_text.WHO_MAY_ASK


def _rules(context: ThreadContext, record: Record) -> Rules:
    """Return the rules that decide whose answer counts."""
    policy, orders = context.policy, context.settings

    def may_steer(who: Author) -> bool:
        second = not policy.four_eyes or who.actor.id not in record.requesters
        return second and policy.may_decide(who.actor, who.role, listed=who.listed)

    def may_ask(who: Author) -> bool:
        return who.actor.id != policy.bot and orders.may_ask(who.actor, who.role)

    return Rules(may_steer if record.steers else may_ask, record.steers)
