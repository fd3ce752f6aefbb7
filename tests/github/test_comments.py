"""How often the progress comment is edited."""

import asyncio

import pytest

from bot.core import comment
from bot.core.errors import Conflict
from bot.core.marker import Key
from bot.github.comments import Comments, Progress
from bot.testing.github.faults import Fault
from tests.contracts.test_queue_contract import soon
from tests.github.conftest import HOME, Ground, NoFence, Signed, no_fence


@pytest.mark.parametrize(("age", "least"), ((0.0, 5.0), (60.0, 20.0)))
async def test_edits_of_progress_keep_their_distance(ground: Ground, age: float, least: float) -> None:
    """Five seconds lie between edits in the first minute, twenty later; the newest text is shown."""
    signer, thread = Signed(), ground.issue()
    comments = Comments(ground.client, ground.address, thread, ground.bot, Key(signer.key_id, signer.mac), no_fence)
    progress = Progress(comments)
    await shown(progress, "one")
    began = ground.clock.monotonic()
    ground.clock.advance(age)
    await shown(progress, "two")
    before = ground.clock.monotonic()
    await shown(progress, "three")
    assert ground.clock.monotonic() - before >= least - 2.0
    assert ground.clock.monotonic() - began >= age
    assert "three" in ground.comments(thread)[0].text.body


@pytest.mark.req("E4")
async def test_process_that_lost_the_thread_edits_no_progress(ground: Ground) -> None:
    signer, thread = Signed(), ground.issue()

    class Lost(NoFence):
        async def check_run(self) -> None:
            raise Conflict("another job is at the thread")

    beside = ground.client, ground.address, thread, ground.bot, Key(signer.key_id, signer.mac)
    await shown(Progress(Comments(*beside, no_fence)), "Executed.")
    await shown(Progress(Comments(*beside, Lost())), "Executing.")
    assert ground.comments(thread)[0].text.body.startswith("Executed.")


async def shown(progress: Progress, text: str) -> None:
    await progress.show(text, 1)
    assert progress._task is not None
    await progress._task


@pytest.mark.req("E1", "PR3")
async def test_only_shown_progress_is_ended(ground: Ground) -> None:
    """Where nothing was shown nothing is asked or posted; another process ends what one that died had posted."""
    thread = ground.issue()
    first = ground.dialogue(thread)
    async with first.hold_progress():
        before = len(ground.github.requests)
        await first.end_progress("Over.", 1)
        assert len(ground.github.requests) == before
        await first.progress("At it.", 1)
    assert ground.comments(thread)[0].text.body.startswith("At it.")
    second = ground.dialogue(thread)
    async with second.hold_progress():
        await second.end_progress("Over.", 1)
        await second.subject()
        await second.end_progress("Over.", 2)
        assert ground.comments(thread)[0].text.body.startswith("At it.")
        await second.end_progress("Over.", 1)
    (comment,) = ground.comments(thread)
    assert comment.text.body.startswith("Over.")


@pytest.mark.req("E1", "PR3")
async def test_progress_that_a_dead_process_left_at_work_is_ended(ground: Ground) -> None:
    thread = ground.issue()
    dead, living = ground.dialogue(thread), ground.dialogue(thread)
    at_work, ended = (comment.progress(at, "default", (), (), spent=(1, 0.0, None)) for at in ("executing", "answered"))
    for ask, text in ((1, at_work), (2, ended), (3, at_work)):
        async with dead.hold_progress():
            await dead.progress(text, ask)
    async with living.hold_progress():
        await living.end_abandoned_progress("Over.")
        await living.subject()
        await living.progress(at_work, 3)
        await living.end_abandoned_progress("Over.")
    heads = [posted.text.body.split()[0] for posted in ground.comments(thread)]
    assert heads == ["Over.", "**Executed**", "**Executing**"]


@pytest.mark.req("PR3")
async def test_last_progress_of_one_ask_survives_the_next(ground: Ground) -> None:
    thread = ground.issue()
    dialogue = ground.dialogue(thread)
    async with dialogue.hold_progress():
        await dialogue.progress("Planning.", 1)
        await dialogue.end_progress("Planned.", 1)
        await dialogue.progress("Executing.", 2)
    assert [comment.text.body.partition("\n")[0] for comment in ground.comments(thread)] == ["Planned.", "Executing."]


# A comment whose sender is cancelled while it is being posted


def posted_between(ground: Ground, thread: int, kind: str) -> Comments:
    """Return the comments of a process that another one overtakes right after it has asked whether it may post."""
    signer = Signed()
    beside = ground.client, ground.address, thread, ground.bot, Key(signer.key_id, signer.mac)
    other = Comments(*beside, no_fence)  # type: ignore[arg-type]  # a number is as good

    class Overtaken(NoFence):
        async def raise_if_moved(self) -> None:
            await other.put(kind, 1, "Done.")

    posts = f"POST /repos/{HOME}/issues/{thread}/comments"
    ground.github.faults.plan(posts, Fault("delay", seconds=0.3, done=True), after=1)
    return Comments(*beside, Overtaken())  # type: ignore[arg-type]


@pytest.mark.req("E1", "E4")
async def test_repeated_comment_is_deleted_although_its_check_is_cancelled(ground: Ground) -> None:
    """A worker that was paused posts, learns that its thread was taken over, and drops its work, at the same time."""
    thread = ground.issue()
    putting = asyncio.ensure_future(posted_between(ground, thread, "tell").put("tell", 1, "Done."))
    await soon(lambda: len(ground.comments(thread)) == 2)
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    assert [each.minimized for each in ground.comments(thread)] == [None]


@pytest.mark.req("E4")
async def test_failed_check_discards_progress_that_it_was_about_to_show(ground: Ground) -> None:
    thread = ground.issue()
    progress = Progress(posted_between(ground, thread, "progress"))
    await progress.show("Executing.", 1)
    await soon(lambda: len(ground.comments(thread)) == 2)
    await progress.drop()
    assert [each.minimized for each in ground.comments(thread)] == [None]
