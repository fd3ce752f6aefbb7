"""A comment whose sender is cancelled while it is being posted."""

import asyncio

import pytest

from bot.core.marker import Key
from bot.github.comments import Comments, Progress
from bot.testing.github.faults import Fault
from tests.contracts.test_queue_contract import soon
from tests.github.conftest import HOME, Ground, NoFence, Signed, no_fence


def posted_between(ground: Ground, thread: int, kind: str) -> Comments:
    """Return the comments of a process that another one overtakes right after it has asked whether it may post."""
    signer = Signed()
    beside = ground.client, ground.address, thread, ground.bot, Key(signer.key_id, signer.mac)
    other = Comments(*beside, no_fence)  # type: ignore[arg-type]  # a number is as good

    class Overtaken(NoFence):
        async def check(self) -> None:
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
