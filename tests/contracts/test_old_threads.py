"""Threads of all the days before: a machine that has seen nothing yet is not made to fetch them."""

import random
import subprocess
from datetime import timedelta
from pathlib import Path

from bot.core.names import ThreadNumber
from bot.store.thread_refs import Change, Remote, ThreadRefs
from bot.workspace.remote import RemoteRepository
from tests.contracts.conftest import TOKEN, StandingClock
from tests.contracts.smart_http import served

BIG = 50_000


def old(number: int) -> Change:
    """Add a file that does not compress."""
    return lambda _: {"old": random.Random(number).randbytes(BIG)}


def test_only_todays_files_come(repository: Path, tmp_path: Path, clock: StandingClock) -> None:
    """Whoever asks what was written today gets that, without the files of ten older threads, and nothing twice."""
    subprocess.run(["git", "-C", repository, "config", "uploadpack.allowFilter", "true"], check=True)
    heard: list[bytes] = []
    with served(repository.parent, TOKEN) as site:
        site.heard = heard.append
        source = RemoteRepository(site.url(repository.name), lambda: TOKEN)
        http = Remote(source.location, environment=source.environment)
        theirs = ThreadRefs(Remote(str(repository)), tmp_path / "theirs/scratch.git", clock)
        ours = ThreadRefs(http, tmp_path / "ours/scratch.git", clock)
        for number in range(1, 11):
            theirs.commit(ThreadNumber(number), old(number), "old")
        clock.at += timedelta(days=1)
        today = ThreadNumber(11)
        theirs.commit(today, lambda _: {"new": b"today"}, "new")
        assert ours.since(clock.at) == (today,)
        assert ours.read([ours.last_seen(today).files["new"]]) == [b"today"]
        assert sum(file.stat().st_size for file in (tmp_path / "ours").rglob("*") if file.is_file()) < BIG
        heard.clear()
        assert ours.since(clock.at) == (today,)
        assert heard
        assert not any(b"command=fetch" in body for body in heard)
        assert len(ours.since(clock.at - timedelta(days=1))) == 11
