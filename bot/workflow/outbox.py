"""Posts the texts that journal entries hold for people, each exactly once (PR3, E1)."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

from bot.core import reply_text
from bot.core.approval import approval_attempts
from bot.core.comment import EXECUTION_OVER
from bot.core.errors import PlangateError
from bot.core.gate import AT_WORK, Stage
from bot.core.moves import Answered, Published, Stopped
from bot.core.notes import Folded, Noticed, OtherTurn, TextPosted
from bot.core.thread.turns import UnpostedText
from bot.core.transcript import all_messages, todos_of
from bot.core.turn import Acknowledgment
from bot.workflow.main_session import checkout, end_stopped_planning, read_transcript, work_session
from bot.workflow.thread_run import ThreadRun

# --- Texts that entries still have to post (PR3, E1)
# Two processes may work on one thread at a time: a check, and a reader of comments meanwhile. So that nothing is posted
# twice, each posts the replies to the turns that it journaled, and only the check posts the texts of moves. If a reader
# died, a later check posts its replies. If a job died, the first job that takes the thread over posts what is left.


async def post_replies(run: ThreadRun) -> None:
    """Post the replies to turns that this check journaled. If another process journaled a turn first, it replies."""
    mine, texts = run.journal.own, run.state.turns.unposted_texts
    await _post(run, [text for text in texts if isinstance(text.event, OtherTurn) and text.n in mine])


async def post_outcomes(run: ThreadRun) -> None:
    """Post the texts of moves, and abandoned replies. Raises Conflict if another check takes the thread over first."""
    if not (texts := run.state.turns.texts_to_post(run.clock.now())):
        return
    await run.take_over()
    if run.state.stage not in AT_WORK:
        await run.dialogue.end_abandoned_progress(EXECUTION_OVER)
    await _post(run, texts)


async def _post(run: ThreadRun, texts: Iterable[UnpostedText]) -> None:
    """Post texts, oldest first, and note each one. The dialogue looks each up first, so a crash repeats none (E1)."""
    for unposted in texts:
        event = unposted.event
        progress = ""
        if isinstance(event, Stopped):
            progress = await _progress_so_far(run)
            await end_stopped_planning(run)
        if isinstance(event, Published) and event.reviews:
            await run.dialogue.reply(event.reviews, reply_text.review_addressed(event.commit), unposted.n)
        if isinstance(event, Answered) and event.review is not None:
            await run.dialogue.review(event.review, unposted.n)
        else:
            await run.dialogue.post(f"{event.text_to_post}\n\n{progress}".rstrip(), unposted.n)
        run.defer(TextPosted(answers=unposted.n))


async def _progress_so_far(run: ThreadRun) -> str:
    """Return the progress of stopped work, from its transcript and checkout. Leaves out what cannot be read."""
    todos, paths = list[tuple[str, str]](), tuple[str, ...]()
    if run.state.has_approved_work:
        with suppress(PlangateError):
            lines = await read_transcript(run, work_session(run))
            todos = todos_of(all_messages(lines))
            paths = await run.workspace.changed_paths(await checkout(run)) if lines else ()
    return reply_text.work_so_far(todos, paths, run.state.costs.total_usd)


# --- Answers to approvals that cannot take effect (PR3, A5)


async def notice_void_plan(run: ThreadRun) -> None:
    """Fold an unreplaced plan that a further request made invalid, and answer people who approve it anyway."""
    if not run.state.has_void_plan:
        return
    if run.state.plan.voided is not None and run.state.plan.voided.folded is None:
        await _fold_void_plans(run)
    if (voided := run.state.plan.voided) is None or not voided.folded:
        return
    await _answer_approval(run, voided.since, text=reply_text.void_plan(run.state.plan.current))


async def _fold_void_plans(run: ThreadRun) -> None:
    """Fold the comment that is journaled, and one that was posted as the request came."""
    current = run.state.plan.comment if run.state.plan.awaits_decision else ""
    comments = [current, *[await run.dialogue.find_plan_comment(ask) for ask in run.state.unconfirmed_asks]]
    plans = [comment for comment in comments if comment]
    for comment in plans:
        await run.dialogue.supersede(comment, reply_text.VOID_PLAN)
    await run.note(Folded(folded=len(plans), shown=plans[-1] if plans else ""))


async def notice_configuration_error(run: ThreadRun) -> None:
    """Answer people who approve a plan while the configuration has a mistake, so that none takes effect."""
    if run.state.stage is not Stage.AWAITING_APPROVAL:
        return
    text = reply_text.approval_on_hold(run.state.plan.current, run.conditions.refusal)
    await _answer_approval(run, None, text=text)


async def notice_without_journal(run: ThreadRun, text: str) -> None:
    """Post once why nothing can begin, if somebody who may ask has asked. Neither reads nor writes the journal."""
    turns = await run.dialogue.turns((), may_act=run.may_ask)
    requests = [turn for turn in turns if run.may_ask(turn) and not turn.aside]
    if requests:
        await run.dialogue.acknowledge(requests[-1], Acknowledgment.SEEN)
        await run.dialogue.post(text, 0)  # entries count from 1


async def _answer_approval(run: ThreadRun, since: datetime | None, *, text: str) -> None:
    """Post a text once if somebody approved since `since`, or since the plan was shown."""
    plan, onto, begun = run.state.plan, run.state.request.onto, run.state.approval.work_begun_lines
    if text in plan.posted_notices:
        return
    live = await run.dialogue.snapshot(plan.current, plan.comment, onto=onto, begun=begun)
    if approval_attempts(live, run.policy, since or live.shown.since):
        await run.note(Noticed(text_to_post=text))
        await post_outcomes(run)
