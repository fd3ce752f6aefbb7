"""Answers, once, each approval that cannot take effect and would otherwise get no reply (PR3, A5).

- A further request makes the waiting plan invalid. If no new plan replaces it, its comment is folded.
- While the configuration has a mistake, no approval takes effect.
- While the journal cannot be read, no earlier decision counts.
"""

from datetime import datetime
from functools import partial

from bot.core import reply_text
from bot.core.approval import approval_attempts
from bot.core.gate import Stage
from bot.core.names import thread_ref
from bot.core.notes import Folded, Noticed
from bot.core.thread.state import ThreadState
from bot.core.turn import Acknowledgment
from bot.workflow.journal.writing import append_notes
from bot.workflow.outbox.outcomes import post_outcomes
from bot.workflow.rights import may_ask
from bot.workflow.thread_context import ThreadContext


async def notice_void_plan(context: ThreadContext, state: ThreadState) -> ThreadState:
    """Fold a plan that is no longer valid and was not replaced, and answer people who approve it anyway."""
    if not state.has_void_plan:
        return state
    if state.plan.voided is not None and state.plan.voided.folded is None:
        state = await _fold_void_plans(context, state)
    if (voided := state.plan.voided) is None or not voided.folded:
        return state
    return await _answer_approval(context, state, voided.since, owes=reply_text.void_plan(state.plan.current))


async def _fold_void_plans(context: ThreadContext, state: ThreadState) -> ThreadState:
    """Fold the comments that show such a plan: the journaled one, and one that was posted as the request came."""
    current = state.plan.comment if state.plan.awaits_decision else ""
    comments = [current, *[await context.dialogue.find_plan_comment(ask) for ask in state.unconfirmed_asks]]
    plans = [comment for comment in comments if comment]
    for comment in plans:
        await context.dialogue.supersede(comment, reply_text.VOID_PLAN)
    return await append_notes(context, state, Folded(folded=len(plans), shown=plans[-1] if plans else ""))


async def notice_configuration_error(context: ThreadContext, state: ThreadState) -> ThreadState:
    """Answer people who approve a plan while the configuration has a mistake."""
    if state.stage is not Stage.AWAITING_APPROVAL:
        return state
    owes = reply_text.approval_on_hold(state.plan.current, context.settings.refusal)
    return await _answer_approval(context, state, None, owes=owes)


async def notice_unreadable_journal(context: ThreadContext) -> None:
    """Post once that the thread's journal cannot be read and that nothing decided there counts."""
    await notice_without_journal(context, reply_text.unreadable(thread_ref(context.location.thread)))


async def notice_without_journal(context: ThreadContext, text: str) -> None:
    """Post once why nothing can begin, if somebody who may ask has asked. Neither reads nor writes the journal."""
    turns = await context.dialogue.turns((), may_act=partial(may_ask, context))
    requests = [turn for turn in turns if may_ask(context, turn) and not turn.aside]
    if requests:
        await context.dialogue.acknowledge(requests[-1], Acknowledgment.SEEN)
        await context.dialogue.post(text, 0)  # entries count from 1


async def _answer_approval(
    context: ThreadContext, state: ThreadState, since: datetime | None, *, owes: str
) -> ThreadState:
    """Post a text once if somebody approved since `since`, or since the plan was shown."""
    if owes in state.plan.posted_notices:
        return state
    live = await context.dialogue.snapshot(
        state.plan.current, state.plan.comment, onto=state.request.onto, begun=state.approval.work_begun_lines
    )
    if approval_attempts(live, context.policy, since or live.shown.since):
        state = await post_outcomes(context, await append_notes(context, state, Noticed(owes=owes)))
    return state
