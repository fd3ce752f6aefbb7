"""The spool: an append is there whole or not at all, and two processes never mix."""

import resource
import sys
from pathlib import Path

import pytest

from bot.core.errors import Conflict, Refused
from bot.core.names import SessionId
from bot.store.transcripts import Spool, Spooled, parse, render

S = SessionId("s-1")


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "9" / "1")


def test_there_and_back(spool: Spool) -> None:
    """Records come back by ordinal, with where the file ends."""
    end = spool.append(S, {1: b"\x00\n\xff"}, at=0)
    end = spool.append(S, {2: b"two"}, at=end)
    assert spool.read(S) == Spooled({1: b"\x00\n\xff", 2: b"two"}, end)
    assert (spool.directory / S).stat().st_size == end
    assert spool.sessions() == (S,)


def test_nothing_there(spool: Spool) -> None:
    """A thread without sessions, and a session without a file, are empty."""
    assert spool.sessions() == ()
    assert spool.read(S) == Spooled()


def test_private(spool: Spool) -> None:
    """Nobody but the owner can read what is spooled."""
    spool.append(S, {1: b"one"}, at=0)
    assert (spool.directory / S).stat().st_mode & 0o077 == 0
    assert spool.directory.stat().st_mode & 0o077 == 0


@pytest.mark.req("L9")
def test_torn_anywhere(spool: Spool) -> None:
    """Wherever the last append was torn, it counts as never written, and the next one takes its place."""
    first = spool.append(S, {1: b"one"}, at=0)
    file = spool.directory / S
    whole = file.read_bytes() + render({2: b"two"})
    for size in range(first + 1, len(whole)):
        file.write_bytes(whole[:size])
        assert spool.read(S) == Spooled({1: b"one"}, first)
        spool.append(S, {2: b"other"}, at=first)
        assert spool.read(S).records == {1: b"one", 2: b"other"}


def test_what_is_whole_is_not_truncated(spool: Spool) -> None:
    """Only what a crash tore is cut off: on ext4, cutting waits until the append before is on the disk."""
    cut: list[int] = []
    sys.addaudithook(lambda event, given: cut.append(given[1]) if event == "os.truncate" else None)
    first = spool.append(S, {1: b"one"}, at=0)
    end = spool.append(S, {2: b"two"}, at=first)
    assert cut == []
    with (spool.directory / S).open("ab") as file:
        file.write(b"3 dG9")
    spool.append(S, {3: b"three"}, at=end)
    assert cut == [end]


@pytest.mark.req("E4")
def test_another_process_was_here(spool: Spool) -> None:
    """An append behind what another process wrote is a Conflict, and nothing is written."""
    end = spool.append(S, {1: b"one"}, at=0)
    with pytest.raises(Conflict):
        spool.append(S, {1: b"late"}, at=0)
    assert spool.read(S) == Spooled({1: b"one"}, end)


def test_cut(spool: Spool) -> None:
    """Cutting drops the records from an ordinal on, and leaves nothing else."""
    end = spool.append(S, {1: b"one", 2: b"two"}, at=0)
    spool.append(S, {3: b"three"}, at=end)
    spool.cut(S, 2)
    assert spool.read(S).records == {1: b"one"}
    assert spool.sessions() == (S,)
    assert [file.name for file in spool.directory.iterdir()] == [S]


@pytest.mark.parametrize("text", (b"\n", b"x\n", b"1 \n", b"0 YQ==\n", b"1 Y!==\n", b"1 YQ==\n1 YQ==\n", b"1\tYQ==\n"))
def test_damaged(text: bytes) -> None:
    """A whole line that is no record, or repeats one, is Refused with its number."""
    with pytest.raises(Refused, match=r"here, line \d"):
        parse(text, "here")


@pytest.mark.req("D2", "L9")
def test_no_room(spool: Spool) -> None:
    """An append that does not fit is an OSError that leaves the file as it was, and a smaller one fits afterwards."""
    end = spool.append(S, {1: b"one"}, at=0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="No space left"):
            spool.append(S, {2: b"x" * 2000}, at=end)
        assert spool.read(S) == Spooled({1: b"one"}, end)
        spool.append(S, {2: b"two"}, at=end)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert spool.read(S).records == {1: b"one", 2: b"two"}
