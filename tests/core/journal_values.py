"""What a thread's state says of the past, as JSON: to be compared with values that were recorded."""

from bot.core.codec import encode
from bot.core.thread.state import ThreadState
from bot.core.transcript import Json


def state_values(state: ThreadState) -> Json:
    asking = encode(state.question.newest)["asking"]["call"] if state.question.newest else None
    return {
        "stage": state.stage,
        "written": state.written,
        "base": state.request.base,
        "onto": state.request.onto,
        "turn": state.request.turn.key,
        "sessions": [state.request.planning_session, state.request.work_session],
        "plan": state.plan.newest and state.plan.newest.plan,
        "replaced": state.plan.to_replace and state.plan.to_replace.plan,
        "refused": list(state.plan.rejected_by),
        "lost": list(state.unconfirmed_asks),
        "void": state.has_void_plan,
        "plans": state.plan.versions,
        "pushing": state.work.pushing and state.work.pushing.commit,
        "published": state.work.published and state.work.published.pull_number,
        "begun": list(state.approval.work_begun_lines),
        "executed": state.work.was_finished,
        "steers": state.has_approved_work,
        "asking": asking,
        "question": state.question.shown and state.question.shown.question,
        "granted": sorted(map(list, state.approval.granted)),
        "mode": state.approval.mode,
        "asked_for": [each.said.key for each in state.request.newest_entries],
        "wishes": [each.said.key for each in state.request.entries],
        "requesters": sorted(state.requesters),
        "hidden": encode(state.request.hidden),
        "kept": [each.said.key for each in state.request.kept_turns],
        "debts": [unposted.n for unposted in state.turns.unposted_texts],
        "seen": sorted(state.turns.seen),
        "asked_at": state.turns.last_request_at.isoformat(),
        "heard_to": state.turns.until and state.turns.until.isoformat(),
        "explained": state.plan.posted_explanation,
        "waits_for_session": state.waits_for_session,
        "takes_kept": state.can_begin_kept_turn,
        "finished": state.is_finished,
        "cost_usd": state.costs.total_usd,
        "run": state.work.run,
        "shown": state.plan.comment,
        "pull_request": state.work.pull_request_url,
        "chosen_mode": state.approval.chosen_mode,
    }
