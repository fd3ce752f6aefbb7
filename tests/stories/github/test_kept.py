"""What a lost disk costs: work goes on from the last minute, and nothing is paid for or counted twice (L9)."""

import asyncio
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from bot.compose.github import HostSetup
from bot.core.errors import Transient
from bot.core.gate import Move, Stage
from bot.core.names import RepositoryId, SessionId, ThreadNumber
from bot.core.thread.state import ThreadState
from bot.service.connections import key_of
from bot.store.thread_refs import Remote, ThreadRefs
from bot.store.transcripts import SpooledTranscripts
from bot.testing.github.faults import Fault
from bot.testing.model.reply import Fault as Failure
from tests.github.effects import BRANCH, PUSH
from tests.stories.github.ground import FIX, FIXED, HOME, Story, first, settings
from tests.stories.github.moments import exactly_one
from tests.stories.ground import until

SAVED_EVERY: Final = 61.0
_held_up: list[str] = []
"""Who had the event loop wait for the journal's git, which may be a minute away."""


def _hear(event: str, _: object) -> None:
    """Note a git of the journal that is started while an event loop waits for it."""
    if event != "subprocess.Popen" or asyncio._get_running_loop() is None:
        return
    stack = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_stack()]
    if any("/bot/store/plumbing.py" in place for place in stack):
        _held_up.extend(place for place in stack if re.search("/bot/(agent|compose|workflow|workspace)/", place))


@pytest.fixture(autouse=True, scope="module")
def _nobody_waits() -> Iterator[None]:
    """Whatever is kept and found again in these stories, the loop goes on meanwhile: deliveries wait for no git."""
    sys.addaudithook(_hear)
    yield
    assert _held_up == []


def other_disk(story: Story, folder: Path) -> HostSetup:
    """Return the bot as another machine has it, that knows what is on GitHub and nothing else."""
    return HostSetup(settings(story.github, story.api.base_url, folder), clock=story.clock)


def spent(story: Story, session: SessionId, folder: Path) -> float:
    """Sum what the answers in a session's transcript have cost, as the thread's ref tells it."""
    remote = Remote(f"{story.github.server_url}/{HOME}.git")
    key = key_of(settings(story.github, story.api.base_url, folder))
    number = RepositoryId(story.world.repository(HOME).id)
    refs = ThreadRefs(remote, folder / "reading.git", story.clock)
    lines = SpooledTranscripts(refs, number, ThreadNumber(1), key=key, spool=folder / "reading").load(session)
    return sum(float(line.body.get("cost_usd") or 0.0) for line in lines)


def journaled(record: ThreadState, session: SessionId) -> float:
    """Sum what the journal says that a session has cost."""
    return record.costs.by_session[session]


@pytest.mark.long
@pytest.mark.req("L9", "E3", "PR2")
async def test_goes_on_from_the_last_minute(story: Story, tmp_path: Path) -> None:
    """A machine is lost in the middle of the work: another one repeats the step that was under way, and no other."""
    await story.planned()
    story.reacts("maya", "+1")
    before, lost = story.model.pause("w1"), story.model.pause("w2")
    looking = asyncio.ensure_future(story.host.check_thread(story.address()))
    try:
        await first(before.reached(), looking)
        story.clock.advance(SAVED_EVERY)
        before.go_on()
        await first(lost.reached(), looking)
        asked = story.model.worked
        del story.model.pauses["w2"]
        async with other_disk(story, tmp_path / "other") as other:
            await other.check_thread(story.address())
    finally:
        before.go_on()
        lost.go_on()
        await asyncio.gather(looking, return_exceptions=True)
    record = await story.rests(1)  # if the first one saw meanwhile that it had lost the thread, it may have published
    assert record.stage is Stage.IN_REVIEW
    assert story.model.worked == asked + 1
    (branch,) = story.branches()
    assert "total >= FREE_FROM" in story.file(branch, FIXED)
    exactly_one(story)
    assert journaled(record, record.request.work_session) == pytest.approx(
        spent(story, record.request.work_session, tmp_path), abs=1e-5
    )


@pytest.mark.long
@pytest.mark.req("E4", "PR5", "PR2")
async def test_what_one_disk_has_left_is_not_what_another_did(story: Story, tmp_path: Path) -> None:
    """Work stops on one machine and is done on another, which dies before the push: what was done is published."""
    await story.planned()
    story.reacts("maya", "+1")
    stops = story.model.pause("w1")
    looking = asyncio.ensure_future(story.host.check_thread(story.address()))
    await first(stops.reached(), looking)
    looking.cancel()
    stops.go_on()
    await asyncio.gather(looking, return_exceptions=True)
    story.github.faults.plan(PUSH, Fault("status", 502), times=99, containing=BRANCH)
    async with other_disk(story, tmp_path / "other") as other:
        with pytest.raises(Transient):
            await other.check_thread(story.address())
    story.github.faults.clear()
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    (branch,) = story.branches()
    assert "total >= FREE_FROM" in story.file(branch, FIXED)
    exactly_one(story)


@pytest.mark.req("L5", "L9")
@pytest.mark.long
async def test_nothing_is_counted_twice(story: Story, tmp_path: Path) -> None:
    """Work fails, its cost is journaled, and another machine goes on: the pull request tells what all of it cost."""
    await story.planned()
    story.reacts("maya", "+1")
    story.model.work = (*FIX[:2], Failure.status(400))
    assert (await story.rests(1)).stage is Stage.FAILED
    story.model.work = FIX
    story.says("will", "@plangate retry")
    async with other_disk(story, tmp_path / "other") as other:
        record = await other.check_thread(story.address())
    assert record.stage is Stage.IN_REVIEW
    (failed,) = (entry for entry in await story.entries() if entry.kind == Move.FAILED)
    assert failed.body["cost_usd"] > 0
    work, planning = (
        spent(story, each, tmp_path) for each in (record.request.work_session, record.request.planning_session)
    )
    assert journaled(record, record.request.work_session) == pytest.approx(work, abs=1e-5)
    assert record.costs.total_usd == pytest.approx(work + planning, abs=1e-5)
    (pull,) = story.pulls()
    assert f"${record.costs.total_usd:.2f}" in pull.text.body


@pytest.mark.long
@pytest.mark.req("E4")
async def test_who_is_gone(story: Story) -> None:
    """A job is gone when GitHub says that its run has ended, or when the thread stands still; else it may be at it."""
    await story.planned()
    at = story.address()
    run = story.world.start_run(HOME, "issue_comment").id
    assert not await story.host.is_abandoned(at, str(run))
    assert not await story.host.is_abandoned(at, "")
    story.world.end_run(run, "failure")
    assert await story.host.is_abandoned(at, str(run))
    assert not await story.host.is_abandoned(at, "")
    story.clock.advance(16 * 60)
    assert await story.host.is_abandoned(at, "")


@pytest.mark.req("E2", "L6")
@pytest.mark.long
async def test_a_watch_that_fails_ends_no_work(story: Story) -> None:
    """While the work goes on, whether the thread has moved cannot be read: the work goes on all the same."""
    await story.planned()
    story.reacts("maya", "+1")
    async with story.at_work(story.model.pause("w1")):
        story.github.faults.plan(f"POST /{HOME}.git/git-upload-pack", Fault("status", 502))
        await asyncio.to_thread(until, lambda: story.github.faults.remaining_strikes == 0, "the watch fails")
    assert story.stage is Stage.IN_REVIEW
    exactly_one(story)
