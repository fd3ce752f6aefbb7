"""The contract of the Journal port, held against every adapter."""

import asyncio
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeAlias

import pytest

from bot.core.errors import Broken, Conflict
from bot.core.names import RepositoryId, ThreadNumber
from bot.core.transcript import Json
from bot.ports import Clock, Entry, Journal
from bot.store.git_journal import GitJournal
from bot.store.sealing import StateKey
from bot.store.thread_refs import ThreadRefs
from tests.contracts.conftest import StandingClock
from tests.memory_store import MemoryJournal

Open: TypeAlias = Callable[[str], Journal]

ONE, TWO = ThreadNumber(1), ThreadNumber(2)


every_way = pytest.mark.parametrize("way", ("memory", "path", "http"))
"""Also over HTTP: what a machine reads, sends and is refused; what is sent decides about the rest."""


@pytest.fixture(params=("memory", "path"))
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def open_on(way: str, refs_of: Callable[[str, str], ThreadRefs], clock: Clock) -> Open:
    """Opens the one journal as the named machine does."""
    memory = MemoryJournal(clock)

    def opened(machine: str) -> Journal:
        if way == "memory":
            return memory
        return GitJournal(refs_of(way, machine), RepositoryId(9), key=StateKey(b"k" * 32), clock=clock)

    return opened


@pytest.fixture
def journal(open_on: Open) -> Journal:
    return open_on("a")


def bodies(entries: Sequence[Entry]) -> list[Json]:
    return [entry.body for entry in entries]


async def test_unknown_thread(journal: Journal) -> None:
    """A thread that nobody wrote to reads as empty, and is not listed."""
    assert await journal.read(ONE) == ()
    assert await journal.threads() == ()


@every_way
async def test_append_and_read(journal: Journal, open_on: Open, clock: Clock) -> None:
    """What was appended reads back, numbered from 1, in order, with the time of the append, on any machine."""
    assert await journal.append(ONE, 0, [("moved", {"event": "requested", "by": 7}), ("said", {})]) == 2
    assert await journal.append(ONE, 2, [("moved", {"event": "planned"})]) == 3
    expected = (
        Entry(1, clock.now(), "moved", {"event": "requested", "by": 7}),
        Entry(2, clock.now(), "said", {}),
        Entry(3, clock.now(), "moved", {"event": "planned"}),
    )
    assert await journal.read(ONE) == expected
    assert await open_on("b").read(ONE) == expected


@pytest.mark.req("E4")
async def test_wrong_position(journal: Journal) -> None:
    """An append at any position but the journal's is a Conflict, and nothing is written."""
    await journal.append(ONE, 0, [("a", {}), ("b", {})])
    for expected in (0, 1, 3, 99):
        with pytest.raises(Conflict, match="has 2 entries"):
            await journal.append(ONE, expected, [("c", {})])
    assert [entry.kind for entry in await journal.read(ONE)] == ["a", "b"]


@every_way
@pytest.mark.req("E4")
async def test_second_machine_is_late(open_on: Open) -> None:
    """Of two machines that saw the same position the second gets a Conflict, and may go on once it has read."""
    first, second = open_on("a"), open_on("b")
    await first.append(ONE, 0, [("start", {})])
    assert len(await second.read(ONE)) == 1
    await first.append(ONE, 1, [("first", {})])
    with pytest.raises(Conflict):
        await second.append(ONE, 1, [("second", {})])
    assert await second.append(ONE, 2, [("second", {})]) == 3
    assert [entry.kind for entry in await first.read(ONE)] == ["start", "first", "second"]


async def test_position_learnt_elsewhere(open_on: Open) -> None:
    """A machine may append at a position that it was told of and has not read itself."""
    first, second = open_on("a"), open_on("b")
    await first.append(ONE, 0, [("a", {})])
    await second.read(ONE)
    await first.append(ONE, 1, [("b", {})])
    assert await second.append(ONE, 2, [("c", {})]) == 3


@every_way
@pytest.mark.req("E4")
async def test_at_once(open_on: Open) -> None:
    """Of three appends at one position that run at once, exactly one goes through."""
    journals = [open_on(machine) for machine in "abc"]
    attempts = [journal.append(ONE, 0, [("won", {"by": n})]) for n, journal in enumerate(journals)]
    results = await asyncio.gather(*attempts, return_exceptions=True)
    assert sorted(str(type(result).__name__) for result in results) == ["Conflict"] * 2 + ["int"]
    assert bodies(await journals[0].read(ONE)) == [{"by": next(n for n, r in enumerate(results) if r == 1)}]


async def test_nothing_to_append(journal: Journal) -> None:
    """An append of nothing checks the position and writes nothing."""
    assert await journal.append(ONE, 0, []) == 0
    with pytest.raises(Conflict):
        await journal.append(ONE, 1, [])
    assert await journal.threads() == ()


