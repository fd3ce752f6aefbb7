"""Scheduled tasks in the stories: their configuration, their due times, and what their planners hand in."""

from collections.abc import Callable
from typing import Any, Final

from bot.core.names import ThreadAddress
from bot.core.reply_text import RUN_NOW
from bot.service.github_host import GitHubHost
from bot.service.maintenance_pass import MaintenancePass, TaskStatus
from bot.testing.model.reply import call, say
from tests.stories.github.ground import HOME, Story

DAY: Final = 24 * 3600.0
PATH: Final = ".github/plangate.yml"
SHIPPING: Final = "  - name: shipping\n    schedule: daily\n    prompt: Let orders of 50 ship free.\n"
STANDING: Final = '    approval: standing\n    paths: ["parcel/**", CHANGELOG.md]\n'


def configure(story: Story, more: str = "", *, own: str = SHIPPING) -> None:
    """Push a configuration with one daily task, or with none beside what more says."""
    story.configure(f"maintenance:\n{own}{more}")


async def run_pass(story: Story, host: GitHubHost | None = None, run_now: str = "") -> list[TaskStatus]:
    host = host or story.host
    (found,) = await host.served_repositories()
    return await MaintenancePass(host, found, run_now).run()


async def occurs(story: Story, days: float = 1) -> None:
    """Let the next due time come."""
    story.clock.advance(days * DAY)
    await run_pass(story)


async def wake_due(host: GitHubHost, wake: Callable[[ThreadAddress], None]) -> None:
    """Run one pass over the repository that leaves the sessions to the checks that it wakes."""
    (found,) = await host.served_repositories()
    await MaintenancePass(host, found, wake=wake).run()


def body(story: Story, number: int = 1) -> str:
    return str(story.issue(number).text.body)


def tick(story: Story, login: str, number: int = 1) -> None:
    text = body(story, number).replace(f"- [ ] {RUN_NOW}", f"- [x] {RUN_NOW}")
    story.person(login).edit_issue(HOME, number, body=text)


async def stand(story: Story) -> None:
    """Have people approve the first plan of the task, so that the configuration approves the next."""
    configure(story, STANDING)
    await run_pass(story)
    await occurs(story)
    assert story.nothing_done()
    story.reacts("maya", "+1")
    await story.rests(1)
    story.person("maya").merge(HOME, story.pulls()[0].number)
    story.model.turn_to_the_changelog()


def plans(story: Story, *operations: dict[str, Any], **more: Any) -> None:
    """Let the planner hand in operations, and answer if that is refused."""
    handed = call("exit_plan_mode", plan="Look after `src/old.py` and others.", operations=list(operations), **more)
    story.model.before = (handed, say("Nothing else is left to do."))


async def begins(story: Story) -> tuple[int, int]:
    """Open two issues beside the tracking issue, and let a due time come."""
    configure(story)
    await run_pass(story)
    first, second = story.opens("rita", "It breaks.", "A"), story.opens("rita", "It hangs.", "B")
    return first.number, second.number


def operation(kind: str, number: int, text: str = "") -> dict[str, Any]:
    return {"kind": kind, "number": number} | ({"text": text} if text else {})
