"""The fence of one look: nothing is posted or pushed once another process is at the thread (E4)."""

from dataclasses import dataclass

from bot.core.errors import Conflict
from bot.core.names import RepositoryId, ThreadNumber
from bot.core.thread_state import ThreadState
from bot.ports import Journal
from bot.workflow.journal.state_cache import StateCache


@dataclass(slots=True)
class Fence:
    """Compares the thread as this look wrote it with the thread as its journal tells it now."""

    journal: Journal
    repository: RepositoryId
    thread: ThreadNumber
    states: StateCache
    written: ThreadState | None = None
    """The thread as this look wrote it last, once it has taken it over; None before."""

    async def check(self) -> None:
        """Raise Conflict if another process moved the thread, or took it over, since this look took it over."""
        if self.written is not None and await self.has_moved(self.written):
            raise Conflict("another job is at the thread", where=f"#{self.thread}", fix="look again")

    async def has_moved(self, state: ThreadState) -> bool:
        """Return whether another process moved the thread or took it over since this job read the state.

        True as well where somebody set its journal back (A4b).
        """
        later = self.states.fold(self.repository, self.thread, await self.journal.read(self.thread))
        was_set_back = later.written < state.written
        return was_set_back or (later.stage, later.thread.ask, later.run) != (state.stage, state.thread.ask, state.run)
