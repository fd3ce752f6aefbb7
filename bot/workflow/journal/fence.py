"""The fence of one check: it posts and pushes nothing once another process works on the thread (E4).

A process that begins to work on a thread journals that first (`writing.take_over`). Everything that creates a comment,
a review, or a reply, and every push, calls `check` just before. So if two jobs work on one thread, only the one that
took it over last posts.
"""

from dataclasses import dataclass

from bot.core.errors import Conflict
from bot.core.names import RepositoryId, ThreadNumber
from bot.core.thread.state import ThreadState
from bot.ports import Journal
from bot.workflow.journal.state_cache import StateCache


@dataclass(slots=True)
class Fence:
    """Compares the thread's state after this check's newest entry with the state in the journal now."""

    journal: Journal
    repository: RepositoryId
    thread: ThreadNumber
    states: StateCache
    written: ThreadState | None = None
    """The state after this check's newest entry; None until this check has taken the thread over."""

    async def check(self) -> None:
        """Raise Conflict if another process moved the thread or took it over since then."""
        if self.written is not None and await self.has_moved(self.written):
            raise _taken_over_error(self.thread)

    async def check_run(self) -> None:
        """Raise Conflict if another process took the thread over since then, or if somebody set the journal back.

        What a reader of comments journaled meanwhile, such as a stop, does not matter.
        """
        if self.written is None:
            return
        later = await self._read()
        if later.written < self.written.written or later.work.run != self.written.work.run:
            raise _taken_over_error(self.thread)

    async def has_moved(self, state: ThreadState) -> bool:
        """Return whether another process moved the thread or took it over since this process read `state`.

        Also return True if somebody set the journal back (A4b).
        """
        later = await self._read()
        return later.written < state.written or later.has_moved_since(state)

    async def _read(self) -> ThreadState:
        return self.states.fold(self.repository, self.thread, await self.journal.read(self.thread))


def _taken_over_error(thread: ThreadNumber) -> Conflict:
    return Conflict("another job works on this thread", where=f"#{thread}", fix="try again")
