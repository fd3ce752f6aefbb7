"""Webhooks that never came, or from another hook, and a service that was down: what was said is found (W3, W4)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bot.github.repository import Address
from bot.service.inbox import Delivery, Inbox
from bot.service.queue.file_store import FileStore
from bot.service.reconcile import unreported_threads
from bot.service.worker import Worker
from bot.testing.github import conversation
from tests.stories.github.ground import HOME, PATIENCE, WISH, Hub, Story, long, soak
from tests.stories.github.service import Served
from tests.stories.ground import until


def lost(served: Served) -> None:
    """Have nothing reach the service: no webhook, that is, for nobody told GitHub where it is."""
    served.start()
    until(lambda: (served.state() or {}).get("reconciled"), "the first reading")


def in_the_body(served: Served) -> int:
    return served.opens("will").number


def in_a_comment(served: Served) -> int:
    made = served.opens("rita", "Orders of exactly 50 pay for shipping.")
    served.says("will", f"@plangate {WISH}", made.number)
    return made.number


def by_label(served: Hub) -> int:
    made = served.opens("rita", WISH)
    served.person("will").label(HOME, made.number, "plangate")
    return made.number


def by_an_edit(served: Served) -> int:
    made = served.opens("rita", WISH)
    comment = served.says("will", "Please do.", made.number)
    conversation.edit_comment(served.person("will"), comment, "@plangate please do.")
    return made.number


ASKED = (long(in_a_comment), soak(in_the_body), soak(by_label), long(by_an_edit))


@pytest.mark.req("W3", "PR2")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("asks", ASKED)
def test_a_lost_first_mention(served: Served, asks: Callable[[Served], int]) -> None:
    """The webhook is lost and nobody says another word: within one reconciling there is a plan, and one only."""
    lost(served)
    number = asks(served)
    until(lambda: served.plans(number), "the plan comment")
    served.rest()
    assert len(served.plans(number)) == 1


@pytest.mark.req("W3")
@pytest.mark.long
@pytest.mark.timeout(120)
def test_asked_while_it_was_down(served: Served) -> None:
    """Who asks before the first start, or between two, is answered after it; what had an answer gets no other."""
    served.opens("will")
    served.start()
    until(lambda: served.plans(1), "the plan")
    served.rest()
    served.kill()
    served.opens("will", title="Another")
    served.start()
    until(lambda: served.plans(2), "the plan that was asked for while it was down")
    served.rest()
    assert [len(served.plans(number)) for number in (1, 2)] == [1, 1]


@pytest.mark.req("W3", "PR2")
@pytest.mark.long
@pytest.mark.timeout(120)
def test_a_lost_review(served: Served) -> None:
    """An approval and a review of the bot's own pull request, neither of which was told, are both heard."""
    lost(served)
    served.opens("will")
    until(lambda: served.plans(1), "the plan")
    served.says("maya", "@plangate approve")
    until(served.pulls, "the pull request")
    served.rest()
    number = served.pulls()[0].number
    served.model.turn_to_the_changelog()
    served.person("maya").review(HOME, number, "Note it in the changelog.")
    until(lambda: served.plans(number) or len(served.plans(1)) > 1, "a plan for what the review asks")


@pytest.mark.req("W4")
@pytest.mark.long
async def test_a_hook_of_the_repositorys_own(story: Story, tmp_path: Path) -> None:
    """A delivery that names no installation is as good as the App's own, alone and beside it."""
    issue = story.opens("will")
    unnamed = replace(story.address(), installation=None)
    store = FileStore(story.host, Inbox(tmp_path / "inbox"))
    worker = Worker(story.host, store)
    async with worker.running(), asyncio.timeout(PATIENCE):
        await store.store_all([Delivery("1", "issues", replace(unnamed, told="issue"))])
        await worker.wait_until_idle()
        assert (story.signs(issue), len(story.plans()), worker.exit_code) == (["eyes"], 1, 0)
        await store.store_all([Delivery("2", "issues", story.address())])
        await store.store_all([Delivery("3", "issues", unnamed)])
        await worker.wait_until_idle()
        assert worker.exit_code == 0
        polled = await store.threads_to_poll()
        assert polled == (story.address(),)
        await story.host.changed_threads(polled)
        story.reacts("maya", "+1")
        assert await story.host.changed_threads(polled) == polled


@pytest.mark.req("W3")
async def test_a_daily_run_that_was_dropped_loses_nothing(story: Story) -> None:
    """What was said two days ago is found by the next run that GitHub starts."""
    story.opens("will")
    story.host.only = (Address("parcel", "shop"),)
    story.clock.advance(2.5 * 24 * 3600)
    assert await unreported_threads(story.host) == (story.address(),)


@pytest.mark.req("W3")
@pytest.mark.long
async def test_what_a_scheduled_job_reads(story: Story) -> None:
    """A label that nobody heard is found, and is not looked for again whenever its thread moves; words are."""
    by_label(story)
    story.host.only = (Address("parcel", "shop"),)
    assert await unreported_threads(story.host) == (story.address(),)
    await story.rests(1)
    story.says("rita", "Thank you.")
    assert await unreported_threads(story.host) == ()
    story.says("will", "@plangate and in the changelog")
    assert await unreported_threads(story.host) == (story.address(),)
