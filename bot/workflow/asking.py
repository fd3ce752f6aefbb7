"""Shows a session's question and takes the first answer that counts (L8). The thread rests until there is one."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from bot.agent.assembly import pending_question, release
from bot.agent.light_calls import explain_permission
from bot.agent.session import Session
from bot.agent.tools.session_tools import NOBODY
from bot.core import reply_text
from bot.core.brief import escape_reminders
from bot.core.errors import Transient
from bot.core.moves import Asked, Expired, Instructed, MoveEvent, Replied, Stopped
from bot.core.notes import Shown
from bot.core.question import AnswerRules, AskKind, Author, Grant, Reply, find_reply
from bot.core.reply_text import thread_closed
from bot.core.thread.state import ThreadState
from bot.core.transcript import pending_calls
from bot.core.turn import Acknowledgment, Turn
from bot.workflow.approving import stop_move
from bot.workflow.thread_run import ThreadRun


async def question_move(run: ThreadRun, session: Session) -> Asked | None:
    """Return the move that asks people, if the session waits for an answer that nobody has given yet, else None.

    Saves the transcript first, so that the answer finds the call that waits for it.
    """
    asking = pending_question(session) if _reply(run.state, session) is None else None
    if asking is None:
        return None
    if asking.matter is AskKind.PERMISSION:
        asking = replace(asking, meaning=await explain_permission(session.context.light, asking))
    await run.resources.transcripts.save()
    return Asked(asking=asking, session=session.id)


async def deliver_reply(run: ThreadRun, session: Session, additions: Sequence[str] = ()) -> str:
    """Deliver people's answer to a session, with their `additions`. Return the call that must now run, or ""."""
    reply = _reply(run.state, session)
    if reply is None:
        release(session)
        return ""
    if run.state.question.comment:
        await run.dialogue.fold_question(run.state.question.comment)
    if reply.grant in {Grant.ONCE, Grant.PLAN}:
        return reply.call
    session.answer(reply.call, escape_reminders(reply.reply or ""), is_error=reply.is_error, reminders=additions)
    return ""


def _reply(state: ThreadState, session: Session) -> Replied | Instructed | None:
    """Return the journaled answer to the session's pending call, even if the rules have changed since."""
    replies = (state.question.reply(session.id, call["id"]) for call in pending_calls(session.history))
    return next((reply for reply in replies if reply is not None), None)


async def ask_people(run: ThreadRun) -> MoveEvent | None:
    """Show the question exactly once, and return the move for its answer; None while there is none.

    People who may ask answer the questions of a planner. Only people who may approve answer those of approved work, and
    only in a comment that was never edited, because nobody else's words may steer approved work.
    """
    if not run.resources.availability.answers:
        return _resume_move(run.state, NOBODY)
    if run.state.has_approved_work and (stop := await stop_move(run)) is not None:
        return stop
    if run.clock.now() >= _expires(run):
        days = run.configuration.approve.expires_days
        return Expired(text_to_post=reply_text.question_expired(days, run.configuration.mention))
    asking = run.state.question.asking
    shown = run.state.question.shown or await _post_question(run)
    rules = _rules(run)
    answers = await run.dialogue.answers(asking, shown.question, who=_who_may_answer(run.state), may=rules.may)
    if not answers.complete:
        raise Transient("not everything that can be an answer could be read", where="question", fix="try again")
    if not answers.open and await run.dialogue.closed_since(run.state.turns.last_request_at):
        return Stopped(text_to_post=thread_closed(run.configuration.mention))
    if answers.gone:
        await _post_question(run)
    reply, findings = find_reply(asking, replace(answers, open=True), rules)
    if reply is not None:
        if reply.turn:
            await run.dialogue.acknowledge(Turn(reply.turn, reply.by, reply.words, reply.at), Acknowledgment.SEEN)
        return _resume_move(run.state, reply_text.reply_text(asking, reply), reply)
    if findings:
        await run.dialogue.explain_ignored_answers(reply_text.not_counted(findings), run.state.gate.ask)
    return None


def may_be_answer(state: ThreadState, turn: Turn) -> bool:
    """Return whether a turn may be the answer to the open question and must wait until that is decided."""
    shown = state.question.shown
    return shown is not None and turn.key.startswith("comment-") and turn.at > shown.question_at


async def _post_question(run: ThreadRun) -> Shown:
    """Show the question and journal where. Raises Conflict if another process takes the thread over first."""
    await run.take_over()
    proposed = await run.dialogue.ask(run.state.question.asking, run.state.gate.ask, who=_who_may_answer(run.state))
    at = proposed.at or run.clock.now()
    shown = Shown(ask=run.state.gate.ask, question=proposed.id, question_url=proposed.url, question_at=at)
    await run.beside().note(shown)
    return shown


def _resume_move(state: ThreadState, text: str, reply: Reply | None = None) -> Replied | Instructed:
    """Return the move for an answer: back to planning, or on with approved work. No `reply`: nobody can answer."""
    asking, grant = state.question.asking, reply.grant if reply else None
    answer = Instructed if state.has_approved_work else Replied
    return answer(
        call=asking.call,
        session=state.question.current.session,
        digest=state.gate.digest if state.has_approved_work else None,
        by=(reply.by.login,) if reply else (),
        login=reply.by.login if reply else "",
        reply=text,
        turn=reply.turn if reply else "",
        edited=reply is not None and reply.edited,
        editors=reply.editors if reply else (),
        grant=grant,
        tool=asking.tool if grant else None,
        subject=asking.subject if grant else None,
        is_error=reply is None or grant is Grant.NO,
    )


def _expires(run: ThreadRun) -> datetime:
    """Return when the question expires: after as many days as a plan; in approved work, with its plan at the latest."""
    end = run.state.question.asked_at + timedelta(days=run.configuration.approve.expires_days)
    return min(end, run.state.plan.current.expires) if run.state.has_approved_work else end


def _who_may_answer(state: ThreadState) -> str:
    return reply_text.WHO_MAY_STEER if state.has_approved_work else reply_text.WHO_MAY_ASK


def _rules(run: ThreadRun) -> AnswerRules:
    policy, state = run.policy, run.state

    def may_steer(who: Author) -> bool:
        second = not policy.four_eyes or who.actor.id not in state.requesters
        return second and policy.may_decide(who.actor, who.role, listed=who.listed)

    def may_ask(who: Author) -> bool:
        return who.actor.id != policy.bot and run.configuration.ask.may_ask(who.actor, who.role)

    return AnswerRules(may_steer if state.has_approved_work else may_ask, state.has_approved_work)
