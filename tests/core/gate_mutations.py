"""Mistakes to plant in bot/core/gate.py: a text of it, what the mistake makes of it, and the law that must break."""

from typing import Final

MUTATIONS: Final = {
    "late answers are taken": ("event.ask != thread.ask:", "(event.ask or 0) > thread.ask:", "answers_name_the_ask"),
    "early answers are taken": ("event.ask != thread.ask:", "(event.ask or 0) < thread.ask:", "answers_name_the_ask"),
    "asks are not checked": ("if event.move in ANSWERS and", "if False and", "answers_name_the_ask"),
    "asks are checked the wrong way round": (
        "event.ask != thread.ask:",
        "event.ask == thread.ask:",
        "follows_the_table",
    ),
    "an approval is no answer": ("        Move.APPROVED,\n        Move.REJECTED,", "", "answers_name_the_ask"),
    "a plan may come without digest": ("and not event.digest:", "and False:", "digests_are_named"),
    "an approval of any plan is taken": ("event.digest != thread.digest:", "False:", "digests_are_named"),
    "the newest plan is never the right one": ("event.digest != thread.digest:", "event.digest:", "follows_the_table"),
    "what nobody approved is resumed": ("Move.DELIVERED, Move.RESUMED}", "Move.DELIVERED}", "work_is_approved"),
    "approvals are not looked at": ("thread.approved is None or", "False and", "work_is_approved"),
    "an approval is not remembered": ("thread, approved=event.digest", "thread", "work_is_approved"),
    "planning approves": (
        "digest=event.digest, approved=None",
        "digest=event.digest, approved=event.digest",
        "one_way_to_approve",
    ),
    "an amendment keeps the approval": ("digest=event.digest, approved=None", "digest=event.digest", "approvals_end"),
    "a withdrawn approval stands": ("case Move.WITHDRAWN | Move.REJECTED", "case Move.REJECTED", "approvals_end"),
    "a retry keeps the approval": ("| Move.EXPIRED | Move.RETRIED |", "| Move.EXPIRED |", "approvals_end"),
    "a new turn keeps the approval": ("thread, approved=None, digest=None", "thread, digest=None,", "approvals_end"),
    "a new turn keeps the plan": ("thread, approved=None, digest=None", "thread, approved=None,", "digests_are_named"),
    "a new plan has the old number": ("plan=thread.plan + 1", "plan=thread.plan", "digests_are_named"),
    "asks are not counted": ("ask=thread.ask + 1", "ask=thread.ask", "one_effect_an_entry"),
    "a noted turn starts the work again": (" or event.move is Move.NOTED:", ":", "one_effect_an_entry"),
    "nobody looks for approvals": ("Stage.AWAITING_APPROVAL: Effect.APPROVING,", "", "one_effect_an_entry"),
    "a pull request asks for work": (
        "Stage.PUBLISHING: Effect.PUBLISHING,",
        "Stage.IN_REVIEW: Effect.EXECUTING,",
        "one_effect_an_entry",
    ),
    "plans are not shown": (
        "Move.PLANNED: Stage.PROPOSING",
        "Move.PLANNED: Stage.AWAITING_APPROVAL",
        "follows_the_table",
    ),
    "plans are not asked about": (
        "Move.PROPOSED: Stage.AWAITING_APPROVAL",
        "Move.PROPOSED: Stage.EXECUTING",
        "work_is_approved",
    ),
    "a rejected plan is worked on": (
        "Move.REJECTED: Stage.REJECTED",
        "Move.REJECTED: Stage.EXECUTING",
        "work_is_approved",
    ),
    "an amendment is published": (
        "Move.OUTGREW: Stage.PROPOSING",
        "Move.OUTGREW: Stage.PUBLISHING",
        "work_is_approved",
    ),
    "a rejected plan is retried": ("Stage.REJECTED: {**_ROUND", "Stage.REJECTED: {**_AGAIN", "follows_the_table"),
    "a pull request cannot be stopped": (
        "Stage.IN_REVIEW: {**_ROUND, Move.STOPPED: Stage.IN_REVIEW}",
        "Stage.IN_REVIEW: {**_ROUND}",
        "stops_everywhere",
    ),
    "a pull request is stopped, and resumed": (
        "Stage.IN_REVIEW: {**_ROUND, Move.STOPPED: Stage.IN_REVIEW}",
        "Stage.IN_REVIEW: {**_ROUND, Move.STOPPED: Stage.STOPPED}",
        "follows_the_table",
    ),
    "stopping works": (
        "{Move.STOPPED: Stage.STOPPED, Move.FAILED",
        "{Move.STOPPED: Stage.EXECUTING, Move.FAILED",
        "stops_everywhere",
    ),
    "a pull request is never closed": (", Move.CLOSED: Stage.DONE}", "}", "comes_everywhere"),
    "a rejected thread's pull request is never closed": (
        "Stage.REJECTED: {**_ROUND",
        "Stage.REJECTED: {**_REST",
        "comes_everywhere",
    ),
    "closing leaves the work under way": (
        "Move.CLOSED: Stage.DONE}",
        "Move.CLOSED: Stage.EXECUTING}",
        "work_is_approved",
    ),
    "work that drifted is published": (
        "Move.DRIFTED: Stage.STALE,\n            Move.PUBLISHED",
        "Move.DRIFTED: Stage.IN_REVIEW,\n            Move.PUBLISHED",
        "work_is_approved",
    ),
    "what the table has not is ignored": (
        "    if target is None:\n",
        "    if target is None:\n        return thread, None\n",
        "follows_the_table",
    ),
    "a planner's answer keeps the approval": ("| Move.REPLIED:", ":", "approvals_end"),
    "an answer goes on with what nobody approved": (
        "_NEEDS_APPROVAL: Final = frozenset({Move.INSTRUCTED, ",
        "_NEEDS_APPROVAL: Final = frozenset({",
        "work_is_approved",
    ),
    "an answer of a planner's starts work": (
        "Move.REPLIED: Stage.PLANNING",
        "Move.REPLIED: Stage.EXECUTING",
        "work_is_approved",
    ),
    "late answers to a question are taken": (
        "        Move.REPLIED,\n        Move.INSTRUCTED,",
        "",
        "answers_name_the_ask",
    ),
    "nobody asks the question": (",\n        Stage.ASKED: Effect.ASKING", "", "one_effect_an_entry"),
    "rounds are not counted": ("round=thread.round + 1", "round=thread.round", "rounds_begin"),
    "every request about a pull request begins a round": (
        "{Stage.DONE})",
        "{Stage.IN_REVIEW, Stage.DONE})",
        "rounds_begin",
    ),
    "a merge begins no round": ("{Stage.DONE})", "{Stage.REJECTED})", "rounds_begin"),
}
