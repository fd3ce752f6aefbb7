"""Approving: what a plan waits for, what ends the wait, and what is said about it. Asking people goes the same way."""

from datetime import timedelta

import pytest

from bot.core.approval import Opinion
from bot.core.errors import Transient
from bot.core.gate import Stage
from bot.core.turn import Actor, Role
from tests.workflow.ground import (
    MAYA,
    WILL,
    Ground,
    ask_permission,
    is_working,
    plan_and_work,
    submit,
)
from tests.workflow.memory_ports import Death

ADA = Actor(3, "ada")


@pytest.mark.req("PR1", "A1")
async def test_a_waiting_plan_asks_and_writes_nothing_however_often_it_is_checked() -> None:
    ground = Ground()
    await ground.planned()
    ground.life.begin()
    for _ in range(3):
        assert (await ground.check()).stage is Stage.AWAITING_APPROVAL
    assert ground.life.writes == []
    assert len(ground.model.requests) == 1


@pytest.mark.req("PR1", "A2")
async def test_high_risk_needs_two_approvals_and_says_so_once() -> None:
    ground = Ground(lambda request: plan_and_work(request) if is_working(request) else submit(scope=["Makefile"]))
    await ground.approved()
    for _ in range(2):
        assert (await ground.check()).stage is Stage.AWAITING_APPROVAL
    assert len(ground.thread.texts("explanation")) == 1
    ground.thread.decide(ADA)
    assert "approved" not in await ground.kinds()
    await ground.check()
    assert (await ground.state()).approval.current.by == ("maya", "ada")


@pytest.mark.req("A5", "PR3")
async def test_an_approval_that_does_not_count_is_explained_once() -> None:
    ground = Ground()
    await ground.planned()
    ground.thread.decide(WILL, role=Role.WRITE)
    for _ in range(3):
        assert (await ground.check()).stage is Stage.AWAITING_APPROVAL
    (why,) = ground.thread.texts("explanation")
    assert why.startswith("`@will`: their role in this repository is too low to approve; ")
    assert ground.thread.times.count(("explanation", 1)) == 1


@pytest.mark.req("A1")
async def test_an_approval_counts_only_once_all_that_decides_is_known() -> None:
    ground = Ground()
    await ground.approved()
    ground.thread.complete = False
    with pytest.raises(Transient):
        await ground.check()
    assert (await ground.state()).stage is Stage.AWAITING_APPROVAL
    ground.thread.complete = True
    assert (await ground.check()).stage is Stage.IN_REVIEW


@pytest.mark.parametrize(
    ("happens", "stage", "said"),
    (
        (lambda ground: ground.thread.decide(MAYA, Opinion.REJECT), Stage.REJECTED, "The plan was rejected."),
        (lambda ground: setattr(ground.thread, "drifted", ("a.py",)), Stage.STALE, "The plan is no longer valid: "),
        (
            lambda ground: setattr(ground.clock, "seconds", timedelta(days=8).total_seconds()),
            Stage.EXPIRED,
            "The plan is no longer valid: ",
        ),
    ),
    ids=("rejected", "drifted", "expired"),
)
async def test_the_end_of_a_plan_is_told_once_and_is_final(happens: object, stage: Stage, said: str) -> None:
    ground = Ground()
    await ground.planned()
    assert callable(happens)
    happens(ground)
    assert (await ground.check()).stage is stage
    ground.thread.decide(MAYA)
    assert (await ground.check()).stage is stage
    assert [text[: len(said)] for text in ground.told] == [said]
    assert ground.workspace.pushed == []


@pytest.mark.req("A4")
async def test_approval_withdrawn_before_the_work_makes_the_plan_wait_again() -> None:
    ground = Ground()
    await ground.approved()
    ground.life.begin(1)  # the approval is journaled, and its process dies
    with pytest.raises(Death):
        await ground.check()
    ground.life.begin()
    ground.thread.opinions.clear()
    assert (await ground.check()).stage is Stage.AWAITING_APPROVAL
    assert "the approval was withdrawn" in ground.told[-1]
    assert ground.workspace.pushed == []


@pytest.mark.req("P7", "L8")
async def test_only_approvers_permit_a_call_of_approved_work() -> None:
    ground = Ground(ask_permission)
    await ground.published()
    assert (await ground.state()).stage is Stage.ASKED
    ground.thread.answer(WILL, "allow", role=Role.WRITE)
    assert (await ground.check()).stage is Stage.ASKED
    ground.clock.seconds += 1
    ground.thread.answer(MAYA, "allow")
    await ground.check()
    assert len(ground.workspace.pushed) == 1
    assert "answered" in ground.thread.superseded.values()


@pytest.mark.req("P7", "A4")
async def test_a_rejection_ends_the_wait_for_a_permission() -> None:
    ground = Ground(ask_permission)
    await ground.published()
    ground.thread.decide(MAYA, Opinion.REJECT)
    assert (await ground.check()).stage is Stage.STOPPED
    assert ground.told[0].startswith("Stopped by maya.")
    assert ground.workspace.pushed == []


@pytest.mark.req("L8")
async def test_a_question_expires_and_ends_with_its_thread() -> None:
    for seconds, closes, stage in ((8 * 86_400, False, Stage.EXPIRED), (1, True, Stage.STOPPED)):
        ground = Ground(ask_permission)
        await ground.published()
        ground.clock.seconds += seconds
        ground.thread.closed_at = ground.clock.now() if closes else None
        assert (await ground.check()).stage is stage
        assert len(ground.told) == 1
