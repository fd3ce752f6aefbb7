"""A journal that somebody set back under a running job: nothing is posted, pushed, or journaled on it (A4b, E4)."""

import pytest

from bot.core.errors import Conflict, Unreadable
from bot.core.gate import Stage
from bot.core.moves import Answered
from bot.core.notes import Spent
from bot.core.thread.state import ThreadState
from bot.workflow.journal import append_move, append_notes, defer_notes, flush_notes, read_state
from bot.workflow.thread_context import ThreadContext
from tests.workflow.ground import MAYA, Ground


async def set_back() -> tuple[ThreadContext, ThreadState]:
    """A running job and the thread as it knows it; the journal is without its newest note."""
    ground = Ground()
    job, state = ground.process(), await ground.moved(ground.requested())
    state = await append_notes(job, state, Spent(session="plan-1", cost_usd=0.5))
    ground.journal.set_back(ground.location.thread, 1)
    return job, state


@pytest.mark.req("A4b", "E4")
async def test_nothing_passes_the_fence() -> None:
    """The stage, the ask, and the run are those of before."""
    job, state = await set_back()
    assert await job.fence.has_moved(state)
    job.fence.written = state
    with pytest.raises(Conflict):
        await job.fence.check()


@pytest.mark.req("A4b")
async def test_it_never_catches_up() -> None:
    """A journal that is written on would seem to be the newest soon."""
    job, state = await set_back()
    with pytest.raises(Conflict):
        await append_move(job, state, Answered(answer="Done.", owes="Done."))
    with pytest.raises(Conflict):
        await flush_notes(job, defer_notes(job, state, Spent(session="plan-1", cost_usd=0.5)))
    assert (await read_state(job)).position == 1


@pytest.mark.req("A4b", "A6")
async def test_a_journal_that_was_set_back_is_not_continued_by_mail() -> None:
    ground = Ground()
    await ground.planned()
    ground.thread.newest = 7
    with pytest.raises(Unreadable):
        await ground.look()
    ground.thread.say(MAYA, "@plangate retry", by_mail=True)
    with pytest.raises(Unreadable):
        await ground.look()
    ground.thread.say(MAYA, "@plangate retry")
    assert (await ground.look()).stage is Stage.AWAITING_APPROVAL
