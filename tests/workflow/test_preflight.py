"""What could not be published is said before a plan is made, and again before work begins."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bot.core.checks import PublishingFacts
from bot.core.errors import Unwritable
from bot.core.gate import Stage
from bot.core.names import ThreadNumber
from bot.core.transcript import Json
from bot.ports import RepositoryRules
from bot.workflow import engine
from tests.workflow.ground import MAYA, WILL, Ground
from tests.workflow.memory_ports import MortalJournal

pytestmark = pytest.mark.req("CL1", "PR3")


class Repository(RepositoryRules):
    """The facts of a repository, and the branches that were asked about."""

    def __init__(self, facts: PublishingFacts) -> None:
        self.facts, self.asked = facts, list[str]()

    async def publishing_facts(self, branch: str) -> PublishingFacts:
        self.asked.append(branch)
        return self.facts


async def look(ground: Ground, repository: Repository) -> Stage:
    ground.clock.seconds += 1
    stage = (await engine.check_thread(replace(ground.process(), rules=repository))).stage
    ground.clock.seconds += 1
    return stage


async def test_obstacle_is_told_before_the_model_is_asked() -> None:
    ground, repository = Ground(), Repository(PublishingFacts(frozenset({"creation"})))
    ground.thread.say(WILL, "Do it.")
    assert await look(ground, repository) is Stage.FAILED
    assert await look(ground, repository) is Stage.FAILED
    assert ground.model.requests == []
    (told,) = ground.told
    assert told.startswith("I didn't start, because I couldn't publish the result:\n\n- The rules for branches")
    assert told.endswith("This cost nothing. Fix that, then use `@plangate retry`.")
    repository.facts = PublishingFacts()
    ground.thread.say(WILL, "@plangate retry")
    assert await look(ground, repository) is Stage.AWAITING_APPROVAL
    assert set(repository.asked) == {"plangate/7-fix-it"}


async def test_obstacle_that_came_after_the_plan_is_told_before_the_work() -> None:
    ground, repository = Ground(), Repository(PublishingFacts())
    ground.thread.say(WILL, "Do it.")
    assert await look(ground, repository) is Stage.AWAITING_APPROVAL
    ground.thread.decide(MAYA)
    repository.facts, planned = PublishingFacts(taken="plangate"), len(ground.model.requests)
    assert await look(ground, repository) is Stage.FAILED
    assert len(ground.model.requests) == planned
    repository.facts = PublishingFacts()
    ground.thread.say(WILL, "@plangate retry")
    assert await look(ground, repository) is Stage.IN_REVIEW


@pytest.mark.req("A4b")
async def test_branch_of_the_bots_own_pull_request_is_not_in_the_way() -> None:
    ground, repository = Ground(), Repository(PublishingFacts(taken="plangate/7-fix-it"))
    await ground.published()
    ground.journal.set_back(ground.location.thread, 0)
    ground.thread.say(WILL, "Do it again.")
    assert await look(ground, repository) is Stage.STALE
    assert "pull request #101 was already made from it" in ground.told[-1]


async def test_work_that_waits_for_a_slot_was_checked_before() -> None:
    ground, repository = Ground(slots=0), Repository(PublishingFacts())
    ground.thread.say(WILL, "Do it.")
    for _ in range(3):
        assert await look(ground, repository) is Stage.PLANNING
    assert len(repository.asked) == 1


async def test_journal_that_may_not_be_written_is_told_once_on_the_thread() -> None:
    class ReadOnly(MortalJournal):
        async def append(self, thread: ThreadNumber, expected: int, entries: Sequence[tuple[str, Json]]) -> int:  # noqa: ARG002 - the port's
            raise Unwritable("the server does not let this token write", fix="grant it contents: write")

    ground = Ground()
    ground.journal = ReadOnly(ground.clock, ground.life)
    ground.thread.say(WILL, "Do it.")
    for _ in range(2):
        with pytest.raises(Unwritable):
            await ground.look()
    (told,) = ground.told
    assert told.startswith("I can't start here: the server does not let this token write: grant it contents: write.")
