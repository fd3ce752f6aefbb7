"""Planning, executing, and publishing: what becomes of a session's work, and what stops it."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Final

import pytest

from bot.core.errors import Conflict, Refused
from bot.core.gate import Stage
from bot.core.transcript import Json
from bot.ports import ModelRequest, RepositoryRules
from bot.workflow import engine
from bot.workflow.thread_run import WorkSettings
from tests.workflow.ground import (
    BASE,
    FILE,
    MAYA,
    WILL,
    Ground,
    LocalGround,
    call,
    is_working,
    plan_and_work,
    say,
    submit,
    was_called,
)

SECRET: Final = "ghp_" + "a1B2" * 9


async def test_an_answer_is_told() -> None:
    """Somebody who asks a question gets its answer, and no plan."""
    ground = Ground(lambda _: say("It is 42."))
    assert (await ground.planned()).stage is Stage.ANSWERED
    assert ground.told == ["It is 42."]


@pytest.mark.req("X3", "PR3")
@pytest.mark.parametrize("part", ("scope", "commands"))
async def test_a_contract_with_a_secret_is_refused(part: str) -> None:
    """What would be left of it means something else; the failure says where, and not which."""
    contract: dict[str, object] = {part: [SECRET]}
    ground = Ground(lambda _: submit("Do it.", **contract))
    assert (await ground.planned()).stage is Stage.FAILED
    assert "the plan names a secret" in ground.told[0]
    assert SECRET not in "".join((*ground.told, *ground.thread.texts("plan")))


@pytest.mark.req("PR4")
async def test_a_refusal_at_a_terminal_ends_the_program() -> None:
    """Whoever is at a terminal reads it at once, and nothing says that it failed; a thread is told."""
    settings = WorkSettings(watch_seconds=0, workflows=False)
    thread, terminal = Ground(_submit_workflow, settings), LocalGround(_submit_workflow, settings)
    assert (await thread.planned()).stage is Stage.FAILED
    with pytest.raises(Refused, match="which this bot can't push"):
        await terminal.look()
    assert await terminal.kinds() == ["requested"]


def _submit_workflow(_: ModelRequest) -> list[Json]:
    return submit(scope=[".github/workflows/ci.yml"])


async def test_a_closed_thread_is_not_planned() -> None:
    """Closing it after the request stops the planning before anything is spent."""
    ground = Ground()
    await ground.moved(ground.requested())
    ground.clock.seconds += 1
    ground.thread.closed_at = ground.clock.now()
    assert (await ground.look()).stage is Stage.STOPPED
    assert ground.model.requests == []


@pytest.mark.req("PR1")
async def test_a_revision_builds_on_the_plan() -> None:
    """Its planner reads the plan and what it was to be allowed, and people see what changed."""
    ground = Ground(lambda request: submit("Do it." if "Shorter." not in str(request.messages) else "Do less."))
    await ground.planned()
    ground.thread.say(MAYA, "@plangate revise Shorter.")
    state = await ground.look()
    asked = "".join(str(block.get("text")) for block in ground.model.requests[-1].messages[0]["content"])
    assert "The last plan for this thread was:\n\nDo it." in asked
    assert state.plan.current.changed
    assert list(ground.thread.superseded) == ["plan-2"]


@pytest.mark.req("K1", "A4")
async def test_approved_work_knows_the_plan_and_nothing_of_its_planner() -> None:
    """On a thread a new session begins from the approved document; at a terminal the one that planned goes on."""
    for ground, sessions in ((Ground(_thinking), 2), (LocalGround(_thinking), 1)):
        ground.thread.say(WILL, "Do it.")
        await ground.look()
        ground.thread.decide(MAYA)
        await ground.look()
        first, last = ground.model.requests[0].messages, ground.model.requests[-1].messages
        assert (first[0] != last[0]) is (sessions == 2)
        assert ("SECRET THOUGHT" in str(last)) is (sessions == 1)


def _thinking(request: ModelRequest) -> list[Json]:
    content = plan_and_work(request)
    return [{"type": "text", "text": "SECRET THOUGHT"}, *content] if not is_working(request) else content


@pytest.mark.req("E4", "L4a")
async def test_a_stop_while_the_model_works() -> None:
    """The session ends, nothing is published, and people hear what there was and what it cost."""
    ground = Ground(settings=WorkSettings(watch_seconds=1))
    await ground.planned()
    ground.thread.decide(MAYA)
    ground.model.meanwhile[3] = partial(_stop_and_wait, ground)
    state = await ground.look()
    assert state.stage is Stage.STOPPED
    assert ground.workspace.pushed == []
    (told,) = ground.told
    assert "Stopped by will" in told
    assert f"Changed so far, but not published: `{FILE}`" in told


async def _stop_and_wait(ground: Ground) -> None:
    await ground.listen(WILL, "@plangate stop")
    await asyncio.Event().wait()


@pytest.mark.req("E4", "PR1")
async def test_a_stop_while_the_work_is_copied() -> None:
    """Nothing is pushed after it, also where the branch is the bot's own and nobody else writes there."""
    ground = Ground()
    await ground.planned()
    ground.thread.decide(MAYA)
    ground.workspace.while_copying = partial(ground.listen, WILL, "@plangate stop")
    assert (await ground.look()).stage is Stage.STOPPED
    assert ground.workspace.pushed == []


@pytest.mark.req("A4b", "PR1")
async def test_a_stop_that_the_journal_does_not_know() -> None:
    """Whoever took its entry back with the ref, or kept its delivery away, gains nothing: it is on the thread."""
    ground = Ground()
    await ground.planned()
    ground.thread.decide(MAYA)
    ground.model.meanwhile[3] = partial(_say_stop, ground)
    assert (await ground.look()).stage is Stage.STOPPED
    assert ground.workspace.pushed == []


