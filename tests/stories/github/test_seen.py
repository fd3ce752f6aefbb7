"""What people see of threads while they go on: the list, one thread, and its events."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from bot.cli.threads import ServiceClient, watch_thread
from bot.compose.github import HostSetup
from bot.compose.worker_process import recorder_of, reindex
from bot.config.settings import Secret
from bot.core.gate import Stage
from bot.core.secrets.redaction import Redactor
from bot.service.overview.agent_tree import JournalStep, add_up, bookings, journal_steps
from bot.service.overview.recorder import JournalReader
from bot.service.overview.thread_index import ThreadQuery
from bot.service.overview.thread_views import describe
from bot.service.overview.views import ThreadDetail, ThreadSummary, WaitsFor
from tests.stories.github.ground import HOME, WISH, Story
from tests.stories.github.service import Served
from tests.stories.ground import until


@pytest.mark.long
async def test_a_look_and_another_process_see_the_same(story: Story, tmp_path: Path) -> None:
    """The list has each entry of a look as soon as it is journaled; one that is made again from the journals is equal,
    and costs GitHub no request but for listing and fetching."""
    given = replace(story.host.settings, data_dir=tmp_path / "seen")
    recorder = recorder_of(given, Redactor())

    def rows() -> tuple[ThreadSummary, ...]:
        return recorder.index.page(ThreadQuery()).threads

    story.opens("will")
    async with HostSetup(given, clock=story.clock, recorder=recorder) as host:
        other = replace(story, host=host)
        await other.rests()
        (waiting,) = rows()
        assert (waiting.repository, waiting.number, waiting.requester) == (HOME, 1, "will")
        assert (waiting.stage, waiting.waiting_for) == (Stage.AWAITING_APPROVAL, WaitsFor.APPROVER)
        assert str(waiting.plan_digest).startswith(story.digest)
        story.reacts("ada", "rocket")
        await other.rests()
        (done,) = rows()
        assert (done.stage, done.waiting_for) == (Stage.IN_REVIEW, WaitsFor.REVIEWER)
        assert done.pull_request
        before = len(story.github.requests)
        entries = await JournalReader(host.thread_journal).entries(story.address())
        steps = [*journal_steps(entries)]
        detail = describe(story.address(), steps, given.github.server_url)
        asked = [each.name for each in story.github.requests[before:]]
        assert [name for name in asked if "git-upload-pack" not in name and "info/refs" not in name] == []
    assert detail.summary == done
    check_detail(detail, steps)
    again = replace(given, data_dir=tmp_path / "again")
    assert await reindex(again, Redactor()) == {HOME: 1}
    assert recorder_of(again, Redactor()).index.page(ThreadQuery()).threads == (done,)


def check_detail(detail: ThreadDetail, steps: Sequence[JournalStep]) -> None:
    """Compare what is shown of the thread with what happened on it."""
    assert [agent.name for agent in detail.agents] == ["plan-1", "work-1"]
    assert {agent.model for agent in detail.agents} == {"claude-opus-5-5"}
    assert [line.name for line in add_up(bookings(HOME, steps)).models] == ["claude-opus-5-5"]
    assert detail.plan is not None
    assert (detail.plan.decision, detail.approvals[-1].login, detail.approvals[-1].way) == (
        "approved",
        "ada",
        "reaction",
    )


@pytest.mark.long
@pytest.mark.timeout(120)
def test_a_watcher_of_a_service(served: Served) -> None:
    """Whoever watches sees every entry once, across a kill of the service, up to the pull request."""
    served.begin()
    base, out, codes = f"http://127.0.0.1:{served.port}", StringIO(), list[int]()
    served.opens("will", f"@plangate {WISH}")
    client = ServiceClient(base, Secret(""))
    until(lambda: client.read("/api/threads")[0], "the thread is listed")
    watching = threading.Thread(target=lambda: codes.append(watch_thread(client, f"{HOME}#1", out)))
    watching.start()
    until(served.plans, "the plan comment")
    served.die(alone=True)
    served.says("ada", f"@plangate approve {served.digest}")
    watching.join(90)
    assert codes == [0], served.log()
    found, _ = client.read(f"/api/threads/{HOME}/1")
    shown = [entry for entry in found["timeline"] if entry["stage"] != "in_review"]
    assert found["stage"] == "in_review"
    assert len(out.getvalue().splitlines()) == len(shown) + 1