async def test_threads_are_apart(journal: Journal) -> None:
    """Each thread has its own positions and entries; all are listed, in order of number."""
    ten = ThreadNumber(10)
    await journal.append(ten, 0, [("ten", {})])
    await journal.append(TWO, 0, [("two", {})])
    await journal.append(ONE, 0, [("one", {})])
    await journal.append(ONE, 1, [("one more", {})])
    assert [entry.kind for entry in await journal.read(ONE)] == ["one", "one more"]
    assert [entry.kind for entry in await journal.read(TWO)] == ["two"]
    assert await journal.threads() == (ONE, TWO, ten)


@every_way
async def test_written_to_since(open_on: Open, clock: StandingClock) -> None:
    """The threads that were written to since a moment are given with all entries, as they are on the remote now."""
    ours, theirs = open_on("a"), open_on("b")
    for thread in (ONE, TWO):
        await ours.append(thread, 0, [("requested", {"by": 7})])
    await theirs.read(TWO)
    clock.at += timedelta(minutes=1)
    noon = clock.at
    assert await theirs.since(noon) == {}
    await ours.append(TWO, 1, [("planned", {})])
    await ours.append(ThreadNumber(3), 0, [("requested", {})])
    found = await theirs.since(noon)
    assert {thread: [entry.kind for entry in entries] for thread, entries in found.items()} == {
        TWO: ["requested", "planned"],
        ThreadNumber(3): ["requested"],
    }
    assert set(await theirs.since(noon - timedelta(minutes=1))) == {ONE, TWO, ThreadNumber(3)}
    assert await open_on("c").since(noon) == found


async def test_any_text(journal: Journal, open_on: Open) -> None:
    """Any text that JSON can hold comes back as it was, as value and as key."""
    texts = ("Grüße 🎉 漢字", "a\nb\r\nc", "\u2028\u2029\x00\x1b[31m", "half a pair: \ud83d", '"mac":"x"}', "")
    written: list[Json] = [{"text": text, "keys": {text: [1, 2.5, None, True]}} for text in texts]
    await journal.append(ONE, 0, [("said", body) for body in written])
    await journal.append(ONE, len(texts), [("next", {})])
    assert bodies(await open_on("b").read(ONE)) == [*written, {}]


@every_way
async def test_a_megabyte(journal: Journal, open_on: Open) -> None:
    """A big body comes back whole, though it does not compress."""
    text = random.Random(1).randbytes(500_000).hex()
    await journal.append(ONE, 0, [("said", {"text": text})])
    assert bodies(await open_on("b").read(ONE)) == [{"text": text}]


async def test_a_thousand_entries(journal: Journal, open_on: Open) -> None:
    """A long journal reads back whole and in order."""
    for start in range(0, 1000, 200):
        await journal.append(ONE, start, [("count", {"i": start + i}) for i in range(200)])
    entries = await open_on("b").read(ONE)
    assert [entry.n for entry in entries] == list(range(1, 1001))
    assert bodies(entries) == [{"i": i} for i in range(1000)]


async def test_reserved_key(journal: Journal) -> None:
    """A body that would pass for a line's own field is our bug, and nothing is written."""
    for key in ("n", "at", "kind", "prev", "mac"):
        with pytest.raises(Broken, match=f"hold {key} "):
            await journal.append(ONE, 0, [("fine", {}), ("bad", {key: 1})])
    assert await journal.read(ONE) == ()


async def test_not_json(journal: Journal) -> None:
    """A body that JSON cannot hold is our bug, and nothing is written."""
    for value in (float("nan"), object(), {1, 2}):
        with pytest.raises(Broken):
            await journal.append(ONE, 0, [("bad", {"value": value})])
    assert await journal.read(ONE) == ()


async def test_reader_cannot_change_it(journal: Journal) -> None:
    """What a reader does to an entry's body does not reach the journal."""
    await journal.append(ONE, 0, [("said", {"list": [1]})])
    (entry,) = await journal.read(ONE)
    entry.body["list"].append(2)
    assert bodies(await journal.read(ONE)) == [{"list": [1]}]


async def test_known_is_what_this_journal_saw_last(open_on: Open) -> None:
    """After an append nobody has to look again; what others wrote since is only seen by reading."""
    ours, theirs = open_on("a"), open_on("b")
    await ours.append(ONE, 0, [("requested", {"text": "one"})])
    assert await ours.cached_entries(ONE) == await ours.read(ONE)
    await theirs.append(ONE, 1, [("planned", {"text": "two"})])
    assert bodies(await ours.cached_entries(ONE))[:1] == [{"text": "one"}]
    with pytest.raises(Conflict):
        await ours.append(ONE, 1, [("planned", {"text": "late"})])
    assert bodies(await ours.read(ONE)) == [{"text": "one"}, {"text": "two"}]
    assert bodies(await open_on("c").cached_entries(ONE)) == [{"text": "one"}, {"text": "two"}]
