"""The rules around every REST endpoint: who may, pages, conditions, limits; and a real client on top."""

from collections.abc import Callable

import pytest

from bot.testing.github.credentials import installation_token, job_token
from tests.testing.github.ground import NAME, Ground

SHOP = f"/repos/{NAME}"


def test_pygithub_works_unchanged(ground: Ground) -> None:
    from github import Auth, Github

    hub = Github(
        base_url=ground.github.api_url, auth=Auth.Token(ground.token), retry=None, seconds_between_requests=0,
        seconds_between_writes=0,
    )  # fmt: skip
    repo = hub.get_repo(NAME)
    issue = repo.create_issue("Broken", body="Please", labels=["bug"])
    comment = issue.create_comment("Plan")
    comment.edit("Plan 2")
    comment.create_reaction("eyes")
    repo.create_git_ref("refs/heads/topic", repo.get_branch("main").commit.sha)
    repo.create_file("new.txt", "Add", "x", branch="topic")
    pull = repo.create_pull(base="main", head="topic", title="New", body="Closes #1")
    assert [(each.body, each.user.login) for each in issue.get_comments()] == [("Plan 2", "plangate[bot]")]
    assert [each.content for each in ground.github.world.reactions_to(comment.node_id)] == ["eyes"]
    assert (pull.number, [file.filename for file in pull.get_files()]) == (2, ["new.txt"])
    ground.github.world.person("alice").merge(NAME, pull.number)
    assert repo.get_issue(1).state == "closed"


@pytest.mark.parametrize(
    ("role", "legacy"),
    (("alice", "write"), ("bob", "write"), ("carol", "read"), ("dave", "read"), ("acme", "admin"), ("erin", "none")),
)
def test_the_legacy_permission_hides_roles(ground: Ground, role: str, legacy: str) -> None:
    ground.github.world.add_user("erin")
    reply = ground.ask("GET", f"{SHOP}/collaborators/{role}/permission").json
    assert reply["permission"] == legacy
    assert reply["role_name"] == ground.github.world.role(ground.repository, ground.github.world.user(role).id)
    assert reply["user"]["id"] == ground.github.world.user(role).id


def test_a_login_that_nobody_has_is_not_found(ground: Ground) -> None:
    assert ground.ask("GET", f"{SHOP}/collaborators/nobody/permission").status == 404


@pytest.mark.parametrize(
    ("token", "method", "path", "status"),
    (
        ("nonsense", "GET", SHOP, 401),
        ("", "GET", SHOP, 404),
        ("stranger", "GET", SHOP, 404),
        ("", "GET", "/user", 401),
        ("app", "GET", "/user", 403),
        ("app", "GET", "/repos/dave/open", 200),
        ("app", "POST", "/repos/dave/open/issues", 403),
        ("dave", "POST", f"{SHOP}/issues/1/labels", 403),
        ("dave", "POST", f"{SHOP}/git/refs", 403),
        ("reader", "POST", f"{SHOP}/issues/1/comments", 403),
        ("reader", "GET", f"{SHOP}/contents/README.md", 403),
        ("job", "GET", f"{SHOP}/contents/README.md", 200),
        ("job", "GET", "/app", 401),
    ),
)
def test_a_credential_reaches_no_further(ground: Ground, token: str, method: str, path: str, status: int) -> None:
    world = ground.github.world
    world.person("alice").open_issue(NAME, "Broken")
    world.add_repository("dave/open", {})
    made: dict[str, Callable[[], str]] = {
        "": lambda: "", "nonsense": lambda: "ghp_nonsense", "app": lambda: ground.token,
        "job": lambda: job_token(world, ground.repository).value,
        "reader": lambda: installation_token(world, ground.installation, permissions={"issues": "read"}).value,
    }  # fmt: skip
    value = made.get(token, lambda: ground.pat(token))()
    body = {"body": "x", "labels": ["bug"], "ref": "refs/heads/x", "sha": "0" * 40} if method == "POST" else None
    assert ground.ask(method, path, body, token=value).status == status


def test_an_installation_token_lives_one_hour(ground: Ground) -> None:
    assert ground.ask("GET", SHOP).status == 200
    ground.clock.advance(3_600)
    assert ground.ask("GET", SHOP).status == 401


@pytest.mark.parametrize(
    ("lasts", "issued", "status"), ((300, -60, 200), (601, 0, 200), (700, 0, 401), (-1, -60, 401), (300, 120, 401))
)
def test_a_jwt_lives_ten_minutes(ground: Ground, lasts: int, issued: int, status: int) -> None:
    assert ground.ask("GET", "/app", token=ground.jwt(lasts=lasts, issued=issued)).status == status


@pytest.mark.parametrize(("scheme", "jwt", "token"), (("Bearer", 200, 200), ("token", 401, 200)))
def test_a_jwt_comes_as_bearer(ground: Ground, scheme: str, jwt: int, token: int) -> None:
    assert ground.ask("GET", "/app", headers={"Authorization": f"{scheme} {ground.jwt()}"}).status == jwt
    assert ground.ask("GET", SHOP, headers={"Authorization": f"{scheme} {ground.token}"}).status == token


