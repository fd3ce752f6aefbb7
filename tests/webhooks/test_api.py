"""The API over real connections: what it shows, to whom, and how it refuses."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.core.errors import Transient, Unreadable
from bot.service.person_turns import TurnFault, TurnRefused
from tests.core.journal_histories import histories
from tests.webhooks.api_ground import SECRET, Answer, World, as_operator, request, served

THREADS = "/api/threads"
ONE = "/api/threads/octo/hello/1"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(tmp_path_factory.mktemp("api"))
    asyncio.run(made.fill(7))
    return made


@pytest.fixture(scope="module")
def base(world: World) -> Iterator[str]:
    with served(world) as address:
        yield address


def read(base: str, path: str) -> Answer:
    return request(base, "GET", path, as_operator())


def test_the_list_leads_to_every_thread(base: str) -> None:
    """Pages follow the Link header, and each row has the documented fields."""
    rows: list[dict[str, Any]] = []
    path = f"{THREADS}?limit=3&repository=Octo/Hello"
    while path:
        answer = read(base, path)
        assert (answer.status, answer.headers["x-total-count"]) == (200, "7")
        rows += answer.body
        path = answer.headers.get("link", "").partition(">")[0].removeprefix("<")
    assert sorted(row["number"] for row in rows) == [1, 2, 3, 4, 5, 6, 7]
    fields = "repository number title stage waiting_for plan_digest pull_request cost_usd updated url"
    assert set(fields.split()) <= rows[0].keys()


def test_filters_of_the_list(base: str) -> None:
    """A stage may be given several times; a filter that nothing passes gives an empty list."""
    rows = read(base, THREADS).body
    stages = {rows[0]["stage"], rows[1]["stage"]}
    found = read(base, f"{THREADS}?{'&'.join(f'stage={each}' for each in stages)}").body
    assert [row["number"] for row in found] == [row["number"] for row in rows if row["stage"] in stages]
    assert read(base, f"{THREADS}?search=nothing+like+this").body == []


def test_a_thread_and_its_journal(base: str, world: World) -> None:
    """The detail has what the list has, and more; the journal has every entry, page by page."""
    (row,) = [each for each in read(base, THREADS).body if each["number"] == 1]
    detail = read(base, ONE).body
    assert {name: detail[name] for name in row} == row
    assert {"plan", "plans", "agents", "checks", "approvals", "timeline"} <= detail.keys()
    first = read(base, f"{ONE}/journal?limit=12")
    rest = read(base, first.headers["link"].partition(">")[0].removeprefix("<"))
    entries = asyncio.run(world.journal.read(1))  # type: ignore[arg-type]
    assert [line["body"] for line in first.body + rest.body] == [each.body for each in entries]
    assert [{**line, "body": 0} for line in first.body + rest.body] == [
        {**each, "body": 0} for each in detail["timeline"]
    ]


@pytest.mark.parametrize("path", (THREADS, ONE, f"{ONE}/journal", f"{ONE}/events"))
@pytest.mark.parametrize("given", ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer \xe9"}))
@pytest.mark.req("W5")
def test_only_the_operator_reads(base: str, path: str, given: dict[str, str]) -> None:
    """Without the token there is nothing to read, on any route."""
    answer = request(base, "GET", path, given)
    assert (answer.status, answer.headers["content-type"]) == (401, "application/problem+json")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.body["fix"]


@pytest.mark.req("W5")
def test_without_a_token_only_this_machine_reads(tmp_path: Path) -> None:
    """A proxy's request is refused, and one that a page of another site makes in a browser here."""
    with served(World(tmp_path, token="")) as base:
        assert request(base, "GET", THREADS).status == 200
        assert request(base, "GET", THREADS, {"X-Forwarded-For": "203.0.113.9"}).status == 401
        for name in ("rebound.example:8000", "[", "localhost.rebound.example"):
            assert request(base, "GET", THREADS, {"Host": name}).status == 401
        assert request(base, "GET", f"{THREADS}/octo/hello/x", {"Host": "["}).status in {401, 422}


@pytest.mark.parametrize(
    ("path", "status"),
    (
        (f"{THREADS}?limit=0", 422),
        (f"{THREADS}?limit=x", 422),
        (f"{THREADS}?stage=flying", 422),
        (f"{THREADS}?after=bm9uc2Vuc2U", 422),
        ("/api/threads/octo/hello/99", 404),
        ("/api/threads/octo/other/1", 404),
        ("/api/threads/octo/hello/nine", 422),
        (f"/api/threads/octo/hello/{10**30}", 422),
        ("/api/threads/octo/hello/99/journal", 404),
        ("/api/threads/octo/hello/99/events", 404),
        (f"{ONE}/journal?after=-1", 422),
        (f"{ONE}/nothing", 404),
    ),
)
def test_refusals_say_what_to_do(base: str, path: str, status: int) -> None:
    """Each is a problem with what, where, and how to fix it."""
    answer = read(base, path)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.body["status"] == status
    assert answer.body["detail"]
    assert answer.body["where"]
    assert answer.body["fix"]


