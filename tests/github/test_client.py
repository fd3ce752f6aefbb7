"""The one client of GitHub: what is tried again, what never is, and whose limits are obeyed."""

import pytest

from bot.core.errors import Refused, Transient
from bot.core.secrets.redaction import Redactor
from bot.core.work import PullOrder
from bot.github.pulls import GitHubPulls
from bot.github.responses import BadToken, Missing, OutcomeUnknown, RateLimited, Unprocessable
from tests.github.conftest import HOME, Ground
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


# Redirects of a repository that was renamed: followed with query and token, and to nowhere else


NEW = "/repositories/7/issues/1/comments"
OLD = "/repos/acme/old/issues/1/comments"


@pytest.mark.parametrize("status", (301, 302, 307, 308))
async def test_read_follows_a_renamed_repository_with_its_query(status: int) -> None:
    moved = Reply(status, {"message": "Moved"}, {"Location": f"URL{NEW}?per_page=100&page=2"})
    with scripted(moved, Reply(200, [])) as (client, script, _):
        assert await client.get(OLD, {"per_page": 100, "page": 2}) == []
        assert [(asked.path, asked.query, asked.token) for asked in script.asked] == [
            (path, {"per_page": "100", "page": "2"}, "t") for path in (OLD, NEW)
        ]


async def test_second_page_of_a_moved_list_is_another_page() -> None:
    first = Reply(200, [{"id": 1}], {"Link": f'<URL{NEW}?per_page=100&page=2>; rel="next"'})
    moved = [Reply(301, None, {"Location": f"URL{NEW}?per_page=100{more}"}) for more in ("", "&page=2")]
    with scripted(moved[0], first, moved[1], Reply(200, [{"id": 2}])) as (client, script, _):
        assert [item["id"] async for item in client.pages(OLD)] == [1, 2]
        assert [asked.query.get("page") for asked in script.asked] == [None, None, "2", "2"]


async def test_a_location_may_be_relative_and_without_the_query() -> None:
    with scripted(Reply(301, None, {"Location": NEW}), Reply(200, [])) as (client, script, _):
        await client.get(OLD, {"page": 2})
        assert (script.asked[1].path, script.asked[1].query) == (NEW, {"page": "2"})


async def test_write_follows_a_renamed_repository_with_method_and_body() -> None:
    with scripted(Reply(307, None, {"Location": f"URL{NEW}"}), Reply(201, {"id": 5})) as (client, script, _):
        assert await client.post(OLD, {"body": "a"}) == {"id": 5}
        assert [(asked.verb, asked.path, asked.body) for asked in script.asked] == [
            ("POST", OLD, {"body": "a"}),
            ("POST", NEW, {"body": "a"}),
        ]


@pytest.mark.parametrize("location", ("URL/repositories/8/issues/4/comments", "URL/user", "URL/repositories/7"))
async def test_write_follows_no_transferred_issue(location: str) -> None:
    with scripted(Reply(307, {"message": "Moved"}, {"Location": location}), Reply(201, {})) as (client, script, _):
        with pytest.raises(Refused, match="GitHub refused: Moved"):
            await client.post(OLD, {"body": "a"})
        assert len(script.asked) == 1


@pytest.mark.parametrize("location", ("http://127.0.0.1:9/x", "https://example.com/repositories/7", "//x.test/x", ""))
async def test_token_goes_to_no_other_server(location: str) -> None:
    with scripted(Reply(301, {"message": "Moved"}, {"Location": location}), Reply(200, {})) as (client, script, _):
        with pytest.raises(Refused, match="GITHUB_API_URL"):
            await client.get(OLD)
        assert len(script.asked) == 1


async def test_circle_of_redirects_ends() -> None:
    there, back = (Reply(301, {"message": "Moved"}, {"Location": f"URL{path}"}) for path in (NEW, OLD))
    with scripted(there, back, there, back, there) as (client, script, _):
        with pytest.raises(Refused):
            await client.get(OLD)
        assert len(script.asked) == 4


async def test_text_is_utf_8_also_if_the_server_does_not_say_so() -> None:
    raw = '{"body": "⏸ café 👀"}'.encode()
    with scripted(Reply(200, raw=raw, headers={"Content-Type": "application/vnd.github+json"})) as (client, _, _clock):
        assert (await client.get("/x"))["body"] == "⏸ café 👀"


# Nothing that is written to GitHub holds a secret, whichever way it goes


KEY = "sk-ant-api03-" + "Zx9Qw7Lm3Tk5Vb1N" * 5
UNKNOWN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6"
SAID = f"It is `{KEY}`, {KEY[20:50]} and {UNKNOWN}, or {UNKNOWN[:9]}\u200b{UNKNOWN[9:]}."


@pytest.fixture
def ground(ground: Ground) -> Ground:
    """A ground whose client knows one key."""
    ground.client.redactor = Redactor(((KEY, "model key"),))
    return ground


def clean(text: str) -> bool:
    return "[redacted: " in text and KEY[20:40] not in text and UNKNOWN[8:20] not in text


@pytest.mark.req("X3", "PR4")
async def test_every_kind_of_comment_is_redacted(ground: Ground) -> None:
    thread = ground.issue()
    dialogue = ground.dialogue(thread)
    for _ in range(2):
        await dialogue.post(SAID, 1)
        await dialogue.explain_ignored_answers(SAID, 2)
        async with dialogue.hold_progress():
            await dialogue.progress(SAID, 3)
    plan = await dialogue.propose(ground.plan(thread), 4)
    await dialogue.supersede(plan.id, SAID)
    assert [clean(comment.text.body) for comment in ground.comments(thread)] == [True] * 4


@pytest.mark.req("X3", "PR5")
async def test_plan_with_a_secret_is_shown_without_it_and_still_counts_as_shown(ground: Ground) -> None:
    thread = ground.issue()
    plan = ground.plan(thread, markdown=SAID)
    dialogue = ground.dialogue(thread)
    shown = await dialogue.propose(plan, 1)
    assert clean(ground.comments(thread)[0].text.body)
    snapshot = await dialogue.snapshot(plan, shown.id)
    assert snapshot.shown is not None
    assert snapshot.shown.intact


@pytest.mark.req("X3")
async def test_title_and_body_of_a_pull_request_are_redacted(ground: Ground) -> None:
    ground.person("will").push(HOME, {"src/a.py": "a = 2\n"}, branch="plangate/1-fix")
    port = GitHubPulls(ground.client, ground.address, ground.bot)
    order = PullOrder("plangate/1-fix", "main", f"Fix {UNKNOWN}", f"{SAID}\n\nCloses #1")
    made = await port.ensure(order)
    assert await port.ensure(order) == made
    issue = ground.github.world.issue(HOME, made.number)
    assert clean(issue.text.body)
    assert issue.title == "Fix [redacted: GitHub token]"


@pytest.mark.req("X3")
async def test_client_redacts_what_callers_forget(ground: Ground) -> None:
    thread = ground.issue()
    token = await ground.client.credentials.token()
    path = f"{ground.address.path}/issues/{thread}/comments"
    await ground.client.get(ground.address.path)
    made = await ground.client.post(path, {"body": f"{SAID} {token[4:]}"})
    await ground.client.change(
        f"{ground.address.path}/issues/comments/{made['id']}", {"body": f"again {SAID} {token[-20:]}"}
    )
    (comment,) = ground.comments(thread)
    assert clean(comment.text.body)
    assert token[-20:] not in comment.text.body
