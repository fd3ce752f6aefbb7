"""Transcripts that real sessions stored, as the dashboard reads them: on this machine, and on one that never worked."""

from dataclasses import replace
from pathlib import Path

from bot.compose.overview_parts import StoredTranscripts
from bot.core.secrets.redaction import Redactor
from bot.service.connections import Connections
from bot.service.overview.transcript_steps import transcript_page
from bot.service.overview.transcript_views import PartKind
from tests.stories.github.ground import Story


async def test_sessions_are_read_here_and_elsewhere(story: Story, tmp_path: Path) -> None:
    """The planner's session is listed, its plan is in it, and its cost is the one in the journal."""
    await story.planned()
    address, here = story.address(), StoredTranscripts(story.host.connections)
    elsewhere = Connections(replace(story.host.settings, data_dir=tmp_path / "elsewhere"), story.clock)
    try:
        for source in (here, StoredTranscripts(elsewhere)):
            (session,) = await source.transcripts(address)
            page = transcript_page(session, await source.transcript(address, session), 1, Redactor())
            calls = [part.call for step in page.steps for part in step.parts if part.kind is PartKind.CALL]
            assert calls[-1] is not None
            assert calls[-1].tool == "exit_plan_mode"
            assert page.answers == len(page.steps) - 1 > 0
            assert round(page.cost_usd, 9) == round(story.records[1].cost_usd or 0, 9)
    finally:
        await elsewhere.close()
