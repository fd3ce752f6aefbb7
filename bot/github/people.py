"""Parses accounts and times from GitHub's data.

https://docs.github.com/en/graphql/reference/interfaces#actor
"""

from datetime import UTC, datetime
from typing import Any, Final

from bot.core.actor import Actor, ActorKind

WHO: Final = """
fragment who on Actor { __typename login ... on User { databaseId } ... on Bot { databaseId } }
"""

_KINDS: Final = {"User": ActorKind.USER, "Bot": ActorKind.BOT, "Mannequin": ActorKind.MANNEQUIN}

GONE: Final = Actor(0, "ghost", ActorKind.GONE)


def actor(node: Any) -> Actor:
    """Return the account in GraphQL data; GONE for one that was deleted or has no number."""
    if not isinstance(node, dict):
        return GONE
    kind, number = _KINDS.get(str(node.get("__typename", "User")), ActorKind.GONE), node.get("databaseId")
    if kind is ActorKind.MANNEQUIN:
        return Actor(0, str(node["login"]), kind)
    return Actor(int(number), str(node["login"]), kind) if number and kind is not ActorKind.GONE else GONE


def rest_actor(node: Any) -> Actor:
    """Return an account from REST data (https://docs.github.com/en/rest/users/users)."""
    if not isinstance(node, dict) or not node.get("id"):
        return GONE
    return Actor(int(node["id"]), str(node["login"]), _KINDS.get(str(node.get("type")), ActorKind.GONE))


def time(text: str) -> datetime:
    """Return a time: aware, in UTC, with a resolution of one second."""
    return datetime.fromisoformat(text).astimezone(UTC)
