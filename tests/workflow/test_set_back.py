"""A journal that somebody set back under a running job: nothing is posted, pushed, or journaled on it (A4b, E4)."""

from dataclasses import replace
from typing import Any, Final, cast

import pytest

from bot.agent.limits import Ledger
from bot.agent.permissions.tool_gate import PermissionGate
from bot.agent.resources import SessionResources
from bot.core.actor import Actor
from bot.core.entry import JournaledTurn
from bot.core.errors import Conflict
from bot.core.moves import Answered, Requested
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.notes import Spent
from bot.core.thread_state import ThreadState
from bot.core.work import ThreadLocation
from bot.workflow.journal.fence import Fence
from bot.workflow.journal.ledger import append, current, defer, note, settle
from bot.workflow.journal.state_cache import StateCache
from bot.workflow.thread_context import ThreadContext
from tests.agent.ground import HandClock
from tests.memory_store import MemoryJournal, MemoryTranscripts

ABSENT: Final = cast("Any", None)
"""A part that journaling does not use."""
HOME, ONE = RepositoryId(1), ThreadNumber(1)


def context() -> ThreadContext:
    """A thread with an empty journal."""
    clock, states = HandClock(), StateCache()
    resources = SessionResources(ABSENT, MemoryTranscripts(), clock, PermissionGate(), Ledger())
    location, journal = ThreadLocation(HOME, ONE, "", CommitId("a" * 40)), MemoryJournal(clock)
    fence = Fence(journal, HOME, ONE, states)
    beside = (ABSENT, ABSENT, ABSENT, ABSENT)
    return ThreadContext(location, ABSENT, journal, ABSENT, ABSENT, resources, fence, *beside, states=states)


async def begun(thread: ThreadContext) -> ThreadState:
    """A request is planned."""
    said = JournaledTurn("comment-1", Actor(5, "will"), "Do it.", thread.resources.clock.now())
    return await append(thread, await current(thread), Requested(said=said, base=thread.location.base))


async def set_back() -> tuple[ThreadContext, ThreadState]:
    """The journal of a running job without its newest note, and the thread as the job knows it."""
    job, earlier = context(), context()
    state = await note(job, await begun(job), Spent(session="plan-1", cost_usd=0.5))
    await begun(earlier)
    fence = replace(job.fence, journal=earlier.journal)
    return replace(job, journal=earlier.journal, fence=fence), state


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
        await append(job, state, Answered(answer="Done.", owes="Done."))
    with pytest.raises(Conflict):
        await settle(job, defer(job, state, Spent(session="plan-1", cost_usd=0.5)))
    assert (await current(job)).position == 1
