"""The tracking issue of a scheduled task (MT2): what it shows, and its boxes. Pure.

The text is made only from the journal and set by edits, so that it is always whole and never a flood of comments.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bot.core.maintenance import ScheduledTask, TaskFinding
from bot.core.markdown.elements import cell, code, fenced_block, table
from bot.core.plan import disarm_text
from bot.core.thread.task import TaskOccurrence

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
    """All that the issue shows."""

    task: ScheduledTask
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
    """Render the issue's text, without its marker."""
    parts = [_head(view), f"- [ ] {RUN_NOW}", "### Last occurrences", _occurrence_table(view.occurrences)]
    if view.rejected:
        boxes = "\n".join(f"- [ ] {offer_again_label(finding)}" for finding in view.rejected[-REJECTED_SHOWN:])
        parts += ["### Rejected", "I won't offer these again unless somebody who may ask ticks a box.", boxes]
    parts.append(
        "_I keep this text up to date. I post the plans of this task below, and they wait for approval as usual._"
    )
    return "\n\n".join(parts)


def offer_again_label(finding: TaskFinding) -> str:
    """Return the text beside the box that brings a rejected finding back."""
    return f"{OFFER_AGAIN}{code(finding.title)} ({code(finding.id)})"


def ticked_labels(body: str) -> tuple[str, ...]:
    """Return the texts beside all boxes that are ticked."""
    return tuple(match.group(1) for match in _TICKED.finditer(body.replace("\r\n", "\n")))


def with_warning(body: str, warning: str) -> str:
    """Return an issue's text below a one-line warning that says why the task does not run; "" means no warning."""
    text = _WARNING.sub("", body.replace("\r\n", "\n"))
    return f"{_WARNS}{warning}\n\n{text}" if warning else text


def mistake_warning(mistake: str) -> str:
    """Return the warning that the configuration has a mistake; "" for none."""
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
