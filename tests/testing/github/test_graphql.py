"""GraphQL: what a snapshot needs, what it costs, and what GitHub refuses."""

import json
from typing import Any

import pytest

from bot.testing.github.credentials import installation_token
from bot.testing.github.entities import Comment
from tests.testing.github.ground import NAME, Ground

COMMENT = """query($ids: [ID!]!) { nodes(ids: $ids) { ... on IssueComment {
  fullDatabaseId databaseId body lastEditedAt isMinimized
  editor { login ... on User { databaseId } } author { __typename login }
  userContentEdits(first: 10) { totalCount nodes { diff editedAt editor { login } } }
  reactions(first: 10, orderBy: {field: CREATED_AT, direction: DESC}) {
    totalCount nodes { content user { databaseId } } }
} } rateLimit { cost remaining } }"""


def planned(ground: Ground) -> Comment:
    from bot.testing.github import conversation
    from bot.testing.github.world import ActingUser

    world = ground.github.world
    issue = world.person("dave").open_issue(NAME, "Broken")
    return conversation.comment(ActingUser(world, ground.github.app.bot), issue, "Plan\n- [ ] Approve this plan")


def look(ground: Ground, comment: Comment) -> Any:
    return ground.query(COMMENT, ids=[comment.node_id])["data"]["nodes"][0]


def test_a_comment_that_was_never_edited_has_no_history(ground: Ground) -> None:
    seen = look(ground, planned(ground))
    assert (seen["lastEditedAt"], seen["editor"]) == (None, None)
    assert seen["userContentEdits"] == {"totalCount": 0, "nodes": []}
    assert seen["author"] == {"__typename": "Bot", "login": "plangate"}
    assert (int(seen["fullDatabaseId"]) > 2**31, seen["databaseId"]) == (True, None)


def test_a_tick_is_an_edit_by_the_person(ground: Ground) -> None:
    comment = planned(ground)
    ground.clock.advance(5)
    ground.github.world.person("alice").tick(comment.id)
    seen = look(ground, comment)
    assert seen["editor"] == {"login": "alice", "databaseId": ground.github.world.user("alice").id}
    history = [(edit["editor"]["login"], edit["diff"]) for edit in seen["userContentEdits"]["nodes"]]
    posted = "Plan\n- [ ] Approve this plan"
    assert history == [("alice", posted.replace("[ ]", "[x]")), ("plangate", posted)]


def test_reactions_come_newest_first_and_bots_are_null(ground: Ground) -> None:
    comment = planned(ground)
    ground.ask("POST", f"/repos/{NAME}/issues/comments/{comment.id}/reactions", {"content": "eyes"})
    ground.github.world.person("alice").react(comment, "+1")
    alice = {"databaseId": ground.github.world.user("alice").id}
    nodes = look(ground, comment)["reactions"]["nodes"]
    assert nodes == [{"content": "THUMBS_UP", "user": alice}, {"content": "EYES", "user": None}]


def test_minimizing_needs_write(ground: Ground) -> None:
    comment = planned(ground)
    fold = """mutation($id: ID!) { minimizeComment(input: {subjectId: $id, classifier: OUTDATED}) {
      minimizedComment { isMinimized } } }"""
    assert "errors" not in ground.query(fold, id=comment.node_id)
    assert look(ground, comment)["isMinimized"]
    refused = ground.query(fold, id=comment.node_id, token=ground.pat("dave"))
    assert refused["errors"][0]["type"] == "FORBIDDEN"


@pytest.mark.parametrize(("comments", "cost"), ((1, 1), (60, 1), (100, 2)))
def test_cost_is_by_connections(ground: Ground, comments: int, cost: int) -> None:
    comment = planned(ground)
    answer = ground.query(COMMENT, ids=[comment.node_id] * comments)
    assert answer["data"]["rateLimit"]["cost"] == cost == ground.github.requests[-1].cost


@pytest.mark.parametrize(
    ("query", "kind"),
    (
        (f"{{ nodes(ids: {json.dumps(['x'] * 101)}) {{ id }} }}", "ARGUMENT_LIMIT"),
        (
            '{ repository(owner: "acme", name: "shop") { issue(number: 1) { comments { totalCount } } } }',
            "MISSING_PAGINATION_BOUNDARIES",
        ),
        (
            '{ repository(owner: "acme", name: "shop") { issue(number: 1) { comments(first: 101) { totalCount } } } }',
            "EXCESSIVE_PAGINATION",
        ),
        ('{ repository(owner: "acme", name: "gone") { id } }', "NOT_FOUND"),
        ('{ repository(owner: "acme", name: "shop") { issue(number: 9) { id } } }', "NOT_FOUND"),
        ("{ nonsense }", "undefinedField"),
    ),
)
def test_errors_come_inside_a_200(ground: Ground, query: str, kind: str) -> None:
    reply = ground.ask("POST", "/graphql", {"query": query})
    assert (reply.status, reply.json["errors"][0]["type"]) == (200, kind)


def test_one_missing_node_leaves_the_others(ground: Ground) -> None:
    comment = planned(ground)
    answer = ground.query(COMMENT, ids=["IC_gone", comment.node_id])
    assert (answer["data"]["nodes"][0], answer["data"]["nodes"][1]["body"]) == (None, comment.text.body)
    assert answer["errors"][0]["type"] == "NOT_FOUND"


def test_a_private_thread_is_hidden(ground: Ground) -> None:
    comment = planned(ground)
    assert ground.query(COMMENT, ids=[comment.node_id], token=ground.pat("stranger"))["data"]["nodes"] == [None]


def test_a_token_without_the_permission_is_forbidden(ground: Ground) -> None:
    comment = planned(ground)
    token = installation_token(ground.github.world, ground.installation, permissions={"checks": "read"}).value
    answer = ground.query(COMMENT, ids=[comment.node_id], token=token)
    assert [error["type"] for error in answer["errors"]] == ["FORBIDDEN"]
    head = '{ repository(owner: "acme", name: "shop") { defaultBranchRef { name } } }'
    assert ground.query(head, token=token)["errors"][0]["type"] == "FORBIDDEN"


def test_pages_lead_through_all_comments(ground: Ground) -> None:
    comment = planned(ground)
    for number in range(4):
        ground.github.world.person("bob").comment(NAME, comment.number, f"{number}")
    query = """query($before: String) { repository(owner: "acme", name: "shop") { issue(number: 1) {
      comments(last: 2, before: $before) { nodes { body } pageInfo { hasPreviousPage startCursor } } } } }"""
    seen: list[str] = []
    before, more = None, True
    while more:
        page = ground.query(query, before=before)["data"]["repository"]["issue"]["comments"]
        seen = [node["body"] for node in page["nodes"]] + seen
        before, more = page["pageInfo"]["startCursor"], page["pageInfo"]["hasPreviousPage"]
    assert seen == [comment.text.body, "0", "1", "2", "3"]


def test_only_graphql_says_that_a_text_was_sent_by_mail(ground: Ground) -> None:
    alice = ground.github.world.person("alice")
    sent = alice.by_mail().comment(NAME, alice.open_issue(NAME, "Broken").number, "By mail")
    alice.edit_comment(sent.id, "Typed")
    query = "query($ids: [ID!]!) { nodes(ids: $ids) { ... on Comment { createdViaEmail } } }"
    assert ground.query(query, ids=[sent.node_id])["data"]["nodes"] == [{"createdViaEmail": True}]
    assert "mail" not in str(ground.ask("GET", f"/repos/{NAME}/issues/comments/{sent.id}").json)
