"""What is owed to people, each text posted exactly once (PR3, E1)."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from functools import partial

from bot.core import reply_text
from bot.core.approval import approval_attempts
from bot.core.comment import EXECUTION_OVER
from bot.core.errors import PlangateError
from bot.core.gate import AT_WORK, Stage
from bot.core.moves import Answered, Published, Stopped
from bot.core.names import thread_ref
from bot.core.notes import Folded, Heard, Noticed, Told
from bot.core.thread.heard import UnpostedText
from bot.core.thread.state import ThreadState
from bot.core.transcript import all_messages, todos_of
from bot.core.turn import Acknowledgment
from bot.workflow.journal import append_notes, defer_notes, take_over
from bot.workflow.main_session import end_stopped_planning
from bot.workflow.saved_work import checkout, read_transcript
from bot.workflow.thread_context import ThreadContext, may_ask

# --- Posts the texts that journal entries owe to people, each exactly once (PR3, E1) ---------------------------------
# Two processes may work on one thread at a time: a check, and a reader of comments meanwhile. So that nothing is
# posted
# twice, each posts the replies to the turns that it journaled, and only the check posts what moves owe. If a reader
# died, a later check posts its replies. If a job died, the first job that takes the thread over posts what is left
# (E4).


async def post_replies(context: ThreadContext, state: ThreadState) -> ThreadState:
    """Post the replies to turns that this check journaled. If another process journaled a turn first, it replies."""
    mine, texts = context.thread_check.written, state.heard.unposted_texts
    return await _post(context, state, [text for text in texts if isinstance(text.event, Heard) and text.n in mine])


async def post_outcomes(context: ThreadContext, state: ThreadState) -> ThreadState:
    """Post what moves owe, and abandoned replies. Raises Conflict if another check takes the thread over first."""
    if not (texts := state.heard.texts_to_post(context.resources.clock.now())):
        return state
    state = await take_over(context, state)
    if state.stage not in AT_WORK:
        await context.dialogue.end_abandoned_progress(EXECUTION_OVER)
    return await _post(context, state, texts)


async def _post(context: ThreadContext, state: ThreadState, texts: Iterable[UnpostedText]) -> ThreadState:
    """Post texts, oldest first, and note each one. The dialogue looks each up first, so a crash repeats none (E1)."""
    for unposted in texts:
        event = unposted.event
        progress = ""
        if isinstance(event, Stopped):
            progress = await _progress_so_far(context, state)
            await end_stopped_planning(context, state)
        if isinstance(event, Published) and event.reviews:
            await context.dialogue.reply(event.reviews, reply_text.review_addressed(event.commit), unposted.n)
        if isinstance(event, Answered) and event.review is not None:
            await context.dialogue.review(event.review, unposted.n)
        else:
            await context.dialogue.post(f"{event.owes}\n\n{progress}".rstrip(), unposted.n)
        state = defer_notes(context, state, Told(answers=unposted.n))
    return state


async def _progress_so_far(context: ThreadContext, state: ThreadState) -> str:
    """Return the progress of stopped work, from its transcript and checkout. Leaves out what cannot be read."""
    todos, paths = list[tuple[str, str]](), tuple[str, ...]()
    if state.has_approved_work:
        with suppress(PlangateError):
            lines = await read_transcript(context, context.work_session(state))
            todos = todos_of(all_messages(lines))
            paths = await context.workspace.changed_paths(await checkout(context, state)) if lines else ()
    return reply_text.work_so_far(todos, paths, state.costs.total_usd)


# --- Answers, once, each approval that cannot take effect and would otherwise get no reply (PR3, A5) -----------------
# - A further request makes the waiting plan invalid. If no new plan replaces it, its comment is folded.
# - While the configuration has a mistake, no approval takes effect.
# - While the journal cannot be read, no earlier decision counts.


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
