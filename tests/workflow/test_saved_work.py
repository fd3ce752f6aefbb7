"""Which checkout a thread is worked on in, and what git knows there."""

from dataclasses import replace
from typing import Final

import pytest

from bot.core.moves import Approved, Planned, Proposed
from bot.core.names import CommitId
from bot.core.work import PullCommits
from bot.workflow.main_session import checkout
from tests.workflow.ground import LOCATION, Ground

PULL: Final = PullCommits(CommitId("c" * 40), CommitId("d" * 40))


@pytest.mark.req("K6", "K8", "PR1")
@pytest.mark.parametrize("branch", ("", "topic"), ids=("fork", "own branch"))
async def test_approved_work_knows_nothing_of_a_fork(branch: str) -> None:
    """Planning may name its commits; approved work gets another checkout, and the same one each time."""
    ground = Ground(location=replace(LOCATION, pull=PULL, branch=branch))
    plan = ground.plan()
    await ground.moved(ground.requested())
    await checkout(await ground.reading())
    await ground.moved(
        Planned(plan=plan, digest=plan.digest),
        Proposed(shown="IC_1", digest=plan.digest),
        Approved(by=("maya",), approved_at=ground.clock.now(), digest=plan.digest),
    )
    for _ in range(2):
        await checkout(await ground.reading())
    planned, *worked = ground.workspace.asked
    assert planned[1] == PULL
    assert worked == [planned if branch else (f"{planned[0]}-work", None)] * 2
