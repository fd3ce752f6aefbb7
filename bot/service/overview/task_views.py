"""Scheduled tasks as people see them, from the journals of their tracking issues."""

from collections.abc import Sequence
from datetime import datetime

from bot.core.names import ThreadAddress
from bot.service.overview.thread_history import JournalStep
from bot.service.overview.thread_views import thread_url, waits_for
from bot.service.overview.views import OccurrenceView, TaskView


def task_view(
    address: ThreadAddress, steps: Sequence[JournalStep], server_url: str, next_due: datetime | None = None
) -> TaskView | None:
    """Return the scheduled task that a thread tracks; None if it tracks none.

    `next_due` comes from the configuration: the journal does not hold the schedule.
    """
    state = steps[-1].after
    history = state.task
    if history is None:
        return None
    return TaskView(
        repository=f"{address.owner}/{address.name}",
        task=history.task,
        issue=address.number,
        url=thread_url(address, server_url),
        stage=state.stage,
        waiting_for=waits_for(state),
        next_due=next_due,
        occurrences=tuple(
            OccurrenceView(occurrence.due, occurrence.by, occurrence.outcome, occurrence.cost_usd)
            for occurrence in reversed(history.occurrences)
        ),
        rejected=tuple(rejection.finding.title for rejection in history.rejected),
        open_pulls=tuple(row.pull_number for row in history.in_review),
    )