async def _say_stop(ground: Ground) -> None:
    ground.thread.say(WILL, "@plangate stop")


@pytest.mark.req("A4", "PR1")
async def test_rules_that_changed_while_the_work_ran() -> None:
    """The file is read again right before the push; another look, by the rules of now, decides."""
    ground = Ground()
    await ground.planned()
    ground.thread.decide(MAYA)
    with pytest.raises(Conflict, match="who may approve has changed"):
        await engine.check_thread(replace(ground.process(), rules=ChangedRules()))
    assert (await ground.state()).stage is Stage.PUBLISHING
    assert ground.workspace.pushed == []


class ChangedRules(RepositoryRules):
    async def have_rules_changed(self) -> bool:
        return True


@pytest.mark.req("E4")
async def test_a_branch_that_holds_something_else() -> None:
    """It is never overwritten. On a thread the work failed; at a terminal the error is raised."""
    for ground in (Ground(), LocalGround()):
        ground.thread.say(WILL, "Do it.")
        ground.workspace.branches.update(dict.fromkeys(("plangate/7-fix-it", "plangate/run-do-it-00000007"), BASE))
        if isinstance(ground, LocalGround):
            with pytest.raises(Conflict):
                await ground.look()
        else:
            await ground.look()
            ground.thread.decide(MAYA)
            assert (await ground.look()).stage is Stage.FAILED
            assert "the branch holds something else" in ground.told[0]
        assert set(ground.workspace.branches.values()) == {BASE}


@pytest.mark.req("K4", "G3a")
async def test_checks_that_fail_go_back_to_the_session() -> None:
    """Once each; then the work stands as it is, and the journal has what they showed."""
    ground = Ground(_failing, WorkSettings(watch_seconds=0, repairs=2))
    ground.workspace.commands["check"] = lambda _: 1
    state = await ground.published()
    assert state.stage is Stage.IN_REVIEW
    assert [check["exit_code"] for check in state.work.current.checks] == [1]
    assert len([request for request in ground.model.requests if is_working(request)]) == 3


def _failing(request: ModelRequest) -> list[Json]:
    return plan_and_work(request) if is_working(request) else submit(commands=["check"])


@pytest.mark.req("PR1")
async def test_work_that_outgrows_its_plan_becomes_an_amendment() -> None:
    """It names what the work changed beyond it, waits for its own approval, and publishes that very tree."""
    ground = Ground(_outgrowing)
    state = await ground.published()
    assert (state.stage, state.gate.plan) == (Stage.AWAITING_APPROVAL, 2)
    assert "`b.py`" in state.plan.current.markdown
    assert ground.workspace.pushed == []
    ground.thread.decide(MAYA)
    assert (await ground.look()).stage is Stage.IN_REVIEW
    assert len([request for request in ground.model.requests if is_working(request)]) == 3


def _outgrowing(request: ModelRequest) -> list[Json]:
    if is_working(request) and not was_called(request, "Write"):
        return call("Write", file_path="b.py", content="b = 1\n")
    return plan_and_work(request)


@pytest.mark.req("PR2")
async def test_a_second_request_adds_to_the_open_pull_request() -> None:
    """It begins on its head and pushes to its branch; once that is merged, a new round gets a new branch."""
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
async def test_a_pull_request_that_moved_on() -> None:
    """Work on a branch to which somebody pushed since its plan is not pushed on top."""
    ground = Ground()
    await ground.published()
    await ground.planned("And the docs.")
    ground.workspace.branches["plangate/7-fix-it"] = BASE
    ground.thread.decide(MAYA)
    assert (await ground.look()).stage is Stage.STALE
    assert len(ground.workspace.pushed) == 1


@pytest.mark.req("A4b", "PR2")
async def test_a_pull_request_that_the_journal_does_not_know() -> None:
    """A journal that was set back does not make the work of one approval twice; the next plan gets a branch apart."""
    ground = Ground()
    await ground.planned()
    before = len(await ground.kinds())
    ground.thread.decide(MAYA)
    await ground.look()
    ground.journal.set_back(ground.location.thread, before)
    assert (await ground.look()).stage is Stage.STALE
    assert "pull request #101 was already made from it" in ground.told[-1]
    assert len(ground.pulls.orders) == 1


@pytest.mark.req("A4b", "PR3")
async def test_a_journal_that_was_set_back() -> None:
    """It is said once and nothing is done, until an approver says `retry`; then everything is planned again."""
    ground = Ground()
    await ground.published()
    ground.journal.set_back(ground.location.thread, 4)
    ground.thread.newest = 77
    for _ in range(2):
        with pytest.raises(Refused, match="reset or deleted"):
            await ground.look()
    (warning,) = ground.thread.texts("warning")
    assert "is older than my comments here" in warning
    ground.clock.seconds += 1
    ground.thread.say(MAYA, "@plangate retry")
    state = await ground.look()
    assert (state.stage, state.work.branch_suffix) == (Stage.AWAITING_APPROVAL, 77)
    assert len(ground.workspace.pushed) == 1


@pytest.mark.req("PR6")
async def test_co_author() -> None:
    """Whoever asked is named in the commit, and not the bot where a task did; at a terminal nobody has an account."""
    for ground, named in ((Ground(), "will <5+will@users.noreply.github.com>"), (LocalGround(), "")):
        ground.thread.say(WILL, "Do it.")
        await ground.look()
        ground.thread.decide(MAYA)
        await ground.look()
        (order,) = ground.workspace.pushed
        assert ("Co-authored-by: " in order.message, named in order.message) == (bool(named), True)
        assert order.requester == ""


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
