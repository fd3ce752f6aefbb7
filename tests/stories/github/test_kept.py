"""What a lost disk, an ending process, and a full machine cost: nothing is paid for or said twice (L9)."""

import asyncio
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from bot.compose.github import HostSetup
from bot.config.settings import ServiceSettings
from bot.core.errors import Transient
from bot.core.gate import Move, Stage
from bot.core.names import RepositoryId, SessionId, ThreadNumber
from bot.core.notes import Queued
from bot.core.reply_text import session_queued
from bot.core.thread.state import ThreadState
from bot.service.connections import key_of
from bot.service.inbox import Inbox
from bot.service.queue.file_store import FileStore
from bot.service.worker import Worker
from bot.store.thread_refs import Remote, ThreadRefs
from bot.store.transcripts import SpooledTranscripts
from bot.testing.github.faults import Fault
from bot.testing.model.reply import Fault as Failure
from tests.github.effects import BRANCH, PUSH
from tests.stories.github.ground import FIX, FIXED, HOME, PATIENCE, WISH, Model, Story, first, settings
from tests.stories.github.outcome import exactly_one
from tests.stories.github.service import Served
from tests.stories.ground import until

pytestmark = pytest.mark.long

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
    return record.costs.by_session[session]


@pytest.mark.req("L9", "E3", "PR2")
async def test_another_machine_repeats_the_step_that_was_under_way_and_no_other(story: Story, tmp_path: Path) -> None:
    await story.approved()
    before, lost = story.model.pause("w1"), story.model.pause("w2")
    checking = asyncio.ensure_future(story.host.check_thread(story.address()))
    try:
        await first(before.reached(), checking)
        story.clock.advance(SAVED_EVERY)
        before.go_on()
        await first(lost.reached(), checking)
        asked = story.model.worked
        del story.model.pauses["w2"]
        async with other_disk(story, tmp_path / "other") as other:
            await other.check_thread(story.address())
    finally:
        before.go_on()
        lost.go_on()
        await asyncio.gather(checking, return_exceptions=True)
    record = await story.rests(1)  # if the first one saw meanwhile that it had lost the thread, it may have published
    assert record.stage is Stage.IN_REVIEW
    assert story.model.worked == asked + 1
    (branch,) = story.branches()
    assert "total >= FREE_FROM" in story.file(branch, FIXED)
    exactly_one(story)
    assert journaled(record, record.request.work_session) == pytest.approx(
        spent(story, record.request.work_session, tmp_path), abs=1e-5
    )


@pytest.mark.req("E4", "PR5", "PR2")
async def test_what_another_machine_did_is_published_and_not_what_this_disk_holds(story: Story, tmp_path: Path) -> None:
    await story.approved()
    stops = story.model.pause("w1")
    checking = asyncio.ensure_future(story.host.check_thread(story.address()))
    await first(stops.reached(), checking)
    checking.cancel()
    stops.go_on()
    await asyncio.gather(checking, return_exceptions=True)
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
async def test_what_failed_work_cost_is_counted_once_on_another_machine(story: Story, tmp_path: Path) -> None:
    await story.approved()
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


@pytest.mark.req("E4")
async def test_a_job_is_gone_when_github_says_so_or_its_thread_stands_still(story: Story) -> None:
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
async def test_a_watch_that_fails_ends_no_work(story: Story) -> None:
    await story.approved()
    async with story.at_work(story.model.pause("w1")):
        story.github.faults.plan(f"POST /{HOME}.git/git-upload-pack", Fault("status", 502))
        await asyncio.to_thread(until, lambda: story.github.faults.remaining_strikes == 0, "the watch fails")
    assert story.stage is Stage.IN_REVIEW
    exactly_one(story)


@pytest.mark.req("E3", "PR2")
async def test_a_process_that_ends_leaves_its_session_at_the_next_step_which_nobody_pays_twice(story: Story) -> None:
    await story.approved()
    pause = story.model.pause("w0")
    checking = asyncio.ensure_future(story.host.check_thread(story.address()))
    await pause.reached()
    story.host.end_at_next_step()
    pause.go_on()
    with pytest.raises(Transient, match="another one continues"):
        await checking
    assert story.nothing_done()
    async with HostSetup(story.host.settings, clock=story.clock) as other:
        assert (await other.check_thread(story.address())).stage is Stage.IN_REVIEW
    steps = [request.step for request in story.model.works]
    assert steps.count(0) == 1, steps
    exactly_one(story)


WAITS = session_queued("@plangate")


async def checked(story: Story) -> ThreadState:
    """Check while every session slot is taken."""
    story.records[1] = await story.host.check_thread(replace(story.address(), told="issue"), lambda: False)
    return story.records[1]


