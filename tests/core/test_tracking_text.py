"""The text of a tracking issue (MT2)."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from bot.core.configuration import MaintenanceTask
from bot.core.reply_text import (
    PROMPT_SHOWN,
    REMOVED,
    ROWS,
    TrackingView,
    mistake_warning,
    ticked_labels,
    tracking_body,
    tracking_title,
    with_warning,
)
from bot.core.thread.task import TaskOccurrence

TASK = MaintenanceTask(name="deps", schedule="weekly", timezone="Europe/Berlin", prompt="Update the pins.\nOne by one.")
DUE = datetime(2026, 11, 30, tzinfo=ZoneInfo("Europe/Berlin"))


def test_a_long_prompt() -> None:
    """As much of the prompt as fits is shown."""
    body = tracking_body(TrackingView(TASK.model_copy(update={"prompt": "x" * 3_000}), "daily", DUE))
    assert f"\n{'x' * PROMPT_SHOWN}…\n" in body
    assert tracking_title("deps") == "Scheduled task: deps"


def test_a_task_without_a_prompt_names_its_recipe_and_has_no_empty_block() -> None:
    body = tracking_body(TrackingView(TASK.model_copy(update={"prompt": "", "recipe": "docs-drift"}), "daily", DUE))
    assert "Recipe: `docs-drift`\n\n- [ ] Run now" in body


def test_only_the_newest_rows_are_shown() -> None:
    rows = [TaskOccurrence(str(n), datetime(2026, 1, n, tzinfo=UTC), outcome=f"row {n}") for n in range(28, 0, -1)]
    body = tracking_body(TrackingView(TASK, "daily", DUE, rows))
    assert body.count("| row ") == ROWS
    assert "row 28" in body


def test_ticked_boxes_with_either_newline() -> None:
    assert ticked_labels("- [x] A\r\n- [ ] B\r\n- [X] C (`d`)  \r\n  - [x] no") == ("A", "C (`d`)")


@pytest.mark.req("MT2")
def test_a_mistake_of_the_configuration_stands_above_the_text() -> None:
    """Once, however often it is set, as one line of code, and it leaves no trace; the ticks below it stay."""
    body = "**a** runs daily.\n\n- [x] Run now"
    warned = with_warning(body, mistake_warning("unknown key\n'`x`' (.github/plangate.yml:3:5)"))
    assert warned == (
        "> [!WARNING]\n> No scheduled task runs, because the configuration has a mistake: "
        f"`` unknown key '`x`' (.github/plangate.yml:3:5) ``\n\n{body}"
    )
    assert with_warning(with_warning(warned, REMOVED), mistake_warning("")) == body
    assert ticked_labels(warned) == ("Run now",)
    assert with_warning(body, "") == body
