"""Reading a transcript beside the session that writes it: everything is seen, and nothing is changed."""

from pathlib import Path

import pytest

from bot.core.errors import Conflict, Refused
from bot.core.names import SessionId
from tests.store.test_transcripts import Open, S, line, open_on, spool_file

__all__ = ["open_on"]


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
