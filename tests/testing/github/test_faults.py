"""What goes wrong on the way, by plan, and the record of it."""

import http.client

import pytest

from bot.testing.github.faults import Fault
from tests.testing.github.ground import NAME, Ground

COMMENTS = f"/repos/{NAME}/issues/1/comments"


@pytest.fixture(autouse=True)
def issue(ground: Ground) -> None:
    ground.github.world.person("alice").open_issue(NAME, "Broken")


def texts(ground: Ground) -> list[str]:
    return [each.text.body for each in ground.github.world.comments_of(ground.github.world.issue(NAME, 1))]


@pytest.mark.parametrize(("done", "left"), ((False, []), (True, ["x"])))
def test_a_5xx_may_have_done_it(ground: Ground, done: bool, left: list[str]) -> None:
    ground.github.faults.fail("POST /repos/*/comments", 502, done=done)
    assert ground.ask("POST", COMMENTS, {"body": "x"}).status == 502
    assert texts(ground) == left
    assert ground.ask("POST", COMMENTS, {"body": "y"}).status == 201


@pytest.mark.parametrize(("done", "left"), ((False, []), (True, ["x"])))
def test_a_connection_breaks_before_or_after_it_was_done(ground: Ground, done: bool, left: list[str]) -> None:
    ground.github.faults.plan("POST *", Fault("reset", done=done))
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        ground.ask("POST", COMMENTS, {"body": "x"})
    assert texts(ground) == left
    assert ground.github.requests[-1].status == 0


def test_an_answer_is_cut(ground: Ground) -> None:
    ground.github.faults.plan("GET *", Fault("truncate"))
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        ground.ask("GET", f"/repos/{NAME}")


def test_a_stale_read_shows_the_world_as_it_was(ground: Ground) -> None:
    ground.github.faults.stale("GET *")
    ground.github.world.person("alice").comment(NAME, 1, "new")
    assert [len(ground.ask("GET", COMMENTS).json) for _ in range(2)] == [0, 1]


def test_a_plan_can_name_words_of_the_body(ground: Ground) -> None:
    ground.github.faults.fail("POST /graphql", 502, containing="viewer")
    assert ground.ask("POST", "/graphql", {"query": "{ rateLimit { cost } }"}).status == 200
    assert ground.ask("POST", "/graphql", {"query": "{ viewer { login } }"}).status == 502


def test_the_secondary_limit_says_when_to_come_back(ground: Ground) -> None:
    ground.github.faults.limit("POST *", seconds=7)
    reply = ground.ask("POST", COMMENTS, {"body": "x"})
    assert (reply.status, reply.headers["retry-after"]) == (403, "7")


def test_every_request_is_kept(ground: Ground) -> None:
    ground.ask("GET", f"/repos/{NAME}")
    ground.ask("GET", "/app", token=ground.jwt())
    kept = [(each.name, each.status, each.credential) for each in ground.github.requests]
    assert kept == [(f"GET /repos/{NAME}", 200, "installation"), ("GET /app", 200, "jwt")]
