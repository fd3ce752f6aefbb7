"""The one client of GitHub: what is tried again, what never is, and whose limits are obeyed."""

import pytest

from bot.core.errors import Refused, Transient
from bot.github.responses import BadToken, Missing, OutcomeUnknown, RateLimited, Unprocessable
from tests.github.script import Reply, scripted

OK = Reply(200, {"ok": True})
DOWN = Reply(502, {"message": "Server Error"})


async def test_read_is_repeated_with_growing_pauses() -> None:
    with scripted(DOWN, Reply(200, raw=b'{"ok": tr'), Reply(200, raw=b""), OK) as (client, script, clock):
        assert await client.get("/x") == {"ok": True}
        assert len(script.asked) == 4
        assert clock.monotonic() == 7.0


async def test_read_fails_as_transient_after_four_attempts() -> None:
    with scripted(DOWN) as (client, script, _):
        with pytest.raises(Transient, match="GET /x"):
            await client.get("/x")
        assert len(script.asked) == 4


@pytest.mark.req("E1")
@pytest.mark.parametrize("lost", (DOWN, Reply(500), Reply(504), Reply(201, raw=b'{"id"'), Reply(201, raw=b"")))
async def test_write_whose_answer_was_lost_is_sent_once_and_unknown(lost: Reply) -> None:
    with scripted(lost, OK) as (client, script, _):
        with pytest.raises(OutcomeUnknown):
            await client.post("/x", {})
        assert len(script.asked) == 1


async def test_repeatable_write_is_repeated_after_a_lost_answer() -> None:
    with scripted(DOWN, OK, DOWN, OK) as (client, script, _):
        assert await client.post("/x", {}, repeatable=True) == {"ok": True}
        assert await client.change("/x", {}) == {"ok": True}
        assert len(script.asked) == 4


@pytest.mark.req("E2")
async def test_reads_do_not_wait_for_writes() -> None:
    with scripted(OK) as (client, _, clock):
        for _ in range(6):
            await client.get("/x")
        assert clock.monotonic() == 0.0
        for _ in range(6):
            await client.post("/x", {})
        assert clock.monotonic() == 2.0


@pytest.mark.req("E2")
async def test_reaction_by_rest_has_the_pace_of_reactions() -> None:
    with scripted(OK) as (client, _, clock):
        for _ in range(20):
            await client.post("/repos/will/shop/issues/1/reactions", {"content": "eyes"})
        assert clock.monotonic() == 0.0


