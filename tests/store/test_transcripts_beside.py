"""Reading a transcript beside the session that writes it: everything is seen, and nothing is changed."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import pytest

from bot.core.errors import Conflict, Refused
from bot.core.names import RepositoryId, SessionId, ThreadNumber
from bot.core.transcript import Line, LineKind
from bot.store.keys import StateKey
from bot.store.thread_refs import ThreadRefs
from bot.store.transcripts import SpooledTranscripts

ONE, NINE = ThreadNumber(1), RepositoryId(9)
S = SessionId("s-1")
KEY = StateKey(b"k" * 32)

Open: TypeAlias = Callable[[str], SpooledTranscripts]


@pytest.fixture
def open_on(refs_on: Callable[[str], ThreadRefs], tmp_path: Path) -> Open:
    """Opens the thread's transcripts as a new process on the named machine does."""
    return lambda machine: SpooledTranscripts(refs_on(machine), NINE, ONE, key=KEY, spool=tmp_path / machine / "spool")


def line(text: str) -> Line:
    return Line(LineKind.NOTE, datetime(2026, 11, 20, tzinfo=UTC), {"text": text})


def spool_file(tmp_path: Path) -> Path:
    return tmp_path / "a" / "spool" / "9" / "1" / S


async def test_reading_beside_the_session(open_on: Open, tmp_path: Path) -> None:
    """A reader sees what is on this disk and in the ref, lists every session, and changes neither."""
    writer, reader = open_on("a"), open_on("a")
    writer.append(S, [line("one")])
    assert [each.body["text"] for each in reader.peek(S)] == ["one"]
    await writer.save()
    writer.append(S, [line("two")])
    writer.append(SessionId("s-2"), [line("other")])
    before = spool_file(tmp_path).read_bytes()
    assert [each.body["text"] for each in open_on("a").peek(S)] == ["one", "two"]
    assert open_on("a").sessions() == (S, SessionId("s-2"))
    assert open_on("b").sessions() == (S,)
    assert [each.body["text"] for each in open_on("b").peek(S)] == ["one"]
    assert open_on("b").peek(SessionId("none")) == ()
    assert spool_file(tmp_path).read_bytes() == before
    writer.append(S, [line("three")])
    with pytest.raises(Refused):
        open_on("a").peek(SessionId("../s-1"))


async def test_reading_what_was_overtaken(open_on: Open, tmp_path: Path) -> None:
    """Where ref and disk differ the ref is shown; the running session still learns of it by itself."""
    old = open_on("a")
    old.append(S, [line("one")])
    await old.save()
    new = open_on("b")
    new.load(S)
    new.append(S, [line("two")])
    await new.save()
    old.append(S, [line("two, by the old one")])
    old.append(S, [line("three, by the old one")])
    before = spool_file(tmp_path).read_bytes()
    assert [each.body["text"] for each in open_on("a").peek(S)] == ["one", "two"]
    assert spool_file(tmp_path).read_bytes() == before
    with pytest.raises(Conflict):
        await old.save()


async def test_a_record_that_is_missing(open_on: Open, tmp_path: Path) -> None:
    """A reader sees the lines before it."""
    writer = open_on("a")
    for words in ("one", "two", "three"):
        writer.append(S, [line(words)])
    first, _, third = spool_file(tmp_path).read_bytes().splitlines(keepends=True)
    spool_file(tmp_path).write_bytes(first + third)
    assert [each.body["text"] for each in open_on("a").peek(S)] == ["one"]
