"""What two looks at one thread do once, and what a look asks again before a session begins."""

import pytest

from bot.core.gate import Stage
from bot.ports import ModelRequest
from bot.workflow.intake import journal_turns
from bot.workflow.journal import read_state
from bot.workflow.outbox import post_replies
from tests.workflow.ground import MAYA, WILL, Ground, is_working, plan_and_work, submit


@pytest.mark.req("E4")
async def test_two_looks_answer_one_command_once() -> None:
    ground = Ground()
    ground.thread.say(WILL, "@plangate status")
    first, second = ground.process(), ground.process()
    before = [await read_state(first), await read_state(second)]
    mine, theirs = await journal_turns(first, before[0]), await journal_turns(second, before[1])
    await post_replies(second, theirs)
    assert ground.told == []
    await post_replies(first, mine)
    assert len(ground.told) == 1


@pytest.mark.req("A4", "PR1")
async def test_approval_withdrawn_during_the_set_up_starts_no_session() -> None:
    def withdraw(_: dict[str, str]) -> int:
        ground.thread.opinions.clear()
        return 0

    def script(request: ModelRequest) -> list[dict[str, object]]:
        return plan_and_work(request) if is_working(request) else submit(commands=["check"])

    ground = Ground(script)
    ground.workspace.commands["check"] = withdraw
    await ground.planned()
    ground.thread.decide(MAYA)
    assert (await ground.look()).stage is Stage.AWAITING_APPROVAL
    assert not any(map(is_working, ground.model.requests))
    assert "the approval was withdrawn" in ground.told[0]
