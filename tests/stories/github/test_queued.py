"""A session that finds no free slot: the thread says so once, hears everything meanwhile, and goes on by itself."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bot.compose.github import HostSetup
from bot.config.settings import ServiceSettings
from bot.core.gate import Stage
from bot.core.notes import Queued
from bot.core.reply_text import session_queued
from bot.core.thread.state import ThreadState
from bot.service.inbox import Inbox
from bot.service.queue.file_store import FileStore
from bot.service.worker import Worker
from tests.stories.github.ground import HOME, PATIENCE, WISH, Model, Story
from tests.stories.github.service import Served
from tests.stories.ground import until

WAITS = session_queued("@plangate")


async def looked(story: Story) -> ThreadState:
    """Look while every session slot is taken."""
    story.records[1] = await story.host.check_thread(replace(story.address(), told="issue"), lambda: False)
    return story.records[1]


@pytest.mark.long
@pytest.mark.req("PR2", "PR3", "E3")
async def test_a_thread_that_waits_for_a_session_says_so_once(story: Story) -> None:
    """👀 before all else, and one comment, also when the process dies and another one finds the thread open; when the
    session begins, that comment says so. Approved work waits in the same way, and shows in that comment how far it is.
    """
    issue = story.opens("will")
    await looked(story)
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
    assert (await looked(story)).stage is Stage.EXECUTING
    assert story.said("progress") == ["**Planned.**", WAITS]
    assert story.nothing_done()
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    assert story.said("progress")[1].startswith("**Executed**")
    assert len(story.said("progress")) == 2


@pytest.mark.long
async def test_closing_the_thread_ends_the_wait(story: Story) -> None:
    """No comment says so to the bot: the thread itself is looked at."""
    story.opens("will")
    await looked(story)
    story.person("will").close(HOME, 1)
    assert (await looked(story)).stage is Stage.STOPPED
    assert story.model.heard == []


@pytest.mark.long
async def test_a_rejection_ends_the_wait_of_approved_work(story: Story) -> None:
    """As it stops work that runs."""
    await story.planned()
    story.reacts("maya", "+1")
    await looked(story)
    story.reacts("ada", "-1")
    assert (await looked(story)).stage is Stage.STOPPED
    assert story.nothing_done()


@pytest.mark.long
@pytest.mark.req("PR3")
async def test_each_waiting_thread_gets_its_session(story: Story, model: Model, tmp_path: Path) -> None:
    """While the one session goes on, an approval is taken in, a question answered, a stop carried out; afterwards each
    of the others gets its plan, and the approved one its pull request."""
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


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.req("PR3")
def test_twenty_mentions_are_heard_while_four_sessions_go_on(served: Served) -> None:
    """The service as it runs for real: 👀 and one comment for each of them, and their commands are carried out."""
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
    """Wait for a service with many threads, and look seldom: looking takes what it needs."""
    end = time.monotonic() + 4 * PATIENCE
    while not reached():
        assert time.monotonic() < end, f"this never happened: {what}"
        time.sleep(0.1)
