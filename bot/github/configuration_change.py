"""Who changed the configuration file last: the person whose standing approval it is (MT6).

https://docs.github.com/en/rest/commits/commits#list-commits
https://docs.github.com/en/rest/commits/commits#list-pull-requests-associated-with-a-commit
https://docs.github.com/en/rest/pulls/pulls#get-a-pull-request
"""

from bot.core.decision_evidence import ConfigurationChange
from bot.core.names import CommitId
from bot.github.client import GitHubClient
from bot.github.people import rest_actor
from bot.github.repository import Address


async def newest_change(client: GitHubClient, at: Address, path: str) -> ConfigurationChange | None:
    """Return the newest commit on the default branch that changed a file, and who put it there; None for no such file.

    That is who merged its pull request, or without one, the author that GitHub knows of the commit.
    """
    commits, _ = await client.page(f"{at.path}/commits", {"path": path, "per_page": 1})
    if not commits:
        return None
    newest = CommitId(str(commits[0]["sha"]))
    pulls, _ = await client.page(f"{at.path}/commits/{newest}/pulls", {"per_page": 10})
    merged = next((pull for pull in pulls if pull["merged_at"]), None)
    if merged is None:
        return ConfigurationChange(newest, rest_actor(commits[0]["author"]))
    whole = await client.get(f"{at.path}/pulls/{merged['number']}")
    return ConfigurationChange(newest, rest_actor(whole["merged_by"]))
