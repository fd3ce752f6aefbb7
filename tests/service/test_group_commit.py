"""Group commit: what is stored together, in which turns, and who learns of which failure."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bot.core.errors import Transient
from bot.service.inbox import Delivery, Inbox
from bot.service.queue.queue_port import LARGEST_BATCH, MOST_WAITING, WRITERS, GroupCommit, Outcome
from tests import forks
from tests.service.ground import delivery, settle, thread


@dataclass(slots=True)
class Disk:
    """Records each batch; a write ends when it is told to."""

    failures: list[Exception] = field(default_factory=list)
    """What the next writes raise."""
    poison: str = ""
    """A guid with which no write succeeds."""
    batches: list[list[str]] = field(default_factory=list)
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    async def store_all(self, deliveries: Sequence[Delivery]) -> Sequence[Outcome]:
        self.batches.append(guids := [each.guid for each in deliveries])
        await self.turns.acquire()
        if self.failures:
            raise self.failures.pop(0)
        if self.poison in guids:
            raise ValueError(self.poison)
        return [Outcome.STORED] * len(deliveries)

    def end(self, writes: int = 1) -> None:
        """Let writes end."""
        for _ in range(writes):
            self.turns.release()


async def started(commit: GroupCommit, *deliveries: Delivery) -> "list[asyncio.Task[Outcome]]":
    """Store deliveries: the first ones are being written, each for itself, when the others arrive."""
    tasks = []
    for each in deliveries:
        tasks.append(asyncio.create_task(commit.store(each)))
        if len(tasks) <= WRITERS:
            await settle()
    await settle()
    return tasks


def results(tasks: "Sequence[asyncio.Task[Outcome]]") -> list[object]:
    """Return what each task returned or raised; None if it still waits."""
    return [(task.exception() or task.result()) if task.done() else None for task in tasks]


async def test_what_arrives_during_writes_shares_the_next_one() -> None:
    """The first ones wait for nobody, and nobody is answered before the end of the write that stores it."""
    disk = Disk()
    tasks = await started(GroupCommit(disk.store_all), *map(delivery, range(1, 6)))
    assert (disk.batches, results(tasks)) == ([["guid-1"], ["guid-2"]], [None] * 5)
    disk.end()
    await settle()
    assert disk.batches == [["guid-1"], ["guid-2"], ["guid-3", "guid-4", "guid-5"]]
    assert results(tasks) == [Outcome.STORED, None, None, None, None]
    disk.end(2)
    await settle()
    assert results(tasks) == [Outcome.STORED] * 5


async def test_what_has_arrived_together_shares_the_first_write() -> None:
    """A burst is not one write for its first delivery and another one for the rest, also if it takes a while to read;
    but a write does not wait for more than a batch can hold."""
    disk = Disk()
    commit = GroupCommit(disk.store_all)
    tasks = []
    for number in range(2 * LARGEST_BATCH):
        tasks.append(asyncio.create_task(commit.store(delivery(number))))
        await asyncio.sleep(0)
    assert [len(batch) for batch in disk.batches] == [LARGEST_BATCH]
    await settle()
    assert [len(batch) for batch in disk.batches] == [LARGEST_BATCH] * 2
    disk.end(2)
    await asyncio.gather(*tasks)


async def test_what_arrives_as_a_write_ends_is_written() -> None:
    """At whichever step of the event loop."""
    for steps in range(12):
        disk = Disk()
        disk.end(3)
        commit = GroupCommit(disk.store_all)
        tasks = [asyncio.create_task(commit.store(delivery(1)))]
        await settle(steps)
        tasks += [asyncio.create_task(commit.store(delivery(number))) for number in (2, 3)]
        await settle()
        assert results(tasks) == [Outcome.STORED] * 3


async def test_a_guid_that_comes_again_waits_for_the_first() -> None:
    """It is in one batch at a time: a duplicate is told so once the first one is durable, and fails with it."""
    disk = Disk([OSError(5, "Input/output error")])
    commit = GroupCommit(disk.store_all)
    tasks = await started(commit, *[delivery(1)] * 3)
    assert (disk.batches, results(tasks)) == ([["guid-1"]], [None] * 3)
    disk.end()
    await settle()
    assert all(isinstance(each, OSError) for each in results(tasks))
    tasks = await started(commit, *[delivery(1)] * 3)
    disk.end()
    await settle()
    assert results(tasks) == [Outcome.STORED, Outcome.DUPLICATE, Outcome.DUPLICATE]


async def test_a_write_that_fails_is_told_to_all_of_its_batch_alone() -> None:
    """The next batch is tried."""
    full = OSError(28, "No space left on device")
    disk = Disk()
    commit = GroupCommit(disk.store_all)
    tasks = await started(commit, *map(delivery, range(1, 6)))
    disk.end(2)
    await settle()
    disk.failures.append(full)
    disk.end()
    await settle()
    assert results(tasks) == [Outcome.STORED] * 2 + [full] * 3
    disk.end()
    assert await commit.store(delivery(6)) is Outcome.STORED


async def test_one_delivery_that_cannot_be_stored_keeps_no_other_out() -> None:
    """Its neighbors are stored without it."""
    disk = Disk(poison="guid-4")
    tasks = await started(GroupCommit(disk.store_all), *map(delivery, range(1, 6)))
    disk.end(6)
    await settle()
    assert disk.batches[2:] == [["guid-3", "guid-4", "guid-5"], ["guid-3"], ["guid-4"], ["guid-5"]]
    found = results(tasks)
    assert isinstance(found.pop(3), ValueError)
    assert found == [Outcome.STORED] * 4


async def test_installations_take_turns_at_places() -> None:
    """A flood of one installation delays another one's delivery by no more than the writes that are under way."""
    disk = Disk()
    commit = GroupCommit(disk.store_all)
    flood = await started(commit, *map(delivery, range(3 * LARGEST_BATCH)))
    other = Delivery("other", "issues", replace(thread(1), installation=8))
    waiting = asyncio.create_task(commit.store(other))
    await settle()
    disk.end(WRITERS + 1)
    await settle()
    assert results([waiting]) == [Outcome.STORED]
    disk.end(2)
    await asyncio.gather(*flood)
    assert [len(batch) for batch in disk.batches] == [1, 1, LARGEST_BATCH, LARGEST_BATCH, LARGEST_BATCH - 1]


