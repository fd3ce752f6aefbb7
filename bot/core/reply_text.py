"""Answers to commands and to closing a thread, and notices of what keeps a thread from going on. Pure.

`mention` is the bot's name here. Every command offered to people is spelled as they have to write it.
"""

from collections.abc import Sequence
from typing import Final

from bot.core.approval import Reason, Verdict
from bot.core.comment import REASONS, how_to_retry, mode_sign, mode_text, reasons, todo_list
from bot.core.gate import Stage
from bot.core.lines import shorten_line
from bot.core.markdown.elements import code, first_values
from bot.core.plan import PlanDocument

NO_PLAN_WAITS: Final = "No plan is waiting for approval here."
EDITED: Final = (
    "That comment was edited, so I don't accept it as a command: anyone with write access can edit other people's "
    "comments. Post the command in a new comment."
)
SENT_BY_MAIL: Final = (
    "That was sent by mail, which can repeat other people's words, so I don't accept it as a command: react on GitHub "
    "or comment there. By mail you can ask, `revise`, `reject`, and `stop`."
)
NOTHING_TO_RETRY: Final = "There is nothing to retry: nothing was interrupted."
NOTHING_TO_STOP: Final = "There is nothing to stop: nothing is running here."
NOTHING_TO_FINISH: Final = "There is nothing to finish: no approved work is running here."
DECIDE_IN_A_COMMENT: Final = "`approve` and `reject` don't count in a review. Post a comment in the conversation."
APPROVERS_ONLY: Final = "Only people who may approve can change the budget or the mode."
NOT_YOURS: Final = "Only people who asked for the work, and people with write access, can stop, finish, or retry it."

_LINE_ROOM: Final = 200
"""Characters of a person's line that an answer repeats."""


def help_text(mention: str) -> str:
    """Render what the bot does, and every command with the people who may give it."""
    return f"""\
Mention me and say what you want, or add the label `plangate` to an issue. If I have my own account here, you can also
assign me. I study the repository and post a plan. I change nothing until the plan is approved.

Put a command on the first line of a comment: `{mention} COMMAND`, or `/{mention.lstrip("@")} COMMAND`.

- `approve [DIGEST]`, `reject [WHY]`: decide on the plan (people who may approve). 👍 and 👎 on its comment do the same.
- `revise HOW`: get a new version of the plan (people who may ask)
- `stop`, `retry`: stop the work, or continue it (people who asked for it, and people with write access)
- `finish`: end approved work early, and publish what is done (the same people)
- `budget N`: set the budget of this thread to N dollars (people who may approve)
- `mode NAME`, `mode next`: choose the mode that approved work runs in (people who may approve)
- `status`, `help`: show where this thread stands, or this text (people who may ask)"""


def no_decision(line: str, mention: str) -> str:
    """Render the answer to words that say "approve" or "reject" while a plan waits, and are no command."""
    return (
        f"I don't take {code(shorten_line(line, _LINE_ROOM))} as a decision on the plan, and I changed nothing. To "
        f"decide, comment one of these lines: `{mention} approve`, `{mention} approve DIGEST`, or "
        f"`{mention} reject WHY`. To have the plan changed, comment `{mention} revise HOW`."
    )


def did_you_mean(line: str, nearest: str) -> str:
    """Render the answer to a line that looks like a command but is not one."""
    hint = f" Did you mean `{nearest}`?" if nearest else " The command `help` lists them all."
    return f"I don't know the command {code(shorten_line(line, _LINE_ROOM))}.{hint}"


def quota_reached(login: str, per_day: int, mention: str) -> str:
    """Render that a person has reached the daily limit of requests, and what is still possible."""
    times = "once" if per_day == 1 else f"{per_day} times"
    return (
        f"{login} has asked {times} today, which is the limit for one person here (`ask.per_day`), so I won't start on "
        f"this request. Ask again after midnight UTC. Approvals and commands such as `{mention} status` still work."
    )


def answers_reached(login: str, per_day: int, mention: str) -> str:
    """Render that a person has given so many commands that the next ones of the day are not answered."""
    return (
        f"I have answered {per_day} commands by {login} here today. Until midnight UTC I won't answer more, or start "
        f"again on `{mention} retry`. Requests, approvals, and `{mention} stop` still work."
    )


def cannot_publish(obstacles: Sequence[str], mention: str) -> str:
    """Render what keeps work from being published, before anything was spent on it."""
    rows = "\n".join(f"- {obstacle}" for obstacle in obstacles)
    return (
        f"I didn't start, because I couldn't publish the result:\n\n{rows}\n\n"
        f"This cost nothing. Fix that, then use {how_to_retry(mention)}."
    )


def edited_request(text: str) -> str:
    """Render, for the planner, the text of a request that was edited while it is planned."""
    return f"The request was edited. It now reads:\n\n{text}"


def work_stopped(login: str, mention: str) -> str:
    """Render that work was stopped, and by whom."""
    return f"Stopped by {login}. {_kept_work(mention)}"


def work_finishing(login: str) -> str:
    """Render that work ends early, and who asked for that."""
    return f"Finishing early, as {login} asked: I end the work at its next step, check what is there, and publish it."


def thread_closed(mention: str) -> str:
    """Render that closing the thread stopped the work."""
    return f"Stopped because the thread was closed. {_kept_work(mention)}"


