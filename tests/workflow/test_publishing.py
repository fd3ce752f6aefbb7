"""Publishing: what hinders it, what stops the push, and what is published."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest

from bot.core.checks import PublishingFacts
from bot.core.comment import contract
from bot.core.errors import Conflict, Unwritable
from bot.core.gate import Stage
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.paths import in_scope
from bot.core.plan import Contract, PlanDocument, from_json, to_json
from bot.core.transcript import Json
from bot.core.work import PullCommits
from bot.ports import RepositoryRules
from bot.workflow import engine
from bot.workflow.publishing import amended_plan
from tests.workflow.ground import (
    BASE,
    LOCATION,
    MAYA,
    WILL,
    Ground,
    LocalGround,
    is_working,
    outgrow_plan,
)
from tests.workflow.memory_ports import MortalJournal


class Repository(RepositoryRules):
    """The facts of a repository, and the branches that were asked about."""

    def __init__(self, facts: PublishingFacts) -> None:
        self.facts, self.asked = facts, list[str]()

    async def publishing_facts(self, branch: str) -> PublishingFacts:
        self.asked.append(branch)
        return self.facts


async def check(ground: Ground, repository: Repository) -> Stage:
    ground.clock.seconds += 1
    stage = (await engine.check_thread(replace(ground.process(), rules=repository))).stage
    ground.clock.seconds += 1
    return stage


@pytest.mark.req("CL1", "PR3")
async def test_obstacle_is_told_before_the_model_is_asked() -> None:
    ground, repository = Ground(), Repository(PublishingFacts(frozenset({"creation"})))
    ground.thread.say(WILL, "Do it.")
    assert await check(ground, repository) is Stage.FAILED
    assert await check(ground, repository) is Stage.FAILED
    assert ground.model.requests == []
    (told,) = ground.told
    assert told.startswith("I didn't start, because I couldn't publish the result:\n\n- The rules for branches")
    assert told.endswith("This cost nothing. Fix that, then use `@plangate retry`.")
    repository.facts = PublishingFacts()
    ground.thread.say(WILL, "@plangate retry")
    assert await check(ground, repository) is Stage.AWAITING_APPROVAL
    assert set(repository.asked) == {"plangate/7-fix-it"}


@pytest.mark.req("CL1", "PR3")
async def test_obstacle_that_came_after_the_plan_is_told_before_the_work() -> None:
    ground, repository = Ground(), Repository(PublishingFacts())
    ground.thread.say(WILL, "Do it.")
    assert await check(ground, repository) is Stage.AWAITING_APPROVAL
    ground.thread.decide(MAYA)
    repository.facts, planned = PublishingFacts(taken="plangate"), len(ground.model.requests)
    assert await check(ground, repository) is Stage.FAILED
    assert len(ground.model.requests) == planned
    repository.facts = PublishingFacts()
    ground.thread.say(WILL, "@plangate retry")
    assert await check(ground, repository) is Stage.IN_REVIEW


@pytest.mark.req("A4b", "CL1", "PR3")
async def test_branch_of_the_bots_own_pull_request_is_not_in_the_way() -> None:
    ground, repository = Ground(), Repository(PublishingFacts(taken="plangate/7-fix-it"))
    await ground.published()
    ground.journal.set_back(ground.location.thread, 0)
    ground.thread.say(WILL, "Do it again.")
    assert await check(ground, repository) is Stage.STALE
    assert "pull request #101 was already made from it" in ground.told[-1]


@pytest.mark.req("CL1", "PR3")
async def test_work_that_waits_for_a_slot_was_checked_before() -> None:
    ground, repository = Ground(slots=0), Repository(PublishingFacts())
    ground.thread.say(WILL, "Do it.")
    for _ in range(3):
        assert await check(ground, repository) is Stage.PLANNING
    assert len(repository.asked) == 1


@pytest.mark.req("CL1", "PR3")
async def test_journal_that_may_not_be_written_is_told_once_on_the_thread() -> None:
    class ReadOnly(MortalJournal):
        async def append(self, thread: ThreadNumber, expected: int, entries: Sequence[tuple[str, Json]]) -> int:  # noqa: ARG002 - the port's
            raise Unwritable("the server does not let this token write", fix="grant it contents: write")

    ground = Ground()
    ground.journal = ReadOnly(ground.clock, ground.life)
    ground.thread.say(WILL, "Do it.")
    for _ in range(2):
        with pytest.raises(Unwritable):
            await ground.check()
    (told,) = ground.told
    assert told.startswith("I can't start here: the server does not let this token write: grant it contents: write.")


@pytest.mark.req("E4", "PR1")
async def test_a_stop_while_the_work_is_copied_pushes_nothing() -> None:
    ground = Ground()
    await ground.approved()
    ground.workspace.while_copying = partial(ground.read_comment, WILL, "@plangate stop")
    assert (await ground.check()).stage is Stage.STOPPED
    assert ground.workspace.pushed == []


@pytest.mark.req("A4b", "PR1")
async def test_a_stop_that_only_the_thread_shows_pushes_nothing() -> None:
    ground = Ground()
    await ground.approved()
    ground.model.meanwhile[3] = partial(_say_stop, ground)
    assert (await ground.check()).stage is Stage.STOPPED
    assert ground.workspace.pushed == []


async def _say_stop(ground: Ground) -> None:
    ground.thread.say(WILL, "@plangate stop")


@pytest.mark.req("A4", "PR1")
async def test_rules_of_approval_that_changed_stop_the_push() -> None:
    ground = Ground()
    await ground.approved()
    with pytest.raises(Conflict, match="who may approve has changed"):
        await engine.check_thread(replace(ground.process(), rules=ChangedRules()))
    assert (await ground.state()).stage is Stage.PUBLISHING
    assert ground.workspace.pushed == []


class ChangedRules(RepositoryRules):
    async def have_rules_changed(self) -> bool:
        return True


@pytest.mark.req("E4")
async def test_a_branch_that_holds_something_else_is_never_overwritten() -> None:
    for ground in (Ground(), LocalGround()):
        ground.thread.say(WILL, "Do it.")
        ground.workspace.branches.update(dict.fromkeys(("plangate/7-fix-it", "plangate/run-do-it-00000007"), BASE))
        if isinstance(ground, LocalGround):
            with pytest.raises(Conflict):
                await ground.check()
        else:
            await ground.check()
            ground.thread.decide(MAYA)
            assert (await ground.check()).stage is Stage.FAILED
            assert "the branch holds something else" in ground.told[0]
        assert set(ground.workspace.branches.values()) == {BASE}


@pytest.mark.req("PR1")
async def test_work_that_outgrows_its_plan_becomes_an_amendment() -> None:
    ground = Ground(outgrow_plan)
    state = await ground.published()
    assert (state.stage, state.gate.plan) == (Stage.AWAITING_APPROVAL, 2)
    assert "`b.py`" in state.plan.current.markdown
    assert ground.workspace.pushed == []
    ground.thread.decide(MAYA)
    assert (await ground.check()).stage is Stage.IN_REVIEW
    assert len([request for request in ground.model.requests if is_working(request)]) == 3


@pytest.mark.req("PR2")
async def test_a_second_request_adds_to_the_open_pull_request() -> None:
    ground = Ground()
    await ground.published()
    await ground.published()
    assert (len(ground.pulls.orders), len(ground.workspace.pushed)) == (1, 2)
    assert "Planned and changed files" in ground.pulls.orders[0].body
    assert ground.workspace.pushed[1].expected is not None
    ground.pulls.closed.add(101)
    state = await ground.published()
    assert (state.gate.round, len(ground.pulls.orders)) == (2, 2)
    assert ground.pulls.orders[1].branch == "plangate/7-fix-it-r2"


@pytest.mark.req("E3")
async def test_work_is_not_pushed_on_top_of_a_branch_that_moved_on() -> None:
    ground = Ground()
    await ground.published()
    await ground.planned("And the docs.")
    ground.workspace.branches["plangate/7-fix-it"] = BASE
    ground.thread.decide(MAYA)
    assert (await ground.check()).stage is Stage.STALE
    assert len(ground.workspace.pushed) == 1


@pytest.mark.req("A4b", "PR2")
async def test_one_approval_makes_no_second_pull_request_after_the_journal_was_set_back() -> None:
    ground = Ground()
    await ground.planned()
    before = len(await ground.kinds())
    ground.thread.decide(MAYA)
    await ground.check()
    ground.journal.set_back(ground.location.thread, before)
    assert (await ground.check()).stage is Stage.STALE
    assert "pull request #101 was already made from it" in ground.told[-1]
    assert len(ground.pulls.orders) == 1


@pytest.mark.req("PR6")
async def test_who_asked_is_named_in_the_commit_where_people_have_accounts() -> None:
    for ground, named in ((Ground(), "will <5+will@users.noreply.github.com>"), (LocalGround(), "")):
        ground.thread.say(WILL, "Do it.")
        await ground.check()
        ground.thread.decide(MAYA)
        await ground.check()
        (order,) = ground.workspace.pushed
        assert ("Co-authored-by: " in order.message, named in order.message) == (bool(named), True)
        assert order.requester == ""


@pytest.mark.req("PR1", "PR5")
@pytest.mark.parametrize("scope", ((), ("src/**",), ("src/**", "!src/a.py")))
def test_an_amendment_covers_the_plan_and_the_work(scope: tuple[str, ...]) -> None:
    plan = PlanDocument(
        repository=RepositoryId(1),
        thread=ThreadNumber(1),
        plan=1,
        base=CommitId("a" * 40),
        markdown="do it",
        contract=Contract(scope=scope),
        tier="normal",
        budget_usd=1.0,
        expires=datetime(2026, 1, 2, tzinfo=UTC),
    )
    amended = amended_plan(plan, ("CLAUDE.md", "src/a.py"), "e" * 40)
    assert all(in_scope(path, amended.contract.scope) for path in ("src/a.py", "src/b.py", "CLAUDE.md"))
    assert not in_scope("AGENTS.md", amended.contract.scope)
    assert (amended.plan, amended.tier, amended.base) == (2, "high", plan.base)
    assert amended.markdown.startswith(plan.markdown)
    assert "`src/a.py`" in amended.markdown
    assert amended.digest != plan.digest


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
