"""What changed on GitHub that no webhook reports, and what a person asked on one day."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bot.core.names import RepositoryId
from bot.core.turn import Command, Turn, UnknownCommand, Verb, parse
from bot.github.client import AT_ONCE, GitHubClient, Json
from bot.github.repository import Address, repository_id
from bot.github.responses import WHO, Missing, RateLimited, require_present, time
from bot.github.threads import COMMENTS, GitHubThread, pull_request_fields, read_thread, subject
from bot.github.turns import LABEL, BotIdentity, ParsedText, ParsedTextCache

# --- Changes in repositories since a given time ----------------------------------------------------------------------
# GitHub does not resend a lost webhook, so this module reads what the webhook would have reported (W3). One query, at
# two points, returns when the newest thread of each of a hundred repositories changed. Only the repositories that
# changed are read further. A comment, an edit, a label, or an assignment on a thread moves its `updatedAt`. The result
# is only which threads to check; the check itself decides.
# https://docs.github.com/en/graphql/reference/objects#repository

NEWEST: Final = 20
"""Number of comments and reviews of a thread that are read here. A thread that may have more is checked anyway."""
CHANGED: Final = "moved-"
"""Prefix of the key for a thread of which only the time of its last change is known."""
RESERVE: Final = 0.2
"""Fraction of the hourly points that is reserved for the work itself (E2)."""

_BUDGET: Final = "rateLimit { limit remaining resetAt }"
_TIMES: Final = """
  id databaseId name owner { login }
  issues(first: 1, orderBy: { field: UPDATED_AT, direction: DESC }) { nodes { updatedAt } }
  pullRequests(first: 1, orderBy: { field: UPDATED_AT, direction: DESC }) { nodes { updatedAt } }
"""
_CHANGE_TIMES: Final = f"query ($ids: [ID!]!) {{ {_BUDGET} nodes(ids: $ids) {{ ... on Repository {{ {_TIMES} }} }} }}"
_ONE_CHANGE_TIMES: Final = (
    f"query ($owner: String!, $name: String!) {{ {_BUDGET} repository(owner: $owner, name: $name) {{ {_TIMES} }} }}"
)
_ISSUES: Final = f"""
query ($id: ID!, $since: DateTime!, $after: String) {{
  {_BUDGET}
  node(id: $id) {{
    ... on Repository {{
      threads: issues(
        first: 20, after: $after, filterBy: {{ since: $since }}, orderBy: {{ field: UPDATED_AT, direction: ASC }}
      ) {{
        nodes {{ __typename {subject(NEWEST)} }}
        pageInfo {{ hasNextPage endCursor }}
      }}
    }}
  }}
}}
{COMMENTS} {WHO}
"""
# Pull requests take no `since`, so they are read from the newest back to the first one that did not change.
_PULLS: Final = f"""
query ($id: ID!, $after: String) {{
  {_BUDGET}
  node(id: $id) {{
    ... on Repository {{
      threads: pullRequests(first: 10, after: $after, orderBy: {{ field: UPDATED_AT, direction: DESC }}) {{
        nodes {{ __typename {subject(NEWEST)} {pull_request_fields(NEWEST)} }}
        pageInfo {{ hasNextPage endCursor }}
      }}
    }}
  }}
}}
{COMMENTS} {WHO}
"""


@dataclass(frozen=True, slots=True)
class RepositoryActivity:
    """One repository as it is now, and when its newest issue and pull request changed (None: it has none)."""

    id: RepositoryId
    node: str
    address: Address
    issues: datetime | None
    pulls: datetime | None

    def has_changed_since(self, moment: datetime) -> bool:
        """Return whether anything changed at that time or later."""
        return any(newest is not None and newest >= moment for newest in (self.issues, self.pulls))


@dataclass(frozen=True, slots=True)
class ActiveThread:
    """A thread that changed, and when. It holds only its newest comments and reviews."""

    thread: GitHubThread
    at: datetime

    def unheard_keys(self, identity: BotIdentity, since: datetime, heard: frozenset[str]) -> frozenset[str]:
        """Return the keys of the posts not in `heard` that may address the bot, judged without parsing them.

        Adds a key that begins with CHANGED if new posts may not have been read, or if the bot's label or assignment is
        set.
        """
        thread = self.thread
        new = (post for post in thread.everything() if {post.key, post.version}.isdisjoint(heard))
        keys = {post.key for post in new if identity.accepts(post.actor) and identity.may_be_addressed(thread, post)}
        if self._may_be_incomplete(since) or ("issue" not in keys and self._is_marked(identity)):
            keys.add(f"{CHANGED}{self.at:%Y%m%dT%H%M%S}")  # which part is new is unknown here
        return frozenset(keys)

    def _is_marked(self, identity: BotIdentity) -> bool:
        """Return whether it is an issue that has the bot's label, or that the bot is assigned to."""
        thread = self.thread
        return thread.pull is None and (LABEL in thread.labels or identity.bot.id in thread.assignees)

    def _may_be_incomplete(self, since: datetime) -> bool:
        """Return whether the thread may have comments or reviews since then that were not read."""
        thread = self.thread
        comments = bool(thread.older) and thread.comments[0].at >= since
        reviews = bool(thread.older_reviews) and all(review.at >= since for review in thread.reviews)
        return comments or reviews or any(review.more and review.at >= since for review in thread.reviews)


async def repository_activities(client: GitHubClient, nodes: Sequence[str]) -> tuple[RepositoryActivity, ...]:
    """Return when up to 100 repositories, given by node id, last changed. Repositories that are gone are left out.

    Raises RateLimited if so few points are left that the work itself may need them.
    """
    data = await _query(client, _CHANGE_TIMES, {"ids": list(nodes)}, partial=True)
    return tuple(_parse_activity(node) for node in data["nodes"] if node)


