"""A journal is read often, and each of its entries folded once; what was remembered of another journal never counts."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from bot.core.errors import Broken
from bot.core.moves import Entry
from bot.core.names import RepositoryId, ThreadNumber
from bot.core.thread.state import fold_entries
from bot.store.sealing import Chain
from bot.workflow.thread_context import THREADS, StateCache
from tests.core.journal_histories import histories

HOME, ONE = RepositoryId(1), ThreadNumber(1)
FIRST, SECOND = histories(2, 40)


def stored(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return entries as a journal stores and reads them: chained."""
    chain = Chain(HOME, ONE, bytes(32))
    lines: tuple[bytes, ...] = ()
    for entry in entries:
        lines += chain.extend(lines, entry.at, [(entry.kind, entry.body)])
    return chain.verify(lines)


def illegible(entries: Sequence[Entry]) -> list[Entry]:
    """Return the same places in the same chain, with contents that nobody can fold."""
    return [replace(entry, kind="approved", body={}) for entry in entries]


def test_what_was_folded_is_not_folded_again() -> None:
    """Each reading takes in the new entries alone, and leads where the whole journal leads."""
    cache, journal = StateCache(), stored(FIRST)
    for length in range(1, len(journal) + 1):
        read = [*illegible(journal[: length - 1]), journal[length - 1]]
        assert cache.fold(HOME, ONE, read) == fold_entries(journal[:length])
    assert cache.fold(HOME, ONE, illegible(journal)) == fold_entries(journal)


@pytest.mark.req("A4")
def test_a_journal_that_was_set_back_is_folded_from_its_start() -> None:
    """It is shorter than it was, or goes on in another way, or is another one: what was remembered does not count."""
    cache, journal = StateCache(), stored(FIRST)
    cache.fold(HOME, ONE, journal)
    assert cache.fold(HOME, ONE, journal[:5]) == fold_entries(journal[:5])
    cache.fold(HOME, ONE, journal)
    late = [replace(entry, at=entry.at + timedelta(hours=1)) for entry in FIRST[5:]]
    other = stored([*FIRST[:5], *late])
    assert cache.fold(HOME, ONE, other) == fold_entries(other) != fold_entries(journal)
    assert cache.fold(HOME, ONE, stored(SECOND)) == fold_entries(SECOND)
    assert cache.fold(HOME, ONE, ()).position == 0


def test_entries_that_were_never_stored_are_folded_each_time() -> None:
    """Nothing tells whether they are the same."""
    cache = StateCache()
    cache.fold(HOME, ONE, FIRST)
    assert cache.fold(HOME, ONE, SECOND) == fold_entries(SECOND)


def test_only_so_many_threads_are_remembered() -> None:
    """Those that were read last; any other is folded again."""
    cache, journal = StateCache(), stored(FIRST[:1])
    for number in range(THREADS + 1):
        cache.fold(HOME, ThreadNumber(number), journal)
    cache.fold(HOME, ThreadNumber(THREADS), illegible(journal))
    with pytest.raises(Broken, match="approved"):
        cache.fold(HOME, ThreadNumber(0), illegible(journal))
