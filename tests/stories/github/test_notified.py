"""What the operator's webhook is told of a whole story, and what a death of the process does not change."""

from collections.abc import Sequence

import pytest

from bot.compose.github import HostSetup
from bot.core.gate import Stage
from bot.core.moves import Entry
from bot.core.names import ThreadAddress
from bot.core.reporting import notifications
from bot.testing.model.reply import say
from tests.stories.github.ground import Story

Told = dict[str, tuple[object, object, object]]


async def told_by(story: Story, *, looks: bool = False) -> Told:
    """Return what a new process reports, which only lists threads, or looks at the first one: type, stage, and URL."""
    told: Told = {}

    def observe(address: ThreadAddress, entries: Sequence[Entry]) -> None:
        for each in notifications(address, entries, entries[0].at):
            payload = each.payload("https://github.example")
            told[each.id] = payload["type"], payload["data"]["stage"], payload["data"]["url"]

    async with HostSetup(story.host.settings, clock=story.clock, observe=observe) as host:
        await (host.check_thread(story.address()) if looks else host.open_threads())
    return told


@pytest.mark.long
async def test_what_a_process_could_not_report(story: Story) -> None:
    """A process that dies right after a move reports it after its restart, also if the thread rests by then."""
    story.model.before = (say("They do so already."),)
    story.opens("will")
    assert (await story.rests(1)).stage is Stage.ANSWERED
    answered = await told_by(story)
    where = f"{story.address().owner}/{story.address().name}"
    assert [*answered.values()] == [("done", "answered", f"https://github.example/{where}/issues/1")]
    assert await told_by(story, looks=True) == answered
    story.model.before = ()
    story.says("will", "@plangate then do it for 49", 1)
    waiting = (await story.rests(1)).plan.comment_url
    later = await told_by(story)
    assert [each for key, each in later.items() if key not in answered] == [("waiting", "awaiting_approval", waiting)]
