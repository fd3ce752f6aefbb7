"""What a run reads and writes: the journal's fold and fence, and several writers on one thread (A4b, E4)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Final

import pytest

from bot.core.errors import Broken, Conflict, Refused, Unreadable
from bot.core.gate import Stage
from bot.core.moves import Answered, Entry, Stopped
from bot.core.names import RepositoryId, ThreadNumber
from bot.core.notes import Spent
from bot.core.thread.state import fold_entries
from bot.core.turn import Acknowledgment, Role, Turn
from bot.store.sealing import Chain
from bot.workflow.intake import journal_turns
from bot.workflow.outbox import post_replies
from bot.workflow.thread_run import THREADS, StateCache, ThreadRun
from tests.core.journal_histories import histories
from tests.workflow.ground import MAYA, WILL, Ground
from tests.workflow.memory_thread import MemoryThread

HOME, ONE = RepositoryId(1), ThreadNumber(1)
FIRST, SECOND = histories(2, 40)
SPENT: Final = Spent(session="plan-1", cost_usd=0.5)


@pytest.mark.req("E4")
async def test_two_checks_answer_one_command_once() -> None:
    ground = Ground()
    ground.thread.say(WILL, "@plangate status")
    first, second = ground.process(), ground.process()
    for process in (first, second):
        await process.read()
    await journal_turns(first)
    await journal_turns(second)
    await post_replies(second)
    assert ground.told == []
    await post_replies(first)
    assert len(ground.told) == 1


@pytest.mark.req("E4")
async def test_a_second_writer_carries_no_verb_past_a_stop() -> None:
    ground = Ground()
    await ground.moved(ground.requested())
    verb = await ground.reading()
    recorder, before = verb.beside(), verb.state
    await ground.moved(Stopped())
    await recorder.note(SPENT)
    assert (await ground.kinds())[-2:] == ["stopped", "spent"]
    assert verb.state == before
    assert await verb.has_moved()
    with pytest.raises(Conflict):
        await verb.append(Answered(answer="Done.", text_to_post="Done."))


@pytest.mark.req("E4")
async def test_a_note_after_another_takeover_leaves_the_fence_shut() -> None:
    ground = Ground()
    await ground.moved(ground.requested())
    verb = await ground.reading(run="1")
    await verb.take_over()
    await verb.journal.raise_if_moved()
    await (await ground.reading(run="2")).take_over()
    await verb.beside().note(SPENT)
    for check in (verb.journal.raise_if_moved, verb.journal.check_run):
        with pytest.raises(Conflict, match="another job works on this thread"):
            await check()
    await verb.read()
    await verb.take_over()
    await verb.journal.raise_if_moved()


@dataclass(slots=True)
class StoppedMeanwhile(MemoryThread):
    """A thread on which another process journals a stop while a reaction is posted."""

    stop: Callable[[], Awaitable[object]] = field(kw_only=True)

    async def acknowledge(self, turn: Turn, sign: Acknowledgment) -> None:  # noqa: ARG002 - the port's
        await self.stop()


@pytest.mark.req("E4", "PR3")
async def test_a_stop_before_deferred_notes_begins_no_session() -> None:
    ground = Ground()
    await ground.moved(ground.requested())
    said, stop = ground.thread.said, partial(ground.moved, Stopped())
    ground.thread = StoppedMeanwhile(ground.clock, ground.life, said, stop=stop)
    ground.thread.say(WILL, "Me too!", role=Role.READ)
    assert (await ground.check()).stage is Stage.STOPPED
    assert ground.model.requests == []


async def set_back() -> ThreadRun:
    """A running job; the journal is without its newest note."""
    ground = Ground()
    await ground.moved(ground.requested())
    job = await ground.reading()
    await job.note(SPENT)
    ground.journal.set_back(ground.location.thread, 1)
    return job


@pytest.mark.req("A4b", "E4")
async def test_nothing_passes_the_fence_of_a_journal_that_was_set_back() -> None:
    job = await set_back()
    assert await job.has_moved()
    job.journal.held = job.state
    with pytest.raises(Conflict):
        await job.journal.raise_if_moved()


@pytest.mark.req("A4b")
async def test_a_journal_that_was_set_back_never_catches_up() -> None:
    job = await set_back()
    with pytest.raises(Conflict):
        await job.append(Answered(answer="Done.", text_to_post="Done."))
    with pytest.raises(Conflict):
        await job.note(SPENT)
    await job.read()
    assert job.state.position == 1


@pytest.mark.req("A4b", "A6")
async def test_a_journal_that_was_set_back_is_not_continued_by_mail() -> None:
    ground = Ground()
    await ground.planned()
    ground.thread.newest = 7
    with pytest.raises(Unreadable):
        await ground.check()
    ground.thread.say(MAYA, "@plangate retry", by_mail=True)
    with pytest.raises(Unreadable):
        await ground.check()
    ground.thread.say(MAYA, "@plangate retry")
    assert (await ground.check()).stage is Stage.AWAITING_APPROVAL


@pytest.mark.req("A4b", "PR3")
async def test_a_journal_that_was_set_back_waits_for_an_approver_and_plans_anew() -> None:
    ground = Ground()
    await ground.published()
    ground.journal.set_back(ground.location.thread, 4)
    ground.thread.newest = 77
    for _ in range(2):
        ground.thread.say(MAYA, "@plangate status")
        with pytest.raises(Refused, match="reset or deleted"):
            await ground.check()
    (warning,) = ground.thread.texts("warning")
    assert "is older than my comments here" in warning
    ground.clock.seconds += 1
    ground.thread.say(MAYA, "@plangate retry")
    state = await ground.check()
    assert (state.stage, state.work.branch_suffix) == (Stage.AWAITING_APPROVAL, 77)
    assert len(ground.workspace.pushed) == 1


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
    cache, journal = StateCache(), stored(FIRST)
    for length in range(1, len(journal) + 1):
        read = [*illegible(journal[: length - 1]), journal[length - 1]]
        assert cache.fold(HOME, ONE, read) == fold_entries(journal[:length])
    assert cache.fold(HOME, ONE, illegible(journal)) == fold_entries(journal)


@pytest.mark.req("A4")
def test_a_journal_that_was_set_back_is_folded_from_its_start() -> None:
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
    cache = StateCache()
    cache.fold(HOME, ONE, FIRST)
    assert cache.fold(HOME, ONE, SECOND) == fold_entries(SECOND)


def test_only_the_threads_read_last_are_cached() -> None:
    cache, journal = StateCache(), stored(FIRST[:1])
    for number in range(THREADS + 1):
        cache.fold(HOME, ThreadNumber(number), journal)
    cache.fold(HOME, ThreadNumber(THREADS), illegible(journal))
    with pytest.raises(Broken, match="approved"):
        cache.fold(HOME, ThreadNumber(0), illegible(journal))
