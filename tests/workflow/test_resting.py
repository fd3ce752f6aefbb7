"""What bounds a thread and ends a check: budgets, free sessions, and plans without force."""

from dataclasses import replace
from functools import partial

import pytest

from bot.core.comment import EXECUTION_OVER
from bot.core.errors import Conflict
from bot.core.gate import Stage
from bot.core.names import ThreadNumber
from bot.core.notes import Spent
from bot.workflow import engine
from tests.workflow.ground import MAYA, WILL, Ground, LocalGround, configured, plan_and_work, say
from tests.workflow.memory_ports import PRICE_USD


@pytest.mark.req("L5", "PR3")
async def test_the_budget_of_a_thread_is_told_once_and_can_be_raised() -> None:
    ground = Ground(configuration=configured(budget={"thread_usd": PRICE_USD}))
    assert (await ground.published()).stage is Stage.LIMIT
    (told,) = ground.told
    assert "this thread has spent $0.01 of its budget of $0.01 (budget.thread_usd)" in told
    ground.thread.say(MAYA, "@plangate budget 5")
    ground.thread.say(WILL, "@plangate retry")
    assert (await ground.check()).stage is Stage.IN_REVIEW


async def spent_elsewhere(ground: Ground, cost_usd: float) -> None:
    """Another thread of the repository spends money."""
    process = ground.process()
    other = replace(process, journal=replace(process.journal, thread=ThreadNumber(8)))
    await other.read()
    await other.note(Spent(session="plan-1", cost_usd=cost_usd))


@pytest.mark.req("L5")
async def test_nothing_is_asked_of_the_model_beyond_the_budget_of_a_day() -> None:
    ground = Ground(configuration=configured(budget={"repository_day_usd": 1}))
    await spent_elsewhere(ground, 1.0)
    assert (await ground.planned()).stage is Stage.LIMIT
    assert "this repository has spent $1.00 of its $1.00 for the day" in ground.told[0]
    assert ground.model.requests == []
    ground.clock.seconds += 24 * 3600
    ground.thread.say(WILL, "@plangate retry")
    assert (await ground.check()).stage is Stage.AWAITING_APPROVAL


@pytest.mark.req("L5")
async def test_a_session_ends_once_others_have_spent_the_day() -> None:
    ground = Ground(configuration=configured(budget={"repository_day_usd": 1}))
    await ground.approved()
    ground.model.meanwhile[2] = partial(spent_elsewhere, ground, 2.0)
    assert (await ground.check()).stage is Stage.LIMIT
    assert len(ground.model.requests) == 2


@pytest.mark.req("L5")
async def test_a_local_run_has_no_budget_of_a_day() -> None:
    ground = LocalGround(configuration=configured(budget={"repository_day_usd": PRICE_USD / 2}))
    assert (await ground.check()).stage is Stage.DONE


@pytest.mark.req("PR2", "PR3", "E3")
async def test_a_thread_that_waits_for_a_session_says_so_once() -> None:
    ground = Ground()
    ground.thread.say(WILL, "Do it.")
    for _ in range(3):
        ground.slots = 0
        assert (await ground.check()).stage is Stage.PLANNING
    assert list(ground.thread.shown_progress) == [1]
    assert "Waiting for a free session" in ground.thread.shown_progress[1]
    assert (await ground.kinds()).count("queued") == 1
    ground.thread.say(WILL, "@plangate status")
    await ground.check()
    assert ground.told == ["This thread is at: planning. ⏸ plan mode on."]
    ground.slots = 1
    assert (await ground.check()).stage is Stage.AWAITING_APPROVAL
    assert ground.thread.shown_progress == {1: "**Planned.**"}


@pytest.mark.req("PR3")
async def test_a_stop_does_not_wait_for_a_session() -> None:
    ground = Ground(slots=0)
    await ground.planned()
    ground.thread.say(WILL, "@plangate stop")
    assert (await ground.check()).stage is Stage.STOPPED
    assert ground.model.requests == []
    assert ground.thread.shown_progress == {1: "**Stopped.**"}


@pytest.mark.req("E3", "PR3")
async def test_progress_that_a_dead_process_left_is_ended_once_the_work_is_over() -> None:
    ground = Ground()
    await ground.planned()
    ground.thread.shown_progress[99] = "**Executing** · ▶ default"
    ground.thread.decide(MAYA)

    async def ask(_: Ground) -> None:
        ground.thread.say(WILL, "@plangate status")
        await engine.read_comments(ground.process(run="1"))
        assert ground.told == ["This thread is at: executing. ▶ may edit files."]
        assert "Executing" in ground.thread.shown_progress[99]

    ground.model.meanwhile[2] = partial(ask, ground)
    assert (await ground.check()).stage is Stage.IN_REVIEW
    assert ground.thread.shown_progress[99] == EXECUTION_OVER


@pytest.mark.req("PR3", "A5")
async def test_an_approval_of_a_plan_that_a_request_voided_is_answered_once() -> None:
    ground = Ground(lambda request: say("Why?") if "Wait" in str(request.messages) else plan_and_work(request))
    await ground.planned()
    ground.thread.say(MAYA, "Wait, what is it for?")
    assert (await ground.check()).stage is Stage.ANSWERED
    assert list(ground.thread.superseded) == ["plan-2"]
    ground.thread.decide(MAYA)
    for _ in range(2):
        await ground.check()
    assert len(ground.told) == 2
    assert ground.workspace.pushed == []


@pytest.mark.req("E4")
async def test_of_two_checks_at_a_time_one_goes_on_and_the_other_writes_nothing() -> None:
    ground = Ground()
    await ground.approved()
    ground.model.meanwhile[2] = ground.check
    with pytest.raises(Conflict):
        await engine.check_thread(ground.process(run="1"))
    assert len(ground.workspace.pushed) == len(ground.pulls.orders) == 1
    assert len(set(ground.thread.times)) == len(ground.thread.times)