def journal_set_back(ref: str, mention: str) -> str:
    """Render that the journal is older than the comments on the thread, and how to continue."""
    return (
        f"My stored state of this thread (`{ref}`) is older than my comments here: somebody with push access reset or "
        "deleted that ref. I won't do anything here until somebody who may approve posts a new comment with "
        f"`{mention} retry`. Then I'll stop what was running and plan again from what I still know. Earlier approvals "
        "won't count, and money spent in the meantime won't show up in the budget."
    )


def approval_withdrawn(plan: PlanDocument, verdict: Verdict, mention: str) -> str:
    """Render that approved work lost its approval: why, what is kept, and how to publish it."""
    alone = all(reason.reason is Reason.NOBODY for reason in verdict.reasons)
    cause = "the approval was withdrawn" if alone else "no valid approval is left"
    why = reasons(verdict).replace(REASONS[Reason.NOBODY], cause)
    how = f"👍, or `{mention} approve {plan.short_digest}`" if mention else how_to_retry(mention)
    return (
        f"I stopped because plan {plan.plan} ({plan.short_digest}) is no longer approved: {why}. None of its work was "
        "published. The work so far is kept. To continue and publish it, approve this plan again "
        f"({how})."
    )


def _kept_work(mention: str) -> str:
    return f"The work so far is kept. Use {how_to_retry(mention)} to continue."


_TODOS: Final = 50
_FILES_ROOM: Final = 3_000
"""Items of a todo list, and characters of changed file names, that fit in a closing comment."""


def work_so_far(todos: Sequence[tuple[str, str]], paths: Sequence[str], cost_usd: float | None) -> str:
    """Render what was done before work was stopped, as far as known, and its cost; "" if nothing is known."""
    more = [f"- and {len(todos) - _TODOS} more"] if len(todos) > _TODOS else []
    parts = ["\n".join([todo_list(todos[:_TODOS]), *more])] if todos else []
    if paths:
        parts.append(f"Changed so far, but not published: {first_values(paths, _FILES_ROOM)}.")
    if cost_usd is not None:
        parts.append(f"Cost so far: ${cost_usd:.2f}.")
    return "\n\n".join(parts)


def review_addressed(commit: str) -> str:
    """Render which commit addresses what was asked in a review thread."""
    return f"Addressed in {commit}."


def how_to_stop(mention: str) -> str:
    """Render how to stop the work in progress."""
    return f"`{mention} stop` stops it."


def how_to_finish(mention: str) -> str:
    """Render how to end approved work early without losing it."""
    return f"`{mention} finish` ends it early and publishes what is done."


def budget_nearly_used(share: float, *, finish: str = "") -> str:
    """Render that this share of the budget is used; `finish` is the sentence about how to end the work, if any."""
    return f"**{share:.0%} of the budget is used.** {finish}".rstrip()


WAIT_OVER: Final = "The wait for a free session is over."


def session_queued(mention: str) -> str:
    """Render that a session waits for a free slot, and how to end the wait."""
    return (
        "**Waiting for a free session**: this service is already running as many sessions as it allows. "
        f"Yours starts automatically. {how_to_stop(mention)}"
    )


def budget_raised(dollars: str) -> str:
    """Render the new budget."""
    return f"The budget of this thread is now ${dollars}."


def mode_chosen(name: str) -> str:
    """Render the mode that approved work will run in."""
    return f"Approved work {mode_text(name)}. Plan mode stays on until a plan is approved."


def plan_mode_stays(modes: Sequence[str]) -> str:
    """Render why plan mode cannot be chosen, and the modes that can."""
    listing = ", ".join(f"{code(mode)} ({mode_text(mode)})" for mode in modes)
    return (
        "You can't choose plan mode: every request starts in it, and only an approved plan ends it. "
        f"Use `mode` to choose how approved work runs: {listing}."
    )


def status(stage: Stage, mode_name: str) -> str:
    """Render the stage of the thread, and its mode (P8)."""
    return f"This thread is at: {stage.replace('_', ' ')}. {mode_sign(mode_name)}."


def configuration_error(why: str) -> str:
    """Render why nothing can continue here."""
    return f"I can't start here: {why}. Fix that, then ask again."


def unreadable(ref: str) -> str:
    """Render that a thread cannot continue because its stored state cannot be read."""
    return (
        f"I can't read my stored state of this thread (`{ref}`). Either the state key changed (PLANGATE_STATE_KEY, or "
        "the key that it is derived from), or somebody changed that ref. No plan here can be approved anymore. Ask in "
        "a new issue. Or ask an operator to restore the old key or delete that ref, then ask here again."
    )


VOID_PLAN: Final = "A later request came after this plan, but no new plan was made. Ask again for a new one."


def void_plan(plan: PlanDocument) -> str:
    """Render the answer to an approval of a plan that is no longer in force."""
    return (
        f"Plan {plan.plan} ({plan.short_digest}) can't be approved anymore, because a later request came after "
        "it. Ask again for a new plan."
    )


def approval_on_hold(plan: PlanDocument, why: str) -> str:
    """Render the answer to an approval of a plan that waits because nothing can be decided here."""
    return f"Plan {plan.plan} ({plan.short_digest}) is on hold: {why}. Fix that, and the approval counts."
