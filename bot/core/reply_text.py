"""What the bot answers to commands and questions, why a thread cannot go on, and a task's tracking issue. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from bot.core.approval import Reason, Verdict
from bot.core.codepoints import with_visible_codepoints
from bot.core.comment import NAMED, REASONS, attribution, how_to_retry, mode_sign, mode_text, reasons, todo_list
from bot.core.configuration import MaintenanceTask
from bot.core.gate import Stage
from bot.core.maintenance import TaskFinding
from bot.core.markdown.elements import cell, code, fenced_block, first_items, first_values, shorten_line, table
from bot.core.markdown.inert import inert_markdown
from bot.core.plan import PlanDocument, disarm_text
from bot.core.question import ALL, Asking, AskKind, Grant, IgnoredAnswer, IgnoreReason, Option, Question, Reply
from bot.core.thread.task import TaskOccurrence

# --- Answers to commands, and notices of what blocks a thread --------------------------------------------------------
# `mention` is the bot's name here. Every command offered to people is spelled as they have to write it.

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
    hint = f" Did you mean `{nearest}`?" if nearest else " The command `help` lists them all."
    return f"I don't know the command {code(shorten_line(line, _LINE_ROOM))}.{hint}"


def quota_reached(login: str, per_day: int, mention: str) -> str:
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
    return f"The request was edited. It now reads:\n\n{text}"


def work_stopped(login: str, mention: str) -> str:
    return f"Stopped by {login}. {_kept_work(mention)}"


def work_finishing(login: str) -> str:
    return f"Finishing early, as {login} asked: I end the work at its next step, check what is there, and publish it."


def thread_closed(mention: str) -> str:
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
    return f"Addressed in {commit}."


def how_to_stop(mention: str) -> str:
    return f"`{mention} stop` stops it."


def how_to_finish(mention: str) -> str:
    return f"`{mention} finish` ends it early and publishes what is done."


def budget_nearly_used(share: float, *, finish: str = "") -> str:
    """Render that this share of the budget is used; `finish` is the sentence about how to end the work, if any."""
    return f"**{share:.0%} of the budget is used.** {finish}".rstrip()


WAIT_OVER: Final = "The wait for a free session is over."


def session_queued(mention: str) -> str:
    return (
        "**Waiting for a free session**: this service is already running as many sessions as it allows. "
        f"Yours starts automatically. {how_to_stop(mention)}"
    )


def budget_raised(dollars: str) -> str:
    return f"The budget of this thread is now ${dollars}."


def mode_chosen(name: str) -> str:
    return f"Approved work {mode_text(name)}. Plan mode stays on until a plan is approved."


def plan_mode_stays(modes: Sequence[str]) -> str:
    listing = ", ".join(f"{code(mode)} ({mode_text(mode)})" for mode in modes)
    return (
        "You can't choose plan mode: every request starts in it, and only an approved plan ends it. "
        f"Use `mode` to choose how approved work runs: {listing}."
    )


def status(stage: Stage, mode_name: str) -> str:
    return f"This thread is at: {stage.replace('_', ' ')}. {mode_sign(mode_name)}."


def configuration_error(why: str) -> str:
    return f"I can't start here: {why}. Fix that, then ask again."


def unreadable(ref: str) -> str:
    return (
        f"I can't read my stored state of this thread (`{ref}`). Either the state key changed (PLANGATE_STATE_KEY, or "
        "the key that it is derived from), or somebody changed that ref. No plan here can be approved anymore. Ask in "
        "a new issue. Or ask an operator to restore the old key or delete that ref, then ask here again."
    )


VOID_PLAN: Final = "A later request came after this plan, but no new plan was made. Ask again for a new one."


def void_plan(plan: PlanDocument) -> str:
    return (
        f"Plan {plan.plan} ({plan.short_digest}) can't be approved anymore, because a later request came after "
        "it. Ask again for a new plan."
    )


def approval_on_hold(plan: PlanDocument, why: str) -> str:
    return f"Plan {plan.plan} ({plan.short_digest}) is on hold: {why}. Fix that, and the approval counts."


# --- Texts of questions to people, and of answers to the session -----------------------------------------------------

_NOT_COUNTED: Final[Mapping[IgnoreReason, str]] = MappingProxyType(
    {
        IgnoreReason.MAY_NOT: "ticked a box, but may not answer this: somebody who may must untick and tick it",
        IgnoreReason.CHANGED: "changed more of my question than its boxes, so that edit doesn't count: "
        "untick the boxes and tick them again",
        IgnoreReason.EDITED: "the answer was edited, so it doesn't count: answer in a new comment",
        IgnoreReason.BY_MAIL: "the answer was sent by mail, so it doesn't count: tick a box or comment on GitHub",
        IgnoreReason.ONE_ONLY: "a question that takes one answer has several ticked boxes: leave one",
    }
)
WHO_MAY_STEER: Final = "people who may approve"
WHO_MAY_ASK: Final = "people who may ask me"


def question_text(asking: Asking, who: str) -> str:
    """Render what a session asks. Its boxes are the last ones in the text, in the order of the options.

    The same question gives the same text in every version: threads in flight compare it with what GitHub shows.
    """
    if asking.matter is AskKind.PERMISSION:
        about = fenced_block(with_visible_codepoints(asking.subject))
        means = f"\n\nWhat it does, in a model's words: {_inert_label(asking.meaning)}" if asking.meaning else ""
        head = f"## ⏸ May I use {code(asking.tool)}?\n\n{about}{means}\n\nWhy I ask: {_inert_label(asking.why)}."
        words = "`allow`, `allow for this plan` or `deny WHY`"
        how = f"Tick one box, or comment {words}. What counts is what {who} say; the work waits until then."
    else:
        head = "## ⏸ I have a question"
        how = f"{_how_to_choose(asking)} Or answer in a comment, in your own words. What counts is what {who} say."
    questions = [_question(number, question, asking) for number, question in enumerate(asking.questions, 1)]
    last = [f"- [ ] {ALL}"] if asking.closed_by_box else []
    return "\n\n".join([head, how, *questions, *last]) + "\n"


def not_counted(findings: Sequence[IgnoredAnswer]) -> str:
    clauses = [attribution(finding.actor) + _NOT_COUNTED[finding.why] for finding in findings]
    return f"I'm still waiting for an answer. {'; '.join(first_items(clauses, NAMED))}."


def question_expired(days: float, mention: str) -> str:
    return f"Nobody answered within {days:g} days, so I stopped waiting. Use {how_to_retry(mention)} to ask again."


def reply_text(asking: Asking, reply: Reply) -> str:
    """Return an answer as the model receives it: the result of the call that waited."""
    who = f"@{reply.by.login}"
    if reply.grant is Grant.NO:
        return f"Denied by {who}" + (f", who says: {reply.words}" if reply.words else ". Do it another way, or stop.")
    if reply.grant is not None:
        return f"Allowed by {who}."
    if reply.words:
        return f"{who} answered in words: {reply.words}"
    rows = (
        f'"{question.text}": {", ".join(labels) or "nothing chosen: decide yourself"}'
        for question, labels in zip(asking.questions, reply.chosen, strict=True)
    )
    return f"{who} answered.\n" + "\n".join(rows)


def _question(number: int, question: Question, asking: Asking) -> str:
    label = f"**{number}. {_inert_label(question.header)}** " if asking.matter is AskKind.QUESTION else ""
    hint = " *(choose any)*" if question.several else ""
    return "\n".join([f"{label}{_inert_label(question.text)}{hint}\n", *map(_option, question.options)])


def _option(option: Option) -> str:
    return f"- [ ] {_inert_label(option.label)}" + (
        f": {_inert_label(option.description)}" if option.description else ""
    )


def _how_to_choose(asking: Asking) -> str:
    if asking.closed_by_box:
        return f"Tick what you choose, then the last box, {ALL!r}."
    return "Tick one box of each question." if len(asking.questions) > 1 else "Tick one box."


def _inert_label(text: str) -> str:
    """Return the model's text as one line that is inert where it is posted (X2)."""
    line = " ".join(text.split())
    inert = inert_markdown(line).strip()
    return inert if "\n" not in inert else code(line)