@pytest.mark.req("PR2", "PR3", "E3")
async def test_a_thread_that_waits_for_a_session_says_so_once(story: Story) -> None:
    """Also when the process dies and another one finds the thread open; approved work waits in the same way."""
    issue = story.opens("will")
    await checked(story)
    asked = [logged.name for logged in story.github.requests]
    assert asked.index(f"POST /repos/{HOME}/issues/1/reactions") < asked.index(f"GET /{HOME}.git/info/refs")
    async with HostSetup(story.host.settings, clock=story.clock) as other:
        assert [address.number for address in await other.open_threads()] == [1]
        record = await other.check_thread(story.address(), lambda: False)
        assert (record.stage, story.signs(issue), story.said("progress")) == (Stage.PLANNING, ["eyes"], [WAITS])
        assert [entry.kind for entry in await story.entries()].count(Queued.kind) == 1
        assert story.model.heard == []
        assert (await other.check_thread(story.address())).stage is Stage.AWAITING_APPROVAL
    assert story.said("progress") == ["**Planned.**"]
    assert len(story.comments()) == 2
    story.reacts("maya", "+1")
    assert (await checked(story)).stage is Stage.EXECUTING
    assert story.said("progress") == ["**Planned.**", WAITS]
    assert story.nothing_done()
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    assert story.said("progress")[1].startswith("**Executed**")
    assert len(story.said("progress")) == 2


@pytest.mark.parametrize("what", ("closed", "rejected"))
async def test_closing_the_thread_or_a_no_ends_the_wait_for_a_session(story: Story, what: str) -> None:
    """No comment says so to the bot: the thread itself is checked."""
    if what == "rejected":
        await story.approved()
        await checked(story)
        story.reacts("ada", "-1")
    else:
        story.opens("will")
        await checked(story)
        story.person("will").close(HOME, 1)
    assert (await checked(story)).stage is Stage.STOPPED
    assert story.nothing_done()


@pytest.mark.req("PR3")
async def test_approvals_questions_and_stops_are_heard_while_the_one_session_goes_on(
    story: Story, model: Model, tmp_path: Path
) -> None:
    await story.planned()
    pause, before = model.pause("p0"), len(model.heard)
    store = FileStore(story.host, Inbox(tmp_path / "inbox"))
    work = Worker(story.host, store, ServiceSettings(sessions=1, looks=2))

    async def wake(*numbers: int) -> None:
        await store.wake([story.address(number) for number in numbers])

    async with work.running():
        await wake(story.opens("will").number)
        await pause.reached()
        await wake(story.opens("will").number, story.opens("will").number)
        await asyncio.to_thread(until, lambda: WAITS in story.said("progress", 3) + story.said("progress", 4), "a wait")
        story.reacts("maya", "+1")
        story.says("will", "@plangate status", 3)
        story.says("will", "@plangate stop", 4)
        await wake(1, 3, 4)
        await asyncio.to_thread(until, lambda: WAITS in story.said("progress", 1), "an approval")
        await asyncio.to_thread(until, lambda: story.said("tell", 3) and story.said("tell", 4), "the answers")
        assert len(model.heard) == before + 1
        pause.go_on()
        await asyncio.wait_for(work.wait_until_idle(), PATIENCE)
    assert "Stopped by will" in story.said("tell", 4)[0]
    assert [len(story.plans(number)) for number in (2, 3, 4)] == [1, 1, 0]
    assert len(story.pulls()) == 1


@pytest.mark.timeout(600)
@pytest.mark.req("PR3")
def test_twenty_mentions_are_heard_while_four_sessions_go_on(served: Served) -> None:
    pause = served.model.pause("p0")
    served.start()
    served.hook()
    for _ in range(4):
        served.opens("will")
    wait_until(lambda: len(served.model.heard) == 4, "four sessions")
    later = [served.world.person("will").open_issue(HOME, f"Wish {n}", f"@plangate {WISH}") for n in range(20)]
    wait_until(lambda: all(served.signs(issue) for issue in later), "a sign")
    wait_until(lambda: all(served.said("progress", issue.number) for issue in later), "a wait")
    served.says("will", "@plangate status", later[0].number)
    served.says("will", "@plangate stop", later[1].number)
    wait_until(lambda: all(served.said("tell", issue.number) for issue in later[:2]), "the answers")
    wait_until(lambda: served.said("progress", later[1].number) == ["**Stopped.**"], "the end of the wait")
    del later[1]
    assert all(served.said("progress", issue.number) == [WAITS] for issue in later)
    assert len(served.model.heard) == 4
    pause.go_on()


def wait_until(reached: Callable[[], bool], what: str) -> None:
    """Wait for a service with many threads, and check seldom: a check takes what it needs."""
    end = time.monotonic() + 4 * PATIENCE
    while not reached():
        assert time.monotonic() < end, f"this never happened: {what}"
        time.sleep(0.1)
