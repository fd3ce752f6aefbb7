"""A transcript whose first message holds pictures (K9)."""

import base64
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.core.names import RepositoryId, SessionId, ThreadNumber
from bot.core.transcript import Line, LineKind
from bot.store.sealing import StateKey
from bot.store.thread_refs import ThreadRefs
from bot.store.transcripts import SpooledTranscripts
from tests.store.conftest import Repository


@pytest.mark.long
@pytest.mark.req("K9", "L9")
async def test_a_line_with_pictures(
    refs_on: Callable[[str], ThreadRefs], repository: Repository, tmp_path: Path
) -> None:
    """The most that a session is shown, 8 MB of base64, is stored in one file, and another machine goes on from it."""

    def machine(name: str) -> SpooledTranscripts:
        key, spool = StateKey(b"k" * 32), tmp_path / name / "spool"
        return SpooledTranscripts(refs_on(name), RepositoryId(9), ThreadNumber(1), key=key, spool=spool)

    session, data = SessionId("s-1"), base64.b64encode(random.Random(1).randbytes(6_000_000)).decode()
    transcripts = machine("a")
    transcripts.append(session, [Line(LineKind.NOTE, datetime(2026, 11, 20, tzinfo=UTC), {"data": data})])
    await transcripts.save()
    assert max(map(len, repository.files().values())) < 8_100_000
    (line,) = machine("b").load(session)
    assert line.body == {"data": data}
