"""Redirects of a repository that was renamed: followed with query and token, and to nowhere else."""

import pytest

from bot.core.errors import Refused
from tests.github.script import Reply, scripted

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