def test_a_token_can_be_scoped_down_but_not_up(ground: Ground) -> None:
    path = f"/app/installations/{ground.installation.id}/access_tokens"
    assert ground.ask("POST", path, {"permissions": {"issues": "read"}}, token=ground.jwt()).status == 201
    assert ground.ask("POST", path, {"permissions": {"administration": "write"}}, token=ground.jwt()).status == 422
    assert ground.ask("POST", path, {"repository_ids": [1]}, token=ground.jwt()).status == 422


def test_lists_come_in_pages(ground: Ground) -> None:
    alice = ground.github.world.person("alice")
    alice.open_issue(NAME, "Broken")
    for number in range(5):
        alice.comment(NAME, 1, f"{number}")
    first = ground.ask("GET", f"{SHOP}/issues/1/comments?per_page=2")
    last = ground.ask("GET", f"{SHOP}/issues/1/comments?per_page=2&page=3")
    assert [each["body"] for each in first.json + last.json] == ["0", "1", "4"]
    assert f'{ground.github.api_url}{SHOP}/issues/1/comments?per_page=2&page=2>; rel="next"' in first.headers["link"]
    assert 'rel="next"' not in last.headers["link"]


def test_what_did_not_change_costs_nothing(ground: Ground) -> None:
    first = ground.ask("GET", SHOP)
    again = ground.ask("GET", SHOP, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status, again.raw) == (304, b"")
    assert again.headers["x-ratelimit-remaining"] == first.headers["x-ratelimit-remaining"] == "4999"
    ground.github.world.change_repository(NAME, archived=True)
    assert ground.ask("GET", SHOP, headers={"If-None-Match": first.headers["etag"]}).status == 200


def test_a_spent_limit_refuses_until_the_hour_is_over(ground: Ground) -> None:
    ground.github.limits.limits["installation"] = 2
    assert [ground.ask("GET", SHOP).status for _ in range(3)] == [200, 200, 403]
    reset = int(ground.ask("GET", SHOP).headers["x-ratelimit-reset"])
    assert reset == int(ground.clock.now().timestamp()) + 3_600


def test_a_second_pull_request_for_the_branch_is_refused(ground: Ground) -> None:
    ground.github.world.person("bob").push(NAME, {"new.txt": "x"}, branch="topic")
    new = {"title": "New", "head": "topic", "base": "main"}
    assert ground.ask("POST", f"{SHOP}/pulls", new).status == 201
    reply = ground.ask("POST", f"{SHOP}/pulls", new)
    assert (reply.status, reply.json["errors"][0]["message"]) == (422, "A pull request already exists for acme:topic.")


@pytest.mark.parametrize("end", ("merged", "branch deleted"))
def test_some_pull_requests_cannot_be_opened_again(ground: Ground, end: str) -> None:
    bob = ground.github.world.person("bob")
    bob.push(NAME, {"new.txt": "x"}, branch="topic")
    number = bob.open_pull(NAME, "New", head="topic").number
    if end == "merged":
        ground.github.world.person("alice").merge(NAME, number)
    else:
        assert ground.ask("PATCH", f"{SHOP}/issues/{number}", {"state": "closed"}).status == 200
        assert ground.ask("PATCH", f"{SHOP}/issues/{number}", {"state": "open"}).status == 200
        assert ground.ask("DELETE", f"{SHOP}/git/refs/heads/topic").status == 204
    reply = ground.ask("PATCH", f"{SHOP}/issues/{number}", {"state": "open"})
    message = "state cannot be changed. The pull request cannot be reopened."
    assert (reply.status, reply.json["errors"][0]["message"]) == (422, message)


def test_nobody_reacts_in_a_locked_conversation(ground: Ground) -> None:
    alice = ground.github.world.person("alice")
    alice.open_issue(NAME, "Broken")
    alice.lock(NAME, 1)
    assert ground.ask("POST", f"{SHOP}/issues/1/reactions", {"content": "eyes"}).status == 403
    assert ground.ask("POST", f"{SHOP}/issues/1/comments", {"body": "x"}).status == 201
    assert ground.ask("POST", f"{SHOP}/issues/1/comments", {"body": "x"}, token=ground.pat("dave")).status == 403


def test_a_ref_moves_forward_only(ground: Ground) -> None:
    world = ground.github.world
    old = world.bare(ground.repository).resolve("refs/heads/main")
    world.person("bob").push(NAME, {"new.txt": "x"})
    assert ground.ask("PATCH", f"{SHOP}/git/refs/heads/main", {"sha": old}).status == 422
    assert ground.ask("PATCH", f"{SHOP}/git/refs/heads/main", {"sha": old, "force": True}).status == 200


def test_raw_contents_are_bytes(ground: Ground) -> None:
    reply = ground.ask("GET", f"{SHOP}/contents/src/a.py", headers={"Accept": "application/vnd.github.raw+json"})
    assert reply.raw == b"one\ntwo\nthree\n"
