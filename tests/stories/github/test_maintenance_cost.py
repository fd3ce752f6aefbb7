"""What scheduled tasks cost where there is nothing to do (MT4, E2)."""

from dataclasses import replace

import pytest

from bot.compose.github import HostSetup
from bot.config.settings import Secret
from bot.core.configuration import MOST_TASKS
from bot.github.repository import Address
from bot.service.github_host import GitHubHost
from bot.service.maintenance_pass import run_due_tasks
from bot.testing.github import credentials
from tests.stories.github.ground import HOME, Story, long
from tests.stories.github.test_maintenance import DAY, SHIPPING, body, configure
from tests.stories.github.test_requests import Cost, cost_of


async def cost_of_pass(story: Story, host: GitHubHost) -> Cost:
    before = len(story.github.requests)
    await run_due_tasks(host)
    return cost_of(story.github.requests[before:])


@pytest.mark.req("MT4", "E2")
@pytest.mark.parametrize("tasks", (1, long(10), long(MOST_TASKS)))
async def test_nothing_due(story: Story, tasks: int) -> None:
    """A pass of a process that goes on: the list of repositories, the configuration, and all tracking issues."""
    configure(story, own="".join(SHIPPING.replace("shipping", f"task-{n}") for n in range(tasks)))
    await cost_of_pass(story, story.host)
    await cost_of_pass(story, story.host)
    cost = await cost_of_pass(story, story.host)
    assert (cost.rest, cost.queries) == (3, 1)
    assert story.model.heard == story.model.lightly == []


@pytest.mark.req("MT4", "E2", "MT10")
async def test_nothing_due_in_a_job_of_the_action(story: Story) -> None:
    """Also for a process that has seen nothing yet."""
    configure(story)
    token = credentials.job_token(story.world, story.world.repository(HOME))
    github = replace(story.host.settings.github, app_id="", token=Secret(token.value))
    given = replace(story.host.settings, github=github, state_key=Secret("7" * 64))
    costs = []
    for _ in range(3):
        async with HostSetup(given, (Address(*HOME.split("/")),), clock=story.clock) as host:
            costs.append(await cost_of_pass(story, host))
    assert (costs[-1].rest, costs[-1].queries) == (2, 1)


@pytest.mark.req("MT4", "E2")
async def test_a_check_that_prints_nothing(story: Story) -> None:
    """Its occurrence asks the model nothing, and writes the tracking issue once."""
    configure(story, "    check: 'true'\n")
    await run_due_tasks(story.host)
    story.clock.advance(DAY)
    before = len(story.asked("PATCH "))
    await run_due_tasks(story.host)
    assert "nothing to do" in body(story)
    assert story.model.heard == story.model.lightly == []
    assert len(story.asked("PATCH ")) == before + 1
