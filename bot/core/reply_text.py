"""Answers to commands and to closing a thread. Pure, beside core/comment.py.

`mention` is the bot's name here. Every command offered to people is spelled as they have to write it.
"""

from collections.abc import Sequence
from typing import Final

from bot.core.approval import Reason, Verdict
from bot.core.comment import REASONS, code, mode_sign, reasons, some, todo_list
from bot.core.gate import Stage
from bot.core.plan import PlanDocument

NO_PLAN_WAITS: Final = "No plan waits for approval here."
EDITED: Final = (
    "That comment was edited, so I do not take it as a command: say it again in a new one (anybody who can write \
can edit other people's comments)."
)
NOTHING_TO_RETRY: Final = "There is nothing to retry: nothing was interrupted."
NOTHING_TO_STOP: Final = "There is nothing to stop: nothing is under way here."
DECIDE_IN_A_COMMENT: Final = (
    "I take `approve` and `reject` from comments of the conversation, not from a review: say it there."
)
APPROVERS_ONLY: Final = "Only people who may approve can change the budget or the mode."
NOT_YOURS: Final = "Only whoever asked for the work, and people who can write, can stop or retry it."


def help_text(mention: str) -> str:
    """Render what the bot does, and every command with the people who may give it."""
    return f"""\
Mention me with what you want, or give an issue the label `plangate`; where I have an account of my own, assign me. I
study the repository and post a plan, and do nothing else before it is approved.

A command is a line of its own: `{mention} COMMAND`, or `/{mention.lstrip("@")} COMMAND`.

- `approve [DIGEST]`, `reject [WHY]`: decide about the plan (people who may approve); so do 👍 and 👎 on its comment
- `revise HOW`: a new version of the plan (people who may ask)
- `stop`, `retry`: end the work; go on from there (whoever asked, and people who can write)
- `budget N`: raise the budget of this thread, in dollars (people who may approve)
- `mode NAME`, `mode next`: the mode that approved work runs in (people who may approve)
- `status`, `help`: where the thread stands; this text (people who may ask)"""


def did_you_mean(line: str, nearest: str) -> str:
    """Render the answer to a line that looks like a command but is not one."""
    hint = f" Did you mean `{nearest}`?" if nearest else " Say `help` to see what I know."
    return f"I do not know the command {code(line)}.{hint}"


def quota_reached(login: str, per_day: int, mention: str) -> str:
    """Render that a person has reached the daily limit of requests, and what is still possible."""
    times = "once" if per_day == 1 else f"{per_day} times"
    return (
        f"{login} has asked {times} today, which is as often as one person may here (ask.per_day), so I leave this. "
        f"Ask again after midnight UTC; commands such as `{mention} status` and approvals go on."
    )


def work_stopped(login: str, mention: str) -> str:
    """Render that work was stopped, and by whom."""
    return f"Stopped by {login}. {_kept_work(mention)}"


def thread_closed(mention: str) -> str:
    """Render that closing the thread stopped the work."""
    return f"Stopped, because the thread was closed. {_kept_work(mention)}"


def journal_set_back(ref: str, mention: str) -> str:
    """Render that the journal is older than the comments on the thread, and how to continue."""
    return (
        f"What I keep of this thread in `{ref}` is older than what I have said here: somebody who can push set that "
        "ref back, or deleted it. I do nothing here until somebody who may approve says, after this comment, "
        f"`{mention} retry`. Then I stop what was under way and plan again what I still know of; no approval that was "
        "given before counts for that, and what was spent since is forgotten."
    )


def approval_withdrawn(plan: PlanDocument, verdict: Verdict, mention: str) -> str:
    """Render that approved work lost its approval: why, what is kept, and how to publish it."""
    alone = all(finding.reason is Reason.NOBODY for finding in verdict.findings)
    left = "the approval was taken back" if alone else "no approval that counts is left"
    why = reasons(verdict).replace(REASONS[Reason.NOBODY], left)
    return (
        f"I stopped, because plan {plan.plan} ({plan.short_digest}) is no longer approved: {why}. Nothing of it was "
        "published. The work so far is kept; a new approval of this plan "
        f"(👍, or `{mention} approve {plan.short_digest}`) goes on from there and publishes it."
    )


def _kept_work(mention: str) -> str:
    return f"The work so far is kept; `{mention} retry` goes on from there."


_TODOS: Final = 50
_FILES_ROOM: Final = 3_000
"""Items of a todo list, and characters of changed file names, that fit in a closing comment."""


def work_so_far(todos: Sequence[tuple[str, str]], paths: Sequence[str], cost_usd: float | None) -> str:
    """Render what was done before work was stopped, as far as known, and its cost; "" if nothing is known."""
    left = [f"- and {len(todos) - _TODOS} more"] if len(todos) > _TODOS else []
    parts = ["\n".join([todo_list(todos[:_TODOS]), *left])] if todos else []
    if paths:
        parts.append(f"Changed so far, and not published: {some(paths, _FILES_ROOM)}.")
    if cost_usd is not None:
        parts.append(f"It has cost ${cost_usd:.2f}.")
    return "\n\n".join(parts)


def dealt_with(commit: str) -> str:
    """Render which commit deals with what was asked in a review thread."""
    return f"Dealt with in {commit}."


def how_to_stop(mention: str) -> str:
    """Render how to stop the work in progress."""
    return f"`{mention} stop` stops it."


WAIT_OVER: Final = "The wait for a free session is over."


def session_queued(mention: str) -> str:
    """Render that a session waits for a free slot, and how to end the wait."""
    return (
        "**Waiting for a free session**: as many sessions are running as this service allows at once. "
        f"Yours begins by itself. {how_to_stop(mention)}"
    )


def budget_raised(dollars: str) -> str:
    """Render the new budget."""
    return f"The budget of this thread is now ${dollars}."


def mode_chosen(name: str) -> str:
    """Render the mode that approved work will run in."""
    return f"Approved work will run in mode {name}. Plan mode stays until a plan is approved."


def plan_mode_stays(modes: Sequence[str]) -> str:
    """Render why plan mode cannot be chosen, and the modes that can."""
    return (
        "Plan mode cannot be chosen: every request begins in it, and only an approved plan ends it. "
        f"`mode` chooses how approved work runs: {', '.join(map(code, modes))}."
    )


def status(stage: Stage, mode_name: str) -> str:
    """Render where the thread stands, and its mode (P8)."""
    return f"This thread is at: {stage}. {mode_sign(mode_name)}."