# --- The tracking issue of a scheduled task (MT2) --------------------------------------------------------------------
# The text is made only from the journal and set by edits, so that it is always whole and never a flood of comments.

RUN_NOW: Final = "Run now"
OFFER_AGAIN: Final = "Offer again: "
ROWS: Final = 10
REJECTED_SHOWN: Final = 50
"""Rejected findings that are shown, the newest ones."""
REMOVED: Final = "This task is not in the configuration, so it does not run."
"""The warning above the issue of a task that somebody took out of the configuration, or gave another name."""
PROMPT_SHOWN: Final = 2_000
"""Characters of the prompt that are shown."""
_WARNS: Final = "> [!WARNING]\n> "
_WARNING: Final = re.compile(rf"\A{re.escape(_WARNS)}[^\n]*\n\n")
_TICKED: Final = re.compile(r"^- \[[xX]\] (.+?)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TrackingView:
    task: MaintenanceTask
    when: str
    """The schedule in words."""
    next_due: datetime
    """In the task's time zone."""
    occurrences: Sequence[TaskOccurrence] = ()
    """Newest first."""
    rejected: Sequence[TaskFinding] = ()
    """Oldest first."""


def tracking_title(task: str) -> str:
    """Return the title of a task's issue. It is for people: the issue is found by its marker."""
    return f"Scheduled task: {task}"


def tracking_body(view: TrackingView) -> str:
    parts = [_head(view), f"- [ ] {RUN_NOW}", "### Last occurrences", _occurrence_table(view.occurrences)]
    if view.rejected:
        boxes = "\n".join(f"- [ ] {offer_again_label(finding)}" for finding in view.rejected[-REJECTED_SHOWN:])
        parts += ["### Rejected", "I won't offer these again unless somebody who may ask ticks a box.", boxes]
    parts.append(
        "_I keep this text up to date. I post the plans of this task below, and they wait for approval as usual._"
    )
    return "\n\n".join(parts)


def offer_again_label(finding: TaskFinding) -> str:
    """Return the label of the box that brings a rejected finding back."""
    return f"{OFFER_AGAIN}{code(finding.title)} ({code(finding.id)})"


def ticked_labels(body: str) -> tuple[str, ...]:
    return tuple(match.group(1) for match in _TICKED.finditer(body.replace("\r\n", "\n")))


def with_warning(body: str, warning: str) -> str:
    """Return an issue's text below a one-line warning that says why the task does not run; "" means no warning."""
    text = _WARNING.sub("", body.replace("\r\n", "\n"))
    return f"{_WARNS}{warning}\n\n{text}" if warning else text


def mistake_warning(mistake: str) -> str:
    quoted = code(" ".join(mistake.split()))
    return f"No scheduled task runs, because the configuration has a mistake: {quoted}" if mistake else ""


def _head(view: TrackingView) -> str:
    task = view.task
    due = f"Next due: {view.next_due:%Y-%m-%d %H:%M} {task.timezone}."
    lines = [f"**{task.name}** runs {view.when}, {task.timezone}. {due}"]
    if task.recipe:
        lines.append(f"Recipe: {code(task.recipe)}")
    if task.prompt:
        prompt = task.prompt if len(task.prompt) <= PROMPT_SHOWN else f"{task.prompt[:PROMPT_SHOWN]}…"
        lines.append(fenced_block(disarm_text(prompt), "text"))
    if task.check:
        lines.append(f"A plan is only made if {code(task.check)} prints something.")
    if task.standing:
        paths = ", ".join(map(code, task.paths))
        lines.append(
            f"Once people have approved its first plan, the configuration approves plans that stay within {paths} "
            "(`approval: standing`)."
        )
    return "\n\n".join(lines)


def _occurrence_table(occurrences: Sequence[TaskOccurrence]) -> str:
    rows = [_occurrence_row(occurrence) for occurrence in occurrences[:ROWS]]
    return table("due (UTC) | outcome | cost", rows) if rows else "None yet."


def _occurrence_row(occurrence: TaskOccurrence) -> str:
    missed = f" ({occurrence.missed} earlier missed)" if occurrence.missed else ""
    outcome = cell(f"{occurrence.outcome or 'at work'}{missed}")
    return f"{occurrence.due:%Y-%m-%d %H:%M} | {outcome} | {f'${cost:.2f}' if (cost := occurrence.cost_usd) else ''}"
