"""Threads of all the days before: a machine that has seen nothing yet is not made to fetch them."""

import random
import subprocess
from datetime import timedelta
from pathlib import Path

from bot.core.names import ThreadNumber
from bot.store.thread_refs import Change, Remote, ThreadRefs
from tests.contracts.conftest import StandingClock

BIG = 50_000


def old(number: int) -> Change:
    """Add a file that does not compress."""
    return lambda _: {"old": random.Random(number).randbytes(BIG)}


def test_only_todays_files_come(repository: Path, http: Remote, tmp_path: Path, clock: StandingClock) -> None:
    """Whoever asks what was written today gets that, and not the files of ten threads that are older."""
    subprocess.run(["git", "-C", repository, "config", "uploadpack.allowFilter", "true"], check=True)
    theirs, ours = (ThreadRefs(http, tmp_path / name / "scratch.git", clock) for name in ("theirs", "ours"))
    for number in range(1, 11):
        theirs.commit(ThreadNumber(number), old(number), "old")
    clock.at += timedelta(days=1)
    today = ThreadNumber(11)
    theirs.commit(today, lambda _: {"new": b"today"}, "new")
    assert ours.since(clock.at) == (today,)
    assert ours.read([ours.last_seen(today).files["new"]]) == [b"today"]
    assert sum(file.stat().st_size for file in (tmp_path / "ours").rglob("*") if file.is_file()) < BIG
    assert len(ours.since(clock.at - timedelta(days=1))) == 11