LIMITS = {
    "retry-after": (Reply(403, {"message": "You have exceeded a secondary rate limit"}, {"Retry-After": "30"}), 30),
    "too many": (Reply(429, {"message": "slow down"}), 60),
    "secondary without a time": (Reply(403, {"message": "You have exceeded a secondary rate limit."}), 60),
    "GraphQL": (Reply(200, {"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}]}), 60),
    "GraphQL by another type": (Reply(200, {"errors": [{"type": "RATE_LIMIT", "message": "already exceeded"}]}), 60),
    "GraphQL in words": (
        Reply(200, {"errors": [{"message": "You have exceeded a secondary rate limit."}]}, {"Retry-After": "20"}),
        20,
    ),
}


@pytest.mark.req("E2")
@pytest.mark.parametrize(("limit", "seconds"), LIMITS.values(), ids=LIMITS.keys())
async def test_requests_wait_for_a_short_limit_and_then_go(limit: Reply, seconds: float) -> None:
    with scripted(limit, Reply(200, {"data": {"ok": True}})) as (client, script, clock):
        await (client.graphql("query { x }", {}) if limit.status == 200 else client.post("/x", {}))
        assert len(script.asked) == 2
        assert clock.monotonic() == seconds


@pytest.mark.req("E2")
async def test_a_long_limit_is_an_error_and_nothing_is_sent_meanwhile() -> None:
    with scripted(OK) as (client, script, clock):
        reset = str(int(clock.now().timestamp()) + 1800)
        headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": reset}
        script.replies = [Reply(403, {"message": "API rate limit exceeded"}, headers), OK]
        for _ in range(2):
            with pytest.raises(RateLimited):
                await client.get("/x")
        assert len(script.asked) == 1


@pytest.mark.parametrize(
    ("reply", "error"),
    (
        (Reply(404, {"message": "Not Found"}), Missing),
        (Reply(403, {"message": "Resource not accessible by integration"}), Refused),
        (Reply(422, {"message": "Validation Failed", "errors": [{"message": "too long"}]}), Unprocessable),
        (Reply(401, {"message": "Bad credentials"}), BadToken),
    ),
)
async def test_refused_request_is_not_repeated(reply: Reply, error: type[Exception]) -> None:
    with scripted(reply) as (client, script, _):
        with pytest.raises(error):
            await client.post("/x", {})
        assert len(script.asked) == 1


async def test_request_is_sent_again_with_another_token_after_a_401() -> None:
    with scripted(Reply(401, {"message": "Bad credentials"}), OK, tokens=("old", "new")) as (client, script, _):
        await client.post("/x", {})
        assert [asked.token for asked in script.asked] == ["old", "new"]


async def test_all_pages_are_read_with_the_same_query() -> None:
    first = Reply(200, [{"n": 1}], {"Link": '<URL/x?page=2&per_page=100>; rel="next", <URL/x?page=2>; rel="last"'})
    with scripted(first, Reply(200, [{"n": 2}], {"Link": '<URL/x?page=1>; rel="first"'})) as (client, script, _):
        assert [item["n"] async for item in client.pages("/x", {"state": "all"})] == [1, 2]
        assert [asked.query for asked in script.asked] == [
            {"per_page": "100", "state": "all"},
            {"page": "2", "per_page": "100"},
        ]


NOT_FOUND = {"type": "NOT_FOUND", "message": "Could not resolve"}


@pytest.mark.parametrize(
    ("body", "error"),
    (
        ({"data": None, "errors": [NOT_FOUND]}, Missing),
        ({"data": {}, "errors": [{"type": "FORBIDDEN", "message": "no"}]}, Refused),
        ({"data": {}, "errors": [{"message": "Something went wrong"}]}, Transient),
        ({"data": {}, "errors": [NOT_FOUND, {"message": "Something went wrong"}]}, Transient),
        ({}, Transient),
        ([], Transient),
    ),
)
@pytest.mark.req("E2")
async def test_graphql_error_with_status_200_is_an_error(body: object, error: type[Exception]) -> None:
    with scripted(Reply(200, body)) as (client, _, _), pytest.raises(error):
        await client.graphql("query { x }", {})


async def test_missing_nodes_are_null_where_the_caller_asks_for_that() -> None:
    with scripted(Reply(200, {"data": {"nodes": [None]}, "errors": [NOT_FOUND]})) as (client, _, _):
        assert await client.graphql("query { x }", {}, partial=True) == {"nodes": [None]}


async def test_null_items_of_connections_are_left_out_but_not_those_of_nodes_by_id() -> None:
    comments = {"nodes": [None, {"body": "a", "userContentEdits": {"nodes": [None]}}, None], "totalCount": 3}
    data = {"nodes": [None, {"comments": comments}], "node": {"comments": comments}}
    clean = {"nodes": [{"body": "a", "userContentEdits": {"nodes": []}}], "totalCount": 3}
    with scripted(Reply(200, {"data": data})) as (client, _, _):
        found = await client.graphql("query { x }", {})
        assert found == {"nodes": [None, {"comments": clean}], "node": {"comments": clean}}


async def test_unreachable_server_is_transient_for_reads_and_unknown_for_writes() -> None:
    with scripted(OK) as (client, _, _):
        pass
    with pytest.raises(Transient):
        await client.get("/x")
    with pytest.raises(OutcomeUnknown):
        await client.post("/x", {})


def test_pygithub_is_not_imported_before_it_is_needed() -> None:
    import subprocess
    import sys

    script = (
        "import sys, bot.github.dialogue, bot.github.pulls; print({'github', 'requests', 'jwt'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "set()"
