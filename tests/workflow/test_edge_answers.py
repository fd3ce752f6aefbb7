"""What people do to a request or a plan in unusual ways, and the answer that they expect."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from bot.core.gate import Stage
from bot.core.turn import Turn
from bot.workflow import engine
from tests.workflow.ground import MAYA, WILL, Ground, plan_and_work


@pytest.mark.req("L4a", "PR3")
async def test_request_edited_while_it_is_planned_is_planned_as_edited() -> None:
    ground = Ground()
    asked = ground.thread.say(WILL, "Do it.")
    ground.model.meanwhile[1] = partial(_edit_and_listen, ground, asked)
    state = await ground.look()
    assert state.stage is Stage.AWAITING_APPROVAL
    assert "adds: The request was edited. It now reads:" in str(ground.model.requests[-1].messages)
    assert [entry.said.key == asked.key for entry in state.request.newest_entries] == [True, False]
    before = len(ground.model.requests)
    await ground.look()
    assert len(ground.model.requests) == before


@pytest.mark.req("PR3")
async def test_label_that_asks_is_heard_once_while_it_is_planned() -> None:
    ground = Ground()
    mark = replace(ground.thread.say(WILL, "Do it."), key="label-11", mark=True, version="")
    ground.thread.said = [mark]
    ground.model.meanwhile[1] = partial(_listen, ground)
    state = await ground.look()
    assert [entry.said.key for entry in state.request.newest_entries] == ["label-11"]


async def _listen(ground: Ground) -> None:
    await engine.read_comments(ground.process())


async def _edit_and_listen(ground: Ground, asked: Turn) -> None:
    ground.thread.edit(asked, "Do that.")
    await engine.read_comments(ground.process())


@pytest.mark.req("A5", "PR3")
async def test_retry_makes_a_new_plan_for_a_deleted_one() -> None:
    ground = Ground()
    await ground.planned()
    ground.thread.say(WILL, "@plangate retry")
    assert (await ground.look()).gate.plan == 1
    assert "nothing to retry" in ground.told[0]
    ground.thread.deleted.add((await ground.state()).plan.comment)
    ground.thread.say(WILL, "@plangate retry")
    state = await ground.look()
    assert (state.stage, state.gate.plan) == (Stage.AWAITING_APPROVAL, 2)
    ground.thread.decide(MAYA)
    assert (await ground.look()).stage is Stage.IN_REVIEW


@pytest.mark.req("PR2", "PR3")
async def test_request_on_a_closed_issue_can_be_approved() -> None:
    ground = Ground(plan_and_work)
    ground.thread.closed_at = ground.clock.now() - timedelta(minutes=1)
    assert (await ground.planned()).stage is Stage.AWAITING_APPROVAL
    ground.thread.decide(MAYA)
    assert (await ground.look()).stage is Stage.IN_REVIEW


@pytest.mark.req("A5")
async def test_closing_after_the_request_holds_the_plan() -> None:
    ground = Ground()
    await ground.planned()
    ground.thread.closed_at = ground.clock.now()
    ground.thread.decide(MAYA)
    assert (await ground.look()).stage is Stage.AWAITING_APPROVAL
