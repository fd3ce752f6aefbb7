"""Tasks, occurrences, and findings of scheduled maintenance."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from bot.core.codec import decode, encode
from bot.core.configuration import MaintenanceTask
from bot.core.errors import Refused
from bot.core.maintenance import MOST_FINDINGS, Occurrence, TaskFinding, check_findings, is_decided

TASK = MaintenanceTask(name="deps", schedule="weekly", prompt="Update the pins.")
FINDING = TaskFinding("requests", "Update requests to 3.0", ("requirements.txt",))


def test_a_changed_task_has_another_digest() -> None:
    """Everything that the task says counts."""
    changes = ({"prompt": "x"}, {"paths": ["a"]}, {"approval": "standing"})
    changed = [TASK.model_copy(update=change) for change in changes]
    assert len({TASK.digest, *(task.digest for task in changed)}) == 4
    assert TASK.digest == "0d0e8bad21f30d6d5f30b84f51a4eca04ebb1d79c04446a3a35385f8f0497504"


@pytest.mark.req("MT1")
def test_an_occurrence_has_one_key() -> None:
    """In whatever zone its time is written."""
    due = datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    assert Occurrence("deps", due).key == "due/deps/2026-03-29T01:00:00Z"
    assert Occurrence("deps", due, asked=True).key == "run/deps/2026-03-29T01:00:00Z"
    assert Occurrence("deps", due.astimezone(timezone(timedelta(hours=2))), 3).key == Occurrence("deps", due).key


def test_a_finding_survives_json() -> None:
    """What is stored comes back."""
    assert decode(TaskFinding, encode(FINDING)) == FINDING


@pytest.mark.req("MT5")
@pytest.mark.parametrize(
    ("finding", "decided"),
    (
        (replace(FINDING, title="Bump the HTTP library"), True),
        (replace(FINDING, id="bump-requests"), True),
        (replace(FINDING, id="REQUESTS ", paths=()), True),
        (TaskFinding("x", "update  REQUESTS to 3.0!"), True),
        (TaskFinding("urllib3", "Update urllib3 to 4.0"), False),
    ),
)
def test_decided(finding: TaskFinding, decided: bool) -> None:
    """A reworded title keeps the id, a new id keeps the title; neither brings a finding back."""
    assert is_decided(finding, [FINDING]) is decided


def test_findings_that_cannot_be_told_apart() -> None:
    """They could not be decided on one by one."""
    check_findings([FINDING, TaskFinding("other", "Other")])
    with pytest.raises(Refused, match="two findings have the id 'Requests'"):
        check_findings([TaskFinding("Requests", "A"), TaskFinding("requests", "B")])
    with pytest.raises(Refused, match=f"lists {MOST_FINDINGS + 1} findings"):
        check_findings([TaskFinding(str(n), str(n)) for n in range(MOST_FINDINGS + 1)])
    for finding in (TaskFinding("...", "A"), TaskFinding("a" * 101, "A"), TaskFinding("a", "A" * 201)):
        with pytest.raises(Refused, match="a finding needs an id of at most 100 characters"):
            check_findings([finding])
