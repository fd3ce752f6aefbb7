"""The contract of the Transcripts port, held against every adapter."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from bot.core.errors import Refused
from bot.core.names import RepositoryId, SessionId, ThreadNumber
from bot.core.transcript import Line, LineKind
from bot.ports import Transcripts
from bot.store.sealing import StateKey
from bot.store.thread_refs import ThreadRefs
from bot.store.transcripts import SpooledTranscripts
from tests.memory_store import MemoryTranscripts

Open: TypeAlias = Callable[[str], Transcripts]

MAIN, OTHER = SessionId("plan-1"), SessionId("plan-1.explore_2")


@pytest.fixture(params=("memory", "path", "http"))
def open_on(request: pytest.FixtureRequest, refs_of: Callable[[str, str], ThreadRefs], tmp_path: Path) -> Open:
    """Opens the one thread's transcripts as a new process on the named machine does."""
    memory = MemoryTranscripts()

    def opened(machine: str) -> Transcripts:
        if request.param == "memory":
            return memory
        refs, spool = refs_of(request.param, machine), tmp_path / machine / "spool"
        return SpooledTranscripts(refs, RepositoryId(9), ThreadNumber(1), key=StateKey(b"k" * 32), spool=spool)

    return opened


def line(text: str, **more: Any) -> Line:
    body = {"message": {"role": "user", "content": text}} | more
    return Line(LineKind.MESSAGE, datetime(2026, 11, 20, 9, tzinfo=UTC), body)


def test_unknown_session(open_on: Open) -> None:
    """A session that nobody wrote has no lines."""
    assert open_on("a").load(MAIN) == ()


@pytest.mark.req("L9")
def test_what_is_set_aside_is_not_read(open_on: Open) -> None:
    """A thread whose journal is gone begins anew, under the same ids."""
    transcripts = open_on("a")
    transcripts.append(MAIN, [line("old")])
    transcripts.set_aside()
    assert transcripts.load(MAIN) == ()
    transcripts.append(MAIN, [line("new")])
    assert transcripts.load(MAIN) == (line("new"),)


@pytest.mark.req("L9")
def test_append_and_load(open_on: Open) -> None:
    """Lines come back in order and as they were: key order, unknown fields and half surrogates included."""
    transcripts = open_on("a")
    lines = [line("one\u2028\n🎉"), line("\ud83d", zebra={"b": 1, "a": [None, 2.5]}, alpha=""), line("x" * 100_000)]
    transcripts.append(MAIN, lines[:2])
    transcripts.append(MAIN, lines[2:])
    loaded = transcripts.load(MAIN)
    assert loaded == tuple(lines)
    assert [list(each.body) for each in loaded] == [list(each.body) for each in lines]
    assert [each.encode() for each in loaded] == [each.encode() for each in lines]


def test_nothing_to_append(open_on: Open) -> None:
    """An append of no lines writes none."""
    transcripts = open_on("a")
    transcripts.append(MAIN, [])
    assert transcripts.load(MAIN) == ()


def test_sessions_are_apart(open_on: Open) -> None:
    """Each session has its own lines, though one's name begins with the other's."""
    transcripts = open_on("a")
    transcripts.append(MAIN, [line("main")])
    transcripts.append(OTHER, [line("other")])
    transcripts.append(MAIN, [line("main again")])
    assert transcripts.load(MAIN) == (line("main"), line("main again"))
    assert transcripts.load(OTHER) == (line("other"),)


@pytest.mark.req("L8")
def test_resumed_by_another_process(open_on: Open) -> None:
    """Another process on the same machine finds everything, saved or not, and goes on behind it."""
    open_on("a").append(MAIN, [line("one"), line("two")])
    second = open_on("a")
    assert second.load(MAIN) == (line("one"), line("two"))
    second.append(MAIN, [line("three")])
    assert open_on("a").load(MAIN) == (line("one"), line("two"), line("three"))


@pytest.mark.req("L8")
def test_appended_without_loading(open_on: Open) -> None:
    """A process that appends without having loaded appends behind what is there."""
    open_on("a").append(MAIN, [line("one")])
    open_on("a").append(MAIN, [line("two")])
    assert open_on("a").load(MAIN) == (line("one"), line("two"))


@pytest.mark.req("L8", "L9")
async def test_resumed_where_the_disk_is_gone(open_on: Open) -> None:
    """What was saved is found on a machine that has no spool, and goes on from there, over several saves."""
    first = open_on("a")
    first.append(MAIN, [line("one")])
    first.append(OTHER, [line("other")])
    await first.save()
    first.append(MAIN, [line("two")])
    await first.save()
    second = open_on("b")
    assert second.load(MAIN) == (line("one"), line("two"))
    second.append(MAIN, [line("three")])
    await second.save()
    assert open_on("c").load(MAIN) == (line("one"), line("two"), line("three"))
    assert open_on("c").load(OTHER) == (line("other"),)


async def test_saved_twice(open_on: Open) -> None:
    """Saving again, with nothing new and from another process of the machine, doubles nothing."""
    first = open_on("a")
    first.append(MAIN, [line("one")])
    await first.save()
    await first.save()
    await open_on("a").save()
    assert open_on("b").load(MAIN) == (line("one"),)
    assert first.load(MAIN) == (line("one"),)


async def test_nothing_to_save(open_on: Open) -> None:
    """Saving before anything was added does nothing."""
    await open_on("a").save()
    assert open_on("b").load(MAIN) == ()


def test_session_that_is_no_name(open_on: Open) -> None:
    """A session id that could be anything but a plain file name is refused."""
    transcripts = open_on("a")
    for session in ("", ".", "..", ".git", "a/b", "../x", "a b", "a\n", "x" * 65, "é", "a\0"):
        with pytest.raises(Refused):
            transcripts.append(SessionId(session), [line("x")])
        with pytest.raises(Refused):
            transcripts.load(SessionId(session))
