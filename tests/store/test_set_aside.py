"""Transcripts of a thread whose journal is gone: kept under another name, never used."""

from pathlib import Path

import pytest

from bot.store.transcripts import read_spool_file
from tests.store.test_transcripts import KEY, Open, S, line, open_on, spool_file, texts

__all__ = ["open_on"]


@pytest.mark.req("L9")
async def test_sessions_of_a_thread_that_is_no_more_are_set_aside(open_on: Open, tmp_path: Path) -> None:
    """They are neither read nor pushed, and kept: each time under another name, and readable there."""
    for text in ("old", "older"):
        gone = open_on("a")
        gone.append(S, [line(text)])
        gone.set_aside()
        assert texts(gone) == []
    transcripts = open_on("a")
    transcripts.append(S, [line("new")])
    await transcripts.save()
    assert texts(open_on("b")) == ["new"]
    kept = [spool_file(tmp_path).parent.with_name(f"1.aside-{number}") / S for number in (1, 2)]
    assert [read_spool_file(file, KEY)[0].body["text"] for file in kept] == ["old", "older"]


def test_nothing_to_set_aside(open_on: Open, tmp_path: Path) -> None:
    """A thread that was never here leaves no trace."""
    open_on("a").set_aside()
    assert not (tmp_path / "a" / "spool").exists()
