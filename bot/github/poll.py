"""Detects changes of plan comments. GitHub sends no webhook for reactions, so they are polled: 100 comments for one
point.

https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api
"""

from collections.abc import Mapping, Sequence
from typing import Final

from bot.github.client import AT_ONCE, GitHubClient

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
    """Return a text for each comment, by node id, that differs once the comment has changed; GONE for a comment that is
    gone."""
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
