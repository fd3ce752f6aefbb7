"""Checks of scheduled tasks that ask GitHub: a mistake in one says what to write."""

from collections.abc import Mapping, Sequence

import pytest

from bot.core.errors import Refused
from bot.core.names import CommitId
from bot.github.task_checks import TaskChecks
from tests.github.conftest import Ground
from tests.github.reading import Reading


@pytest.mark.req("MT4")
@pytest.mark.parametrize(
    ("name", "options", "said"),
    (
        ("stale-isues", {}, "there is no check github:stale-isues: use one of "),
        ("stale-issues", {"months": ("2",)}, "has no option --months: its options are "),
        ("stale-issues", {"days": ("soon",)}, "--days of a check is a whole number, not 'soon'"),
    ),
)
async def test_a_check_with_a_mistake(
    ground: Ground, name: str, options: Mapping[str, Sequence[str]], said: str
) -> None:
    """Nothing is asked of GitHub for it."""
    reader = Reading(ground).reader
    checks = TaskChecks(ground.client, ground.address, reader.results, reader.attribution)
    before = len(ground.github.requests)
    with pytest.raises(Refused) as refused:
        await checks.run_check(name, options, CommitId("a" * 40))
    assert said in str(refused.value)
    assert len(ground.github.requests) == before
