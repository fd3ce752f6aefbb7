"""Reads what decides whether work can be published (CL1): one query, and the rules for the branch.

https://docs.github.com/en/rest/repos/rules#get-rules-for-a-branch
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from bot.core.checks import NAMING, REFUSING, UNSIGNED, PublishingFacts
from bot.core.errors import PlangateError
from bot.github.client import GitHubClient, Json
from bot.github.repository import Address
from bot.github.responses import require_present

_BYPASSED: Final = frozenset({"always", "exempt"})
_OPERATORS: Final = {"starts_with": str.startswith, "ends_with": str.endswith, "contains": str.__contains__}
_REFUSED: Final = ("not permitted", "not accessible")
"""Parts of GitHub's messages that say that a token may not open pull requests."""
_QUERY: Final = """
query ($owner: String!, $name: String!, $branch: String!, $parent: String!) {
  repository(owner: $owner, name: $name) { id defaultBranchRef { name }
    branch: ref(qualifiedName: $branch) { name } parent: ref(qualifiedName: $parent) { name } } }
"""
_OPEN: Final = "mutation ($pull: CreatePullRequestInput!) { createPullRequest(input: $pull) { clientMutationId } }"
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PublishingReader:
    """Reads about the branches of one repository."""

    client: GitHubClient
    address: Address
    signs: bool
    """Whether commits are signed."""
    tries_pulls: bool
    """Whether only a trial shows if the token may open pull requests. An App's token names its permissions."""

    async def read(self, branch: str) -> PublishingFacts:
        """Return the facts for a branch, which need not exist. What cannot be read counts as no obstacle."""
        refs = {"branch": f"refs/heads/{branch}", "parent": f"refs/heads/{branch.partition('/')[0]}"}
        try:
            answer = (await self.client.graphql(_QUERY, self.address.variables | refs))["repository"]
            repository = require_present(answer, "the repository")
            rules = await self._rules(branch)
        except PlangateError as error:
            _log.warning("whether work can be published is unknown: %s", error)
            return PublishingFacts()
        types = frozenset(str(rule["type"]) for rule in rules) - ({UNSIGNED} if self.signs else set())
        misnamed = tuple(filter(None, (_breaks(rule, branch) for rule in rules if rule["type"] == NAMING)))
        taken = (repository["branch"] or repository["parent"] or {"name": ""})["name"]
        no_pulls = await self._refusal_of_pulls(repository) if self.tries_pulls else ""
        return PublishingFacts(types, misnamed, taken, no_pulls)

    async def _rules(self, branch: str) -> Sequence[Json]:
        """Return the rules that may refuse a push of the bot, without those of rulesets that it surely bypasses.

        https://docs.github.com/en/rest/repos/rules#get-a-repository-ruleset
        """
        every = self.client.pages(f"{self.address.path}/rules/branches/{quote(branch, safe='')}")
        rules = [rule async for rule in every if rule["type"] in {*REFUSING, NAMING}]
        bypassed = set[int]()
        for number in {int(rule["ruleset_id"]) for rule in rules if rule.get("ruleset_id")}:
            with suppress(PlangateError):
                ruleset = await self.client.get(f"{self.address.path}/rulesets/{number}")
                bypassed |= {number} if ruleset.get("current_user_can_bypass") in _BYPASSED else set()
        return [rule for rule in rules if rule.get("ruleset_id") not in bypassed]

    async def _refusal_of_pulls(self, repository: Json) -> str:
        """Return GitHub's words if the token may not open pull requests, else "".

        The trial asks for one from a branch to itself, which GitHub never opens.
        """
        default = (repository["defaultBranchRef"] or {}).get("name", "")
        trial = {"repositoryId": repository["id"], "baseRefName": default, "headRefName": default, "title": "Trial"}
        try:
            await self.client.mutate(_OPEN, {"pull": trial})
        except PlangateError as error:
            return error.what if any(words in error.what for words in _REFUSED) else ""
        return ""


def _breaks(rule: Json, branch: str) -> str:
    """Return the rule for names, in words, if the branch breaks it, else "". Regular expressions are not evaluated."""
    given = rule.get("parameters") or {"operator": "", "pattern": ""}
    operator, pattern, is_negated = str(given["operator"]), str(given["pattern"]), bool(given.get("negate"))
    test = _OPERATORS.get(operator)
    if test is None or test(branch, pattern) is not is_negated:
        return ""
    return f"{'not ' if is_negated else ''}{operator.replace('_', ' ')} {pattern}"
