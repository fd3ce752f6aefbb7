"""The text of a tracking issue (MT2)."""

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from bot.core.maintenance import Task, TaskFinding
from bot.core.tracking_text import (
    PROMPT_SHOWN,
    ROWS,
    OccurrenceRow,
    TrackingView,
    ticked_labels,
    tracking_body,
    tracking_title,
)

TASK = Task("deps", "weekly", "Europe/Berlin", "Update the pins.\nOne by one.")
DUE = datetime(2026, 11, 30, tzinfo=ZoneInfo("Europe/Berlin"))


@pytest.mark.req("MT2")
def test_a_new_task() -> None:
    """The whole text before the first occurrence."""
    assert tracking_title("deps") == "Scheduled task: deps"
    assert (
        tracking_body(TrackingView(TASK, "on Mondays at 00:00", DUE))
        == """\
**deps** runs on Mondays at 00:00, Europe/Berlin. Next due: 2026-11-30 00:00 Europe/Berlin.

```text
Update the pins.
One by one.
```

- [ ] Run now

### Last occurrences

None yet.

_I keep this text up to date. A plan of this task is posted below and waits for approval, as ever._"""
    )


@pytest.mark.req("MT2")
def test_a_task_with_a_past() -> None:
    """The whole text with a recipe, a check, standing approval, occurrences, and rejected findings."""
    task = replace(TASK, recipe="dependencies", check="pip list", standing=True, paths=("*.txt",), prompt="x" * 3_000)
    rows = [
        OccurrenceRow(datetime(2026, 11, 23, tzinfo=UTC), "pull request #12", 0.314),
        OccurrenceRow(datetime(2026, 11, 16, tzinfo=UTC), "skipped: a plan | waits"),
    ]
    rejected = [TaskFinding("requests", "Update @requests to <3>")]
    assert (
        tracking_body(TrackingView(task, "on Mondays at 00:00", None, rows, rejected))
        == f"""\
**deps** runs on Mondays at 00:00, Europe/Berlin. It is no longer scheduled.

Recipe: `dependencies`

```text
{"x" * PROMPT_SHOWN}…
```

It only asks the model if `pip list` prints something.

Plans that stay inside `*.txt` are approved by the configuration (`approval: standing`).

- [ ] Run now

### Last occurrences

| due (UTC) | outcome | cost |
| ---|---|--- |
| 2026-11-23 00:00 | pull request #12 | $0.31 |
| 2026-11-16 00:00 | skipped: a plan \\| waits |  |

### Rejected

These are not offered again unless somebody who may ask ticks a box.

- [ ] Offer again: `Update @requests to <3>` (`requests`)

_I keep this text up to date. A plan of this task is posted below and waits for approval, as ever._"""
    )


def test_only_the_newest_rows_are_shown() -> None:
    """The text stays short however long a task runs."""
    rows = [OccurrenceRow(datetime(2026, 1, n, tzinfo=UTC), f"row {n}") for n in range(28, 0, -1)]
    body = tracking_body(TrackingView(TASK, "daily", DUE, rows))
    assert body.count("| row ") == ROWS
    assert "row 28" in body


def test_ticks() -> None:
    """Ticked boxes, with either newline."""
    assert ticked_labels("- [x] A\r\n- [ ] B\r\n- [X] C (`d`)  \r\n  - [x] no") == ("A", "C (`d`)")