async def repository_activity(client: GitHubClient, address: Address) -> RepositoryActivity:
    """Return when one repository last changed. Raises Missing, and RateLimited like `repository_activities`."""
    data = await _query(client, _ONE_CHANGE_TIMES, address.variables)
    if data["repository"] is None:
        raise Missing(
            "GitHub has no such repository, or this token may not see it",
            where=address.path,
            fix="check the name, and which repositories the App or token may access",
        )
    return _parse_activity(data["repository"])


async def active_threads(
    client: GitHubClient, repository: RepositoryActivity, since: datetime
) -> AsyncIterator[ActiveThread]:
    """Yield the threads of a repository that changed at that time or later, from all pages."""
    if repository.issues is not None and repository.issues >= since:
        async for node in _pages(client, _ISSUES, {"id": repository.node, "since": since.isoformat()}):
            yield ActiveThread(read_thread(repository.id, node), time(node["updatedAt"]))
    if repository.pulls is not None and repository.pulls >= since:
        async for node in _pages(client, _PULLS, {"id": repository.node}):
            if time(node["updatedAt"]) < since:
                break
            yield ActiveThread(read_thread(repository.id, node), time(node["updatedAt"]))


async def _pages(client: GitHubClient, query: str, variables: Json) -> AsyncIterator[Json]:
    after: str | None = None
    while True:
        node = (await _query(client, query, {**variables, "after": after}))["node"]
        page = require_present(node, "the repository")["threads"]
        for node in page["nodes"] or []:
            yield node
        if not page["pageInfo"]["hasNextPage"]:
            return
        after = page["pageInfo"]["endCursor"]


async def _query(client: GitHubClient, query: str, variables: Json, *, partial: bool = False) -> Json:
    data = await client.graphql(query, variables, partial=partial)
    budget = data["rateLimit"]  # null if the server has no limits, as on GitHub Enterprise Server
    if budget and budget["remaining"] < RESERVE * budget["limit"]:
        seconds = (time(budget["resetAt"]) - client.clock.now()).total_seconds()
        raise RateLimited(max(1.0, seconds), where="GraphQL: the remaining points are reserved for the work")
    return data


def _parse_activity(node: Json) -> RepositoryActivity:
    address = Address(node["owner"]["login"], node["name"])
    newest = _newest(node["issues"]), _newest(node["pullRequests"])
    return RepositoryActivity(repository_id(node), node["id"], address, *newest)


def _newest(connection: Any) -> datetime | None:
    nodes = (connection or {}).get("nodes") or []
    return time(nodes[0]["updatedAt"]) if nodes else None


# --- Changes of plan comments ----------------------------------------------------------------------------------------
# GitHub sends no webhook for reactions, so plan comments are polled: 100 of them for one point of the rate limit.
# https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api

_QUERY: Final = """
query ($ids: [ID!]!) {
  nodes(ids: $ids) {
    ... on IssueComment {
      id
      lastEditedAt
      isMinimized
      reactions(first: 1, orderBy: { field: CREATED_AT, direction: DESC }) { totalCount nodes { createdAt } }
    }
  }
}
"""


GONE: Final = "gone"


async def fingerprints(client: GitHubClient, comments: Sequence[str]) -> Mapping[str, str]:
    """Return, by the comments' node ids, texts that differ once a comment has changed; GONE for a missing comment."""
    prints = dict.fromkeys(comments, GONE)
    for start in range(0, len(comments), AT_ONCE):
        data = await client.graphql(_QUERY, {"ids": list(comments[start : start + AT_ONCE])}, partial=True)
        for node in data["nodes"]:
            if node:
                reactions = node["reactions"]
                newest = [reaction["createdAt"] for reaction in reactions["nodes"] or []]
                facts = (reactions["totalCount"], *newest, node["lastEditedAt"], node["isMinimized"])
                prints[node["id"]] = "|".join(map(str, facts))
    return prints


# --- What a person asked on one day in a whole repository ------------------------------------------------------------
# The count comes from GitHub, so nothing is stored. A day is a UTC day, and only what was asked before a given moment
# counts. So a request stays within the quota or beyond it, no matter how often and by which process it is counted.
# Deleted comments are not counted.


async def asked_before(
    client: GitHubClient, address: Address, identity: BotIdentity, turn: Turn, *, parsed_texts: ParsedTextCache
) -> AsyncIterator[tuple[int, str]]:
    """Yield the thread and key of each request that the turn's author made before that turn on the same day."""
    day = turn.at.replace(hour=0, minute=0, second=0, microsecond=0)
    async for activity in active_threads(client, await repository_activity(client, address), day):
        for post in activity.thread.everything():
            is_own = post.actor.id == turn.actor.id
            is_earlier_today = day <= post.at and (post.at, post.key) < (turn.at, turn.key)
            if not (is_own and is_earlier_today and identity.is_addressed(activity.thread, post, parsed_texts)):
                continue
            parsed = parsed_texts.parse(post.body, identity.mention, by_mail=post.by_mail)
            if _is_request(parsed, identity.mention):
                yield int(activity.thread.number), post.key


def _is_request(parsed: ParsedText, mention: str) -> bool:
    """Return whether something that addresses the bot asks for work. Of the commands, only `revise` does."""
    lines = (parse(line, mention) for line in parsed.lines)
    first = next((line for line in lines if line is not None), None)
    match first:
        case Command(verb):
            return verb is Verb.REVISE
        case UnknownCommand():
            return False
        case _:
            return True
