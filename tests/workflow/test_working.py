"""Planning and executing: what a session gets, what becomes of its work, and what ends it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

import pytest

from bot.agent.loop import ENDED_EARLY, LAST_REQUESTS
from bot.core.errors import Refused
from bot.core.gate import Stage
from bot.core.moves import Approved, Planned, Proposed
from bot.core.names import CommitId
from bot.core.transcript import Json
from bot.core.work import PullCommits
from bot.ports import ModelRequest, ToolOutput
from bot.workflow.main_session import checkout
from bot.workflow.thread_run import WorkConditions
from bot.workflow.verification import run_commands
from tests.agent.ground import HandClock
from tests.workflow.ground import (
    FILE,
    LOCATION,
    MAYA,
    WILL,
    Ground,
    LocalGround,
    call,
    configured,
    is_working,
    plan_and_work,
    plan_with_check,
    say,
    submit,
)
from tests.workflow.memory_ports import PRICE_USD

SECRET: Final = "ghp_" + "a1B2" * 9


async def test_an_answer_is_told_without_a_plan() -> None:
    ground = Ground(lambda _: say("It is 42."))
    assert (await ground.planned()).stage is Stage.ANSWERED
    assert ground.told == ["It is 42."]


@pytest.mark.req("X3", "PR3")
@pytest.mark.parametrize("part", ("scope", "commands"))
async def test_a_secret_in_a_contract_is_refused_and_not_shown(part: str) -> None:
    contract: dict[str, object] = {part: [SECRET]}
    ground = Ground(lambda _: submit("Do it.", **contract))
    assert (await ground.planned()).stage is Stage.FAILED
    assert "the plan names a secret" in ground.told[0]
    assert SECRET not in "".join((*ground.told, *ground.thread.texts("plan")))


@pytest.mark.req("PR4")
async def test_a_refusal_is_told_on_a_thread_and_raised_at_a_terminal() -> None:
    conditions = WorkConditions(watch_seconds=0, workflows=False)
    thread = Ground(_submit_workflow, conditions=conditions)
    terminal = LocalGround(_submit_workflow, conditions=conditions)
    assert (await thread.planned()).stage is Stage.FAILED
    with pytest.raises(Refused, match="which this bot can't push"):
        await terminal.check()
    assert await terminal.kinds() == ["requested"]


def _submit_workflow(_: ModelRequest) -> list[Json]:
    return submit(scope=[".github/workflows/ci.yml"])


async def test_a_closed_thread_is_not_planned() -> None:
    ground = Ground()
    await ground.moved(ground.requested())
    ground.clock.seconds += 1
    ground.thread.closed_at = ground.clock.now()
    assert (await ground.check()).stage is Stage.STOPPED
    assert ground.model.requests == []


@pytest.mark.req("PR1")
async def test_a_revision_builds_on_the_plan() -> None:
    ground = Ground(lambda request: submit("Do it." if "Shorter." not in str(request.messages) else "Do less."))
    await ground.planned()
    ground.thread.say(MAYA, "@plangate revise Shorter.")
    state = await ground.check()
    asked = "".join(str(block.get("text")) for block in ground.model.requests[-1].messages[0]["content"])
    assert "The last plan for this thread was:\n\nDo it." in asked
    assert state.plan.current.changed
    assert list(ground.thread.superseded) == ["plan-2"]


@pytest.mark.req("K1", "A4")
async def test_approved_work_knows_the_plan_and_nothing_of_its_planner() -> None:
    for ground, sessions in ((Ground(_thinking), 2), (LocalGround(_thinking), 1)):
        ground.thread.say(WILL, "Do it.")
        await ground.check()
        ground.thread.decide(MAYA)
        await ground.check()
        first, last = ground.model.requests[0].messages, ground.model.requests[-1].messages
        assert (first[0] != last[0]) is (sessions == 2)
        assert ("SECRET THOUGHT" in str(last)) is (sessions == 1)


def _thinking(request: ModelRequest) -> list[Json]:
    content = plan_and_work(request)
    return [{"type": "text", "text": "SECRET THOUGHT"}, *content] if not is_working(request) else content


@pytest.mark.req("E4", "L4a")
async def test_a_stop_while_the_model_works_publishes_nothing_and_tells_what_there_is() -> None:
    ground = Ground(conditions=WorkConditions(watch_seconds=1))
    await ground.approved()
    ground.model.meanwhile[3] = partial(_stop_and_wait, ground)
    state = await ground.check()
    assert state.stage is Stage.STOPPED
    assert ground.workspace.pushed == []
    (told,) = ground.told
    assert "Stopped by will" in told
    assert f"Changed so far, but not published: `{FILE}`" in told


async def _stop_and_wait(ground: Ground) -> None:
    await ground.read_comment(WILL, "@plangate stop")
    await asyncio.Event().wait()


@pytest.mark.req("K4", "G3a")
async def test_failing_checks_go_back_to_the_session_as_often_as_configured() -> None:
    ground = Ground(plan_with_check)
    ground.workspace.commands["check"] = lambda _: 1
    state = await ground.published()
    assert state.stage is Stage.IN_REVIEW
    assert [check["exit_code"] for check in state.work.current.checks] == [1]
    assert len(_working(ground)) == 3


@pytest.mark.req("K4", "L5")
async def test_repairs_end_with_the_time_of_their_session() -> None:
    def write_and_end(request: ModelRequest) -> list[Json]:
        if is_working(request) and request.messages[-1]["content"][0]["type"] == "tool_result":
            return say("Done.")
        return _endless(request)

    async def pass_time(seconds: float) -> None:
        ground.clock.seconds += seconds

    ground = Ground(write_and_end, configured(budget={"minutes": 1}))
    ground.workspace.commands["check"] = lambda _: 1
    ground.model.meanwhile |= {3: partial(pass_time, 45), 5: partial(pass_time, 30)}
    assert (await ground.published()).stage is Stage.IN_REVIEW
    assert len(_working(ground)) == 4


@pytest.mark.req("A4", "PR1")
async def test_approval_withdrawn_during_the_set_up_starts_no_session() -> None:
    def withdraw(_: dict[str, str]) -> int:
        ground.thread.opinions.clear()
        return 0

    ground = Ground(plan_with_check)
    ground.workspace.commands["check"] = withdraw
    await ground.approved()
    assert (await ground.check()).stage is Stage.AWAITING_APPROVAL
    assert not any(map(is_working, ground.model.requests))
    assert "the approval was withdrawn" in ground.told[0]


async def _finish(ground: Ground) -> None:
    """Have somebody say it while the model answers, and wait until the session has heard it."""
    await ground.read_comment(WILL, "@plangate finish")
    for _ in range(50):
        await asyncio.sleep(0)


def _endless(request: ModelRequest) -> list[Json]:
    """Return the next edit of a model that never ends its turn."""
    if not is_working(request):
        return submit(commands=["check"])
    return call("Write", file_path=FILE, content=f"a = {len(request.messages)}\n")


def _obedient(request: ModelRequest) -> list[Json]:
    """Return what a model does that ends its turn as soon as it is told."""
    told = "People asked you to finish" in str(request.messages)
    return say("Half of it is done.") if told else _endless(request)


def _working(ground: Ground) -> list[ModelRequest]:
    return [request for request in ground.model.requests if is_working(request)]


async def test_work_that_is_told_to_finish_is_published_with_its_summary() -> None:
    ground = Ground(_obedient, conditions=WorkConditions(watch_seconds=1))
    await ground.approved()
    ground.model.meanwhile[3] = partial(_finish, ground)
    state = await ground.check()
    assert (state.stage, state.work.current.summary) == (Stage.IN_REVIEW, "Half of it is done.")
    assert len(_working(ground)) == 3
    assert "Finishing early, as will asked" in ground.told[0]


async def test_a_model_that_does_not_finish_is_ended_without_repairs() -> None:
    ground = Ground(_endless, conditions=WorkConditions(watch_seconds=1))
    ground.workspace.commands["check"] = lambda _: 1
    await ground.approved()
    ground.model.meanwhile[3] = partial(_finish, ground)
    state = await ground.check()
    assert (state.stage, state.work.current.summary) == (Stage.IN_REVIEW, ENDED_EARLY)
    assert [check["exit_code"] for check in state.work.current.checks] == [1]
    assert len(_working(ground)) == 2 + LAST_REQUESTS


async def test_a_restart_grants_finishing_work_no_further_requests() -> None:
    ground = Ground(_endless, conditions=WorkConditions(watch_seconds=1))
    await ground.approved()
    ground.model.meanwhile[3] = partial(_finish, ground)
    ground.model.meanwhile[5] = partial(_die, ground)
    with suppress(asyncio.CancelledError):
        await ground.check()
    state = await ground.check()
    assert state.stage is Stage.IN_REVIEW
    assert len(_working(ground)) == 2 + LAST_REQUESTS + 1


async def _die(_: Ground) -> None:
    raise asyncio.CancelledError


async def test_most_of_the_budget_is_told_on_the_thread() -> None:
    ground = Ground(configuration=configured(budget={"session_usd": PRICE_USD * 2.2}))
    await ground.published()
    *_, shown = ground.thread.shown_progress.values()
    assert shown.endswith("**80% of the budget is used.**")


PULL: Final = PullCommits(CommitId("c" * 40), CommitId("d" * 40))


@pytest.mark.req("K6", "K8", "PR1")
@pytest.mark.parametrize("branch", ("", "topic"), ids=("fork", "own branch"))
async def test_approved_work_on_a_fork_gets_a_checkout_without_its_commits(branch: str) -> None:
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


class Host:
    """A toolhost on which `sleep N` takes N seconds of the clock, at most its timeout."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock

    async def call(
        self,
        operation: str,  # noqa: ARG002 - the port's
        arguments: Json,
        *,
        progress: Callable[[str], None] | None = None,  # noqa: ARG002 - the port's
        timeout: float = 660.0,
    ) -> ToolOutput:
        took, most = float(arguments["command"].partition(" ")[2]), arguments["timeout"] / 1000
        assert timeout > most
        self.clock.seconds += min(took, most)
        details = {"exit_code": 0 if took <= most else None, "seconds": min(took, most)}
        return ToolOutput("", details=details)

    async def close(self) -> None:
        """Do nothing."""


@pytest.mark.req("K4")
@pytest.mark.parametrize(
    ("commands", "seconds", "ended"),
    (
        (("sleep 2", "sleep 3"), 10.0, [("sleep 2", 0), ("sleep 3", 0)]),
        (("sleep 2", "sleep 9", "sleep 1"), 10.0, [("sleep 2", 0)]),
        (("sleep 700", "sleep 1"), 1000.0, [("sleep 700", None), ("sleep 1", 0)]),
        (("sleep 700", "sleep 1"), None, [("sleep 700", None), ("sleep 1", 0)]),
    ),
    ids=("enough", "cut short", "their own limit", "any time"),
)
async def test_only_what_its_own_limit_cut_short_is_known_of_a_command(
    commands: tuple[str, ...], seconds: float | None, ended: list[tuple[str, int | None]]
) -> None:
    ground = Ground()
    ran = await run_commands(ground.process(), Host(ground.clock), commands, seconds=seconds)
    assert [(each["command"], each["exit_code"]) for each in ran] == ended
