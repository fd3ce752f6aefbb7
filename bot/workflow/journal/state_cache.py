"""Caches the state of each thread, so that a process folds each entry only once, however often it reads it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from bot.core.entry import Entry
from bot.core.names import RepositoryId, ThreadNumber
from bot.core.thread.state import ThreadState, fold_entries

THREADS: Final = 1_000
"""Number of cached threads: those that were read last. Any other journal is folded from its start."""


@dataclass(slots=True)
class StateCache:
    """The newest state of each thread that this process has folded. It is never older than the journal that is read."""

    _states: dict[tuple[RepositoryId, ThreadNumber], tuple[str, ThreadState]] = field(default_factory=dict)
    """The state, and the chain hash of the last entry in it."""

    def fold(self, repository: RepositoryId, thread: ThreadNumber, entries: Sequence[Entry]) -> ThreadState:
        """Return the state after all entries of a thread's journal. Raises as `core.thread.state.apply` does.

        An entry's hash covers all entries before it, so a journal that was set back is folded from its start.
        """
        last, state = self._states.pop((repository, thread), ("", ThreadState()))
        continues = 0 < state.position <= len(entries) and entries[state.position - 1].chain_hash == last
        state = fold_entries(entries[state.position :], state) if last and continues else fold_entries(entries)
        if entries:
            self._states[repository, thread] = entries[-1].chain_hash, state
        while len(self._states) > THREADS:
            del self._states[next(iter(self._states))]
        return state