@pytest.mark.parametrize(("error", "status"), ((Transient("GitHub fails"), 503), (Unreadable("altered"), 409)))
def test_a_journal_that_cannot_be_read(tmp_path: Path, error: Exception, status: int) -> None:
    """The answer says whether it can be over later. Nothing of a traceback is shown."""
    world = World(tmp_path)
    asyncio.run(world.fill(1))
    world.clock.turn(100)
    world.journal._seen.clear()
    world.journal.failures = [error] * 4
    with served(world) as base:
        assert [read(base, f"{ONE}{rest}").status for rest in ("", "/journal", "/events")] == [status] * 3


@pytest.mark.req("X3")
def test_secrets_are_nowhere(tmp_path: Path) -> None:
    """A secret in a title, a plan, or any other text of the journal leaves on no route."""
    world = World(tmp_path)
    (entries,) = histories(1, 30)
    leaking = [replace(each, body=_with_secret(each.body)) for each in entries]
    asyncio.run(world.append(1, leaking))
    world.streams.seconds = 0.2
    with served(world) as base:
        for path in (THREADS, ONE, f"{ONE}/journal", f"{ONE}/events"):
            answer = read(base, path)
            assert answer.status == 200
            assert SECRET not in str(answer.body)
            assert "[redacted: PASSWORD]" in str(answer.body)


def _with_secret(value: Any) -> Any:
    match value:
        case dict():
            plain = {
                "kind",
                "turn_at",
                "expires",
                "digest",
                "base",
                "plan",
                "at",
                "approved_at",
                "question_at",
                "waits",
            }
            return {key: each if key in plain else _with_secret(each) for key, each in value.items()}
        case "Do." | "T20" | "Because 5." | "why" | "Yes.":
            return f"{value} {SECRET}"
        case _:
            return value


def test_half_a_surrogate_pair(tmp_path: Path) -> None:
    """What UTF-8 cannot hold breaks no route."""
    world = World(tmp_path)
    (entries,) = histories(1, 1)
    asyncio.run(world.append(1, [replace(entries[0], body=entries[0].body | {"text": "x\ud800", "login": "a\udfff"})]))
    with served(world) as base:
        assert [read(base, path).status for path in (THREADS, ONE, f"{ONE}/journal")] == [200, 200, 200]


def turn(base: str, content: bytes, **headers: str) -> Answer:
    given = {"Authorization": "Bearer ghp_person", "Idempotency-Key": "k1"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    return request(base, "POST", f"{ONE}/turns", given, content)


def test_a_turn(base: str, world: World) -> None:
    """It is posted with the person's token; the answer says where it stands."""
    world.turns.orders.clear()
    answer = turn(base, b'{"text": "Please go on."}')
    assert (answer.status, answer.body["author"]) == (201, "ada")
    (order,) = world.turns.orders
    assert (order.repository, order.number, order.text) == ("octo/hello", 1, "Please go on.")
    assert (order.key, order.token) == ("k1", "ghp_person")
    assert "ghp_person" not in repr(order)


@pytest.mark.parametrize(
    "content",
    (b"", b"{", b"[]", b'{"text": ""}', b'{"text": "  "}', b'{"text": 1}', b'{"text": "x", "as": "bob"}', b"\xff"),
)
def test_a_malformed_turn(base: str, world: World, content: bytes) -> None:
    """422, and nothing is posted."""
    world.turns.orders.clear()
    assert turn(base, content).status == 422
    assert turn(base, b'{"text": "x"}', Idempotency_Key="a b").status == 422
    assert turn(base, b'{"text": "' + b"x" * 600_000 + b'"}').status == 413
    assert world.turns.orders == []


@pytest.mark.parametrize(
    ("fault", "status"),
    (*zip(TurnFault, (401, 404, 403, 409, 409, 429), strict=True),),
)
def test_a_refused_turn(base: str, world: World, fault: TurnFault, status: int) -> None:
    """Each reason has its status."""
    world.turns.error = TurnRefused(fault, "no", where="here", fix="do so")
    answer = turn(base, b'{"text": "x"}')
    world.turns.error = None
    assert (answer.status, answer.body["detail"], answer.body["fix"]) == (status, "no", "do so")
