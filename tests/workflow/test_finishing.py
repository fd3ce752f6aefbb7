"""`finish`: approved work ends early with what is there, and is checked and published as usual."""

import asyncio
from contextlib import suppress
from functools import partial

from bot.agent.loop import ENDED_EARLY, LAST_REQUESTS
from bot.core.gate import Stage
from bot.core.transcript import Json
from bot.ports import ModelRequest
from bot.workflow.thread_run import WorkSettings
from tests.workflow.ground import FILE, MAYA, WILL, Ground, call, is_working, say, submit
from tests.workflow.memory_ports import PRICE_USD


async def _finish(ground: Ground) -> None:
    """Have somebody say it while the model answers, and wait until the session has heard it."""
    await ground.listen(WILL, "@plangate finish")
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


async def test_work_that_is_to_finish_is_published() -> None:
    """The session is told with the next results, and its summary is the pull request's."""
    ground = Ground(_obedient, WorkSettings(watch_seconds=1))
    await ground.planned()
    ground.thread.decide(MAYA)
    ground.model.meanwhile[3] = partial(_finish, ground)
    state = await ground.look()
    assert (state.stage, state.work.current.summary) == (Stage.IN_REVIEW, "Half of it is done.")
    assert len(_working(ground)) == 3
    assert "Finishing early, as will asked" in ground.told[0]


async def test_a_model_that_does_not_end_is_ended() -> None:
    """After a few requests the session ends; checks that fail do not go back to it."""
    ground = Ground(_endless, WorkSettings(watch_seconds=1, repairs=2))
    ground.workspace.commands["check"] = lambda _: 1
    await ground.planned()
    ground.thread.decide(MAYA)
    ground.model.meanwhile[3] = partial(_finish, ground)
    state = await ground.look()
    assert (state.stage, state.work.current.summary) == (Stage.IN_REVIEW, ENDED_EARLY)
    assert [check["exit_code"] for check in state.work.current.checks] == [1]
    assert len(_working(ground)) == 2 + LAST_REQUESTS


async def test_a_restart_grants_no_further_requests() -> None:
    """A process that takes over finishing work reads in the history what the session was told."""
    ground = Ground(_endless, WorkSettings(watch_seconds=1))
    await ground.planned()
    ground.thread.decide(MAYA)
    ground.model.meanwhile[3] = partial(_finish, ground)
    ground.model.meanwhile[5] = partial(_die, ground)
    with suppress(asyncio.CancelledError):
        await ground.look()
    state = await ground.look()
    assert state.stage is Stage.IN_REVIEW
    assert len(_working(ground)) == 2 + LAST_REQUESTS + 1


async def _die(_: Ground) -> None:
    raise asyncio.CancelledError


async def test_most_of_the_budget_is_told_on_the_thread() -> None:
    """From 80 % on, the progress comment says so; once the work is over, it offers no way to end it."""
    ground = Ground(settings=WorkSettings(watch_seconds=0, budget_usd=PRICE_USD * 2.2))
    await ground.published()
    *_, shown = ground.thread.shown_progress.values()
    assert shown.endswith("**80% of the budget is used.**")
