"""A pull request that the work cannot be added to: the plan names the branch of its own, and nothing is closed."""

from dataclasses import replace

import pytest

from bot.core.comment import contract
from bot.core.names import CommitId
from bot.core.plan import from_json, to_json
from bot.core.work import PullCommits
from tests.workflow.ground import BASE, LOCATION, Ground

COMMITS = PullCommits(BASE, CommitId("f" * 40))


@pytest.mark.req("CL4")
async def test_plan_for_a_fork_says_where_the_work_goes() -> None:
    ground = Ground(location=replace(LOCATION, pull=COMMITS))
    plan = (await ground.published()).plan.current
    assert f"- Branch: `plangate/7-fix-it`, a new one in this repository, made from commit {BASE[:12]}. " in contract(
        plan
    )
    assert "such as those of a fork, are not part of it" in contract(plan)
    assert from_json(to_json(plan)).branch == plan.branch
    (order,) = ground.pulls.orders
    assert order.body.endswith("\n\nRefs #7\n")


@pytest.mark.req("CL4")
@pytest.mark.parametrize("location", (LOCATION, replace(LOCATION, pull=COMMITS, branch="topic")), ids=("issue", "own"))
async def test_other_plans_name_no_branch(location: object) -> None:
    ground = Ground(location=location)  # type: ignore[arg-type]
    plan = (await ground.planned()).plan.current
    assert "branch" not in to_json(plan)
    assert "Branch" not in contract(plan)
