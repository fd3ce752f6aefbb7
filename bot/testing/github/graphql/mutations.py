"""One job: the mutations of the simulated GraphQL API.

https://docs.github.com/en/graphql/reference/mutations
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from bot.testing.github import code_changes, conversation
from bot.testing.github.credentials import grants
from bot.testing.github.entities import Comment, Repository, Role, from_node_id
from bot.testing.github.graphql.nodes import CONTENTS, Nodes
from bot.testing.github.graphql.pages import Node
from bot.testing.github.rest.endpoint import ApiError, within
from bot.testing.github.world import Actor

THREADS = ("issues", "pull_requests")


def mutations(nodes: Nodes) -> dict[str, Callable[..., Node]]:
    """Return the fields of the Mutation type for one caller."""

    def run(function: Callable[[Nodes, Node], Node]) -> Callable[..., Node]:
        def field(_: Any, input: Node) -> Node:
            return {"clientMutationId": input.get("clientMutationId"), **function(nodes, input)}

        return field

    table = {
        "addComment": _add_comment,
        "updateIssueComment": _update_comment,
        "addReaction": _add_reaction,
        "removeReaction": _remove_reaction,
        "minimizeComment": _minimize,
        "unminimizeComment": _unminimize,
        "createCommitOnBranch": _commit,
    }
    return {name: run(function) for name, function in table.items()}


def _add_comment(nodes: Nodes, given: Node) -> Node:
    subject = _subject(nodes, given["subjectId"])
    thread = next(each for each in nodes.world.issues.values() if each.node_id == subject["id"])
    home = nodes.world.repositories[thread.repository]
    _allow(nodes, home, THREADS, Role.WRITE if thread.locked else Role.READ)
    conversation.comment(_actor(nodes), thread, given["body"], app=_actor(nodes).app)
    return {"subject": nodes.by_id(given["subjectId"])}


def _update_comment(nodes: Nodes, given: Node) -> Node:
    comment = _comment(nodes, given["id"])
    mine = comment.author == _actor(nodes).id
    _allow(nodes, nodes.world.repositories[comment.repository], THREADS, Role.READ if mine else Role.WRITE)
    return {"issueComment": nodes.comment(conversation.edit_comment(_actor(nodes), comment, given["body"]))}


def _add_reaction(nodes: Nodes, given: Node) -> Node:
    _react_allowed(nodes, given["subjectId"])
    reaction, _ = conversation.react(_actor(nodes), given["subjectId"], _content(given))
    return {"reaction": nodes.reaction(reaction), "subject": nodes.by_id(given["subjectId"])}


def _remove_reaction(nodes: Nodes, given: Node) -> Node:
    _react_allowed(nodes, given["subjectId"])
    for each in nodes.world.reactions_to(given["subjectId"]):
        if (each.user, each.content) == (_actor(nodes).id, _content(given)):
            conversation.unreact(nodes.world, each)
            return {"reaction": nodes.reaction(each), "subject": nodes.by_id(given["subjectId"])}
    raise ApiError(404, "Could not find the reaction.")


def _minimize(nodes: Nodes, given: Node) -> Node:
    # The reason is written as on github.com: "off-topic", "outdated".
    return {"minimizedComment": _minimize_comment(nodes, given, given["classifier"].lower().replace("_", "-"))}


def _unminimize(nodes: Nodes, given: Node) -> Node:
    return {"unminimizedComment": _minimize_comment(nodes, given, None)}


def _minimize_comment(nodes: Nodes, given: Node, reason: str | None) -> Node:
    comment = _comment(nodes, given["subjectId"])
    _allow(nodes, nodes.world.repositories[comment.repository], THREADS, Role.WRITE)
    return nodes.comment(conversation.minimize(nodes.world, comment.id, reason))


def _commit(nodes: Nodes, given: Node) -> Node:
    branch, message = given["branch"], given["message"]
    home = nodes.repository_by_name(branch.get("repositoryNameWithOwner") or "")
    if home is None:
        raise ApiError(404, "Could not resolve to a Repository.")
    _allow(nodes, home, ("contents",), Role.WRITE)
    name = branch["branchName"].removeprefix("refs/heads/")
    head = nodes.world.bare(home).resolve(f"refs/heads/{name}")
    if head != given["expectedHeadOid"]:
        raise ApiError(409, f'Expected branch to point to "{head}" but it did not. Pull and try again.', ["STALE_DATA"])
    change = given.get("fileChanges") or {}
    files: dict[str, str | bytes | None] = {each["path"]: None for each in change.get("deletions") or []}
    files |= {each["path"]: base64.b64decode(each["contents"]) for each in change.get("additions") or []}
    text = "\n\n".join(filter(None, (message["headline"], message.get("body"))))
    sha = code_changes.push_files(_actor(nodes), home, name, files=files, message=text + "\n")
    return {"commit": nodes.git_object(home, sha), "ref": nodes.ref(home, f"refs/heads/{name}")}


def _actor(nodes: Nodes) -> Actor:
    token = nodes.caller.token
    if token is None:
        raise ApiError(401, "This endpoint requires you to be authenticated.")
    return Actor(nodes.world, token.user, token.app)


def _allow(nodes: Nodes, home: Repository, permissions: tuple[str, ...], role: Role) -> None:
    token = nodes.caller.token
    if token is not None and token.permissions is not None:
        granted = any(grants(token, each, "write") for each in permissions)
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
    found = nodes.by_id(ident)
    if found is None:
        raise ApiError(404, f"Could not resolve to a node with the global id of '{ident}'.")
    return found


def _react_allowed(nodes: Nodes, ident: str) -> None:
    _subject(nodes, ident)
    kind, number = from_node_id(ident) or ("", 0)
    world = nodes.world
    tables = {"IssueComment": world.comments, "PullRequestReview": world.reviews,
              "PullRequestReviewComment": world.review_comments}  # fmt: skip
    about: Any = tables[kind][number] if kind in tables else None  # type: ignore[index]  # a union of tables
    about = about or next(each for each in world.issues.values() if each.node_id == ident)
    _allow(nodes, world.repositories[about.repository], THREADS, Role.READ)
    if world.issues[about.repository, about.number].locked:
        raise ApiError(403, "Unable to create reaction because issue is locked.")


def _content(given: Node) -> str:
    return next(rest for rest, name in CONTENTS.items() if name == given["content"])
