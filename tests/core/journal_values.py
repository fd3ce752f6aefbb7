"""What a thread's state says of the past, as JSON: to be compared with values that were recorded."""

from bot.core.events import encode_event
from bot.core.thread_state import ThreadState
from bot.core.transcript import Json


def state_values(state: ThreadState) -> Json:
    """Return the values of a state that has a request."""
    asking = encode_event(state.newest_question)["asking"]["call"] if state.newest_question else None
    return {
        "stage": state.stage,
        "written": state.written,
        "base": state.base,
        "onto": state.onto,
        "turn": state.turn.key,
        "sessions": [state.planning_session, state.work_session],
        "plan": state.newest_plan and state.newest_plan.plan,
        "replaced": state.plan_to_replace and state.plan_to_replace.plan,
        "refused": list(state.rejected_by),
        "lost": list(state.unconfirmed_asks),
        "void": state.has_void_plan,
        "plans": state.plans,
        "pushing": state.pushing and state.pushing.commit,
        "published": state.published and state.published.pull_number,
        "begun": list(state.work_begun_lines),
        "executed": state.has_finished_work,
        "steers": state.has_approved_work,
        "asking": asking,
        "question": state.shown_question and state.shown_question.question,
        "granted": sorted(map(list, state.granted)),
        "mode": state.mode,
        "asked_for": [each.said.key for each in state.newest_request_entries],
        "wishes": [each.said.key for each in state.request_entries],
        "requesters": sorted(state.requesters),
        "hidden": state.hidden.to_json(),
        "kept": [each.said.key for each in state.kept_turns],
        "debts": [unposted.n for unposted in state.unposted_texts],
        "seen": sorted(state.seen),
        "asked_at": state.last_request_at.isoformat(),
        "heard_to": state.heard_until and state.heard_until.isoformat(),
        "explained": state.posted_explanation,
        "waits_for_session": state.waits_for_session,
        "takes_kept": state.can_begin_kept_turn,
        "finished": state.is_finished,
        "cost_usd": state.cost_usd,
        "run": state.run,
        "shown": state.plan_comment,
        "pull_request": state.pull_request_url,
        "chosen_mode": state.chosen_mode,
    }
