"""Removes what an earlier run of the experiments left behind because it was killed, or lost its connection.

Everything is found by its name, and nothing else is touched. It can be repeated: what is gone is not looked for again.
The ruleset goes first, because it protects the branches.
"""

from collections.abc import AsyncIterator

from bot.compose.live.testbed import COMMITS, NAME, PULL, REF, Testbed
from bot.github.live_repository import MESSAGE
from bot.github.repository_settings import environment_settings


async def remove_leftovers(testbed: Testbed) -> AsyncIterator[str]:
    """Remove what is there under the names of the experiments, and yield each thing. Raises Refused and Transient."""
    repository = testbed.repository
    if await repository.remove_rulesets(NAME):
        yield f"ruleset {NAME}"
    for title in (NAME, PULL):
        if await repository.close_threads(title):
            yield f"open thread {title!r}"
    for prefix in (f"refs/heads/{NAME}", REF):
        for ref in await repository.refs(prefix.removeprefix("refs/")):
            await repository.remove_ref(ref)
            yield ref
    if await environment_settings(repository.client, repository.at, NAME):
        await repository.remove_environment(NAME)
        yield f"environment {NAME}"
    if number := await _remove_commits(testbed):
        yield f"{number} commits on {testbed.profile.default_branch}, with the workflows"


async def _remove_commits(testbed: Testbed) -> int:
    """Reset the default branch to the commit below those of the experiments. Return how many there were.

    They are the newest ones: a branch with commits of others on top is refused (`Testbed.require_disposable`).
    """
    commits = await testbed.repository.commits(COMMITS)
    number = next((at for at, (_, message) in enumerate(commits) if message != MESSAGE), 0)
    if number:
        await testbed.repository.set_branch(testbed.profile.default_branch, commits[number][0])
    return number