async def test_ten_thousand_at_once_are_bounded() -> None:
    """What does not fit is refused at once, and what fits is stored."""
    disk = Disk()
    tasks = await started(GroupCommit(disk.store_all), *map(delivery, range(10_000)))
    refused = [each for each in results(tasks) if isinstance(each, Transient)]
    assert len(refused) == 10_000 - MOST_WAITING
    disk.end(10_000)
    await asyncio.wait(tasks)
    assert results(tasks).count(Outcome.STORED) == MOST_WAITING


async def test_whoever_leaves_holds_nobody_up() -> None:
    """A request that ends while its delivery waits is no error for its batch, and its delivery is stored."""
    disk = Disk()
    commit = GroupCommit(disk.store_all)
    tasks = await started(commit, *map(delivery, range(1, 6)))
    tasks[3].cancel()
    disk.end(3)
    assert await tasks[4] is Outcome.STORED
    assert disk.batches[2] == ["guid-3", "guid-4", "guid-5"]


async def test_the_end_of_the_process_refuses_what_waits() -> None:
    """Nobody learns that something is durable which is not."""
    disk = Disk()
    commit = GroupCommit(disk.store_all)
    (task,) = await started(commit, delivery(1))
    (writing,) = asyncio.all_tasks() - {asyncio.current_task(), task}
    writing.cancel()
    with pytest.raises(Transient, match="ends"):
        await task


KILLED = """
import asyncio, sys, time
from pathlib import Path
from bot.service.inbox import Inbox
from bot.service.queue.file_store import FileStore
from bot.service.queue.queue import Queue
from tests.service.ground import Host, delivery

class HangsAfterTheWrite(Inbox):
    def store_all(self, deliveries):
        found = super().store_all(deliveries)
        if len(deliveries) > 1:
            print("durable", len(deliveries), flush=True)
            time.sleep(600)
        return found

async def main():
    queue = Queue(FileStore(Host(), HangsAfterTheWrite(Path(sys.argv[1]))), None)
    print(await queue.receive(delivery(1)), flush=True)
    await asyncio.gather(*(queue.receive(delivery(number)) for number in range(2, 10)))
    print("answered", flush=True)

asyncio.run(main())
"""


@pytest.mark.req("W2", "E3")
def test_killed_between_the_commit_and_the_answer(tmp_path: Path) -> None:
    """What was committed is there for the next process, which knows each of them if it comes again."""
    with forks.script(KILLED).read_lines(str(tmp_path)) as (_, printed):
        assert [printed.readline().strip() for _ in range(2)] == ["stored", "durable 8"]
    inbox = Inbox(tmp_path)
    assert not any(inbox.store_all([delivery(number) for number in range(1, 10)]))
    assert {each.guid for each in inbox.waiting()} == {f"guid-{number}" for number in range(1, 10)}
