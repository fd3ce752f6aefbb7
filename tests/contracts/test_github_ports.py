"""The ports whose defaults mean "absent": what GitHub has, its adapters have."""

import pytest

from bot.compose.receipts import CheckedReceipts
from bot.github.checks import PullChecksGateway
from bot.github.dialogue import GitHubDialogue
from bot.github.pulls import GitHubPulls
from bot.github.tasks import TaskGateway
from bot.ports import CheckAccess, Dialogue, Pulls, Receipts, TaskAccess

OF_A_TERMINAL = {"has_watched_planning", "interrupt", "is_retry"}
"""The parts of a place where the person waits for the process."""


@pytest.mark.parametrize(
    ("port", "adapter"),
    (
        (Dialogue, GitHubDialogue),
        (Pulls, GitHubPulls),
        (CheckAccess, PullChecksGateway),
        (TaskAccess, TaskGateway),
        (Receipts, CheckedReceipts),
    ),
)
def test_nothing_of_a_port_is_absent_on_github(port: type, adapter: type) -> None:
    parts = {name for name in vars(port) if not name.startswith("_")}
    assert parts - {*vars(adapter)} == (OF_A_TERMINAL if port is Dialogue else set())
