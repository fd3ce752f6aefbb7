"""The mutations of the simulated GraphQL API.

https://docs.github.com/en/graphql/reference/mutations
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bot.testing.github import code_changes, conversation
from bot.testing.github.code_changes import NewPull
from bot.testing.github.credentials import grants
from bot.testing.github.entities import Comment, Repository, Role, from_node_id
from bot.testing.github.graphql.nodes import CONTENTS, Nodes
from bot.testing.github.graphql.paging import Node
from bot.testing.github.rest.endpoint import ApiError, require_pulls_of_jobs, within
from bot.testing.github.world import ActingUser, NotThereError, StateConflictError

THREADS = ("issues", "pull_requests")


def mutations(nodes: Nodes) -> dict[str, Callable[..., Node]]:
    """Return the fields of the Mutation type for one caller."""
    return {
        "addReaction": lambda _, **given: _add_reaction(nodes, given["input"]),
        "createPullRequest": lambda _, **given: _create_pull(nodes, given["input"]),
        "minimizeComment": lambda _, **given: _minimize(nodes, given["input"]),
    }


def _add_reaction(nodes: Nodes, inputs: Node) -> Node:
    _react_allowed(nodes, inputs["subjectId"])
    reaction, _ = conversation.react(_actor(nodes), inputs["subjectId"], _content(inputs))
    return {"reaction": nodes.reaction(reaction)}


def _create_pull(nodes: Nodes, inputs: Node) -> Node:
    home = next(each for each in nodes.world.repositories.values() if each.node_id == inputs["repositoryId"])
    _allow(nodes, home, ("pull_requests",), Role.READ)
    require_pulls_of_jobs(nodes.world, nodes.caller.token, home)
    new = NewPull(inputs["title"], inputs["headRefName"], inputs["baseRefName"], inputs.get("body") or "")
    try:
        return {"pullRequest": nodes.issue(code_changes.open_pull(_actor(nodes), home, new))}
    except (StateConflictError, NotThereError) as error:
        raise ApiError(422, str(error)) from None


def _minimize(nodes: Nodes, inputs: Node) -> Node:
    comment = _comment(nodes, inputs["subjectId"])
    _allow(nodes, nodes.world.repositories[comment.repository], THREADS, Role.WRITE)
    reason = inputs["classifier"].lower().replace("_", "-")  # written as on github.com: "off-topic", "outdated"
    return {"minimizedComment": nodes.comment(conversation.minimize(nodes.world, comment.id, reason))}


def _actor(nodes: Nodes) -> ActingUser:
    token = nodes.caller.token
    if token is None:
        raise ApiError(401, "This endpoint requires you to be authenticated.")
    return ActingUser(nodes.world, token.user, token.app)


def _allow(nodes: Nodes, home: Repository, permissions: tuple[str, ...], role: Role) -> None:
    token = nodes.caller.token
    if token is not None and token.permissions is not None:
        granted = any(grants(token, permission, "write") for permission in permissions)
        if not within(nodes.world, token, home) or not granted:
            raise ApiError(403, "Resource not accessible by integration")
    elif not nodes.world.role(home, _actor(nodes).id).covers(role) or home.archived:
        raise ApiError(403, f"{nodes.world.users[_actor(nodes).id].login} does not have the correct permissions.")


def _comment(nodes: Nodes, ident: str) -> Comment:
    _subject(nodes, ident)
    kind, number = from_node_id(ident) or ("", 0)
    if kind != "IssueComment":
        raise ApiError(404, f"Could not resolve to IssueComment node with the global id of '{ident}'.")
    return nodes.world.comments[number]


def _subject(nodes: Nodes, ident: str) -> Node:
    node = nodes.by_id(ident)
    if node is None:
        raise ApiError(404, f"Could not resolve to a node with the global id of '{ident}'.")
    return node


def _react_allowed(nodes: Nodes, ident: str) -> None:
    _subject(nodes, ident)
    kind, number = from_node_id(ident) or ("", 0)
    world = nodes.world
    tables = {"IssueComment": world.comments, "PullRequestReview": world.reviews,
              "PullRequestReviewComment": world.review_comments}  # fmt: skip
    about: Any = tables[kind][number] if kind in tables else None  # type: ignore[index]  # a union of tables
    about = about or next(issue for issue in world.issues.values() if issue.node_id == ident)
    _allow(nodes, world.repositories[about.repository], THREADS, Role.READ)
    if world.issues[about.repository, about.number].locked:
        raise ApiError(403, "Unable to create reaction because issue is locked.")


def _content(inputs: Node) -> str:
    return next(rest for rest, name in CONTENTS.items() if name == inputs["content"])
