"""The checkout of a request, and how its work and transcripts outlive the disk of a job (L9).

Rules
- The transcript of approved work is saved together with the tree that it describes, or not at all.
- Work in progress is saved between two steps of the main agent, while nothing touches the tree.
- Each save makes the ref larger, so there is a minimum time between saves, which grows with the size of the work.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from bot.agent.session_events import AgentChanged, AgentEvent, RequestStarted
from bot.core.errors import Transient
from bot.core.gate import Stage
from bot.core.names import AgentId, SessionId
from bot.core.network import Network
from bot.core.thread.state import ThreadState
from bot.core.transcript import Line
from bot.core.work import Checkout
from bot.ports import Access, Toolhost
from bot.workflow.thread_context import ThreadContext

SECONDS: Final = 60.0
"""Minimum seconds between two saves of a session."""
SHARE: Final = 10
"""A session spends at most this fraction (1/N) of its time on saving."""
BYTES_A_SECOND: Final = 4_096
"""Larger work is saved less often: in 45 minutes the ref grows by at most 11 MB, plus the save at the end."""


async def checkout(context: ThreadContext, state: ThreadState, *, fresh: bool = False) -> Checkout:
    """Return the checkout of the newest request as it was left, or make it from its base and the saved work.

    Each request begins with a fresh checkout. So does a session that was continued on another disk, because its
    transcript no longer describes the checkout here (E4). `fresh` discards what was left. Approved work on a
    fork's pull request has a separate checkout without refs to the fork, because nobody approved the fork's
    content (K8).
    """
    place = context.location
    name = f"{place.repository}-{place.thread}-{state.request.position}-{state.request.base[:16]}"
    is_of_fork = place.pull is not None and not place.branch
    pull = None if is_of_fork and state.has_approved_work else place.pull
    name = name if pull == place.pull else f"{name}-work"
    transcripts, session = context.resources.transcripts, state.request.work_session
    fresh = fresh or await asyncio.to_thread(transcripts.is_behind, session)
    load_work = partial(transcripts.saved_work, session)
    return await context.workspace.checkout(name, state.request.base, load_work, fresh=fresh, pull=pull)


@asynccontextmanager
async def toolhost(context: ThreadContext, tree: Checkout, access: Access, network: Network) -> AsyncIterator[Toolhost]:
    """Yield a toolhost on a checkout and close it afterward."""
    host = await context.workspace.open(tree, access, network=network)
    try:
        yield host
    finally:
        await host.close()


async def read_transcript(context: ThreadContext, session: SessionId) -> tuple[Line, ...]:
    """Return the lines of a session; none if it has not begun."""
    return await asyncio.to_thread(context.resources.transcripts.load, session)


async def keep_work(context: ThreadContext, state: ThreadState) -> None:
    """Save the work of the newest request as it stands, with its transcript. Empty work replaces what was saved
    before.
    """
    work = await context.workspace.keep(await checkout(context, state))
    context.resources.transcripts.keep(state.request.work_session, work)


@dataclass(slots=True)
class WorkSaver:
    """Saves one session while it runs."""

    context: ThreadContext
    state: ThreadState
    agent: AgentId
    _next_save: float = field(init=False)
    _next_agents_save: float = field(init=False)
    """When the transcripts of sub-agents are saved next, while the main agent waits for them."""

    def __post_init__(self) -> None:
        self._next_save = self._next_agents_save = self.context.resources.clock.monotonic() + SECONDS

    async def save_after(self, event: AgentEvent) -> None:
        """Save the session if this event is between two steps and the last save is long enough ago."""
        clock = self.context.resources.clock
        began = clock.monotonic()
        if isinstance(event, RequestStarted) and event.agent == self.agent and began >= self._next_save:
            size = await self._save_work()
            await self._save()
            self._next_save = began + max(SECONDS, size / BYTES_A_SECOND, SHARE * (clock.monotonic() - began))
        elif isinstance(event, AgentChanged) and began >= self._next_agents_save:
            await self._save()

    async def _save_work(self) -> int:
        """Keep approved work and return its size in bytes. If it cannot be kept, the last save stays."""
        if self.state.stage is not Stage.EXECUTING:
            return 0
        work = await self.context.workspace.keep(await checkout(self.context, self.state))
        if work:
            self.context.resources.transcripts.keep(self.state.request.work_session, work)
        return len(work)

    async def _save(self) -> None:
        with suppress(Transient):
            await self.context.resources.transcripts.save()
        self._next_agents_save = self.context.resources.clock.monotonic() + SECONDS
