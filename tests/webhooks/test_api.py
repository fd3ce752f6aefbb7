"""The API and what it reads: over real connections, to whom, how it refuses, and that /openapi.json is true."""

import asyncio
import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from bot.core.errors import Transient, Unreadable
from bot.service.inbox import Delivery
from bot.service.overview.thread_index import ThreadQuery
from bot.service.person_turns import TurnFault, TurnRefused
from tests.core.journal_histories import histories
from tests.webhooks.api_ground import LIMIT, SECRET, Answer, World, as_operator, place, request, served
from webhooks.event_stream import Streams


def tomorrow(repository: int, task: str) -> datetime | None:
    return datetime(2026, 11, 24, tzinfo=UTC) if (repository, task) == (1, "todos") else None


async def test_an_append_is_listed_and_found_by_name_in_any_case(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.fill(2)
    (entries,) = histories(1, 5)
    await world.append(3, entries)
    rows = (await world.overview.page(ThreadQuery())).threads
    assert {each.number for each in rows} == {1, 2, 3}
    assert await world.overview.find("octo/hello", 9) is None
    found = await world.overview.find("Octo/Hello", 1)
    assert found is not None
    assert (await world.overview.detail(found)).summary in rows


async def test_what_the_bot_is_called(tmp_path: Path) -> None:
    assert await World(tmp_path).overview.mention(place(1)) == "@plangate-1"


async def test_a_journal_of_a_newer_version_is_listed_as_last_understood_and_not_shown(tmp_path: Path) -> None:
    world = World(tmp_path)
    (entries,) = histories(1, 20)
    await world.append(1, entries)
    await world.append(1, [replace(entries[0], kind="executed", body={"ask": 1})])
    (row,) = (await world.overview.page(ThreadQuery())).threads
    assert row.position == 20
    with pytest.raises(Unreadable, match="this version"):
        await world.overview.detail(place(1))


async def test_costs_are_limited_to_repositories_and_days_and_tasks_have_a_due_time(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.fill(2, 40)
    task = [replace(next(histories(1, 1))[0], kind="task", body={"task": "todos", "task_digest": "d"})]
    await world.append(3, task)
    world.overview.next_due = tomorrow
    total = (await world.overview.costs()).total
    assert total.cost_usd > 0
    assert (await world.overview.costs({1})).total == total
    assert (await world.overview.costs({2})).total.cost_usd == 0
    assert (await world.overview.costs(since=date(2027, 1, 1))).total.cost_usd == 0
    (shown,) = await world.overview.tasks()
    assert (shown.history.task, shown.thread.number, shown.next_due) == ("todos", 3, datetime(2026, 11, 24, tzinfo=UTC))


async def test_waiting_deliveries_and_githubs_limits_are_shown(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.service.receive(Delivery("guid-1", "issues", place(4)))
    (waiting,) = await world.overview.deliveries()
    assert (waiting.guid, waiting.event, waiting.address, waiting.is_waiting) == ("guid-1", "issues", place(4), True)
    health = await world.overview.health()
    assert (health.state["deliveries"], health.has_worker, health.load.sessions) == ("ok", False, 0)
    assert health.rate_limits == ((7, LIMIT),)


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


def test_link_headers_lead_to_every_thread(base: str) -> None:
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


def test_the_list_can_be_filtered_by_several_stages_and_words(base: str) -> None:
    rows = read(base, THREADS).body
    stages = {rows[0]["stage"], rows[1]["stage"]}
    found = read(base, f"{THREADS}?{'&'.join(f'stage={each}' for each in stages)}").body
    assert [row["number"] for row in found] == [row["number"] for row in rows if row["stage"] in stages]
    assert read(base, f"{THREADS}?search=nothing+like+this").body == []


def test_a_thread_has_what_its_row_has_and_its_journal_has_every_entry(base: str, world: World) -> None:
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
def test_without_the_token_no_route_can_be_read(base: str, path: str, given: dict[str, str]) -> None:
    answer = request(base, "GET", path, given)
    assert (answer.status, answer.headers["content-type"]) == (401, "application/problem+json")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.body["fix"]


@pytest.mark.req("W5")
def test_a_service_without_a_token_is_read_by_this_machine_alone(tmp_path: Path) -> None:
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
    answer = read(base, path)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.body["status"] == status
    assert answer.body["detail"]
    assert answer.body["where"]
    assert answer.body["fix"]


@pytest.mark.parametrize(("error", "status"), ((Transient("GitHub fails"), 503), (Unreadable("altered"), 409)))
def test_the_status_says_whether_an_unreadable_journal_may_be_readable_later(
    tmp_path: Path, error: Exception, status: int
) -> None:
    world = World(tmp_path)
    asyncio.run(world.fill(1))
    world.clock.turn(100)
    world.journal._seen.clear()
    world.journal.failures = [error] * 4
    with served(world) as base:
        assert [read(base, f"{ONE}{rest}").status for rest in ("", "/journal", "/events")] == [status] * 3


@pytest.mark.req("X3")
def test_a_secret_in_a_journal_leaves_on_no_route(tmp_path: Path) -> None:
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


def test_half_a_surrogate_pair_breaks_no_route(tmp_path: Path) -> None:
    world = World(tmp_path)
    (entries,) = histories(1, 1)
    asyncio.run(world.append(1, [replace(entries[0], body=entries[0].body | {"text": "x\ud800", "login": "a\udfff"})]))
    with served(world) as base:
        assert [read(base, path).status for path in (THREADS, ONE, f"{ONE}/journal")] == [200, 200, 200]


def turn(base: str, content: bytes, **headers: str) -> Answer:
    given = {"Authorization": "Bearer ghp_person", "Idempotency-Key": "k1"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    return request(base, "POST", f"{ONE}/turns", given, content)


def test_a_turn_is_posted_with_the_persons_token(base: str, world: World) -> None:
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
def test_a_malformed_turn_is_not_posted(base: str, world: World, content: bytes) -> None:
    world.turns.orders.clear()
    assert turn(base, content).status == 422
    assert turn(base, b'{"text": "x"}', Idempotency_Key="a b").status == 422
    assert turn(base, b'{"text": "' + b"x" * 600_000 + b'"}').status == 413
    assert world.turns.orders == []


@pytest.mark.parametrize(("fault", "status"), (*zip(TurnFault, (401, 404, 403, 409, 409, 429), strict=True),))
def test_each_reason_to_refuse_a_turn_has_its_status(base: str, world: World, fault: TurnFault, status: int) -> None:
    world.turns.error = TurnRefused(fault, "no", where="here", fix="do so")
    answer = turn(base, b'{"text": "x"}')
    world.turns.error = None
    assert (answer.status, answer.body["detail"], answer.body["fix"]) == (status, "no", "do so")


OURS = {"owner": "octo", "repo": "hello", "number": 1}
"""A thread that there is: every other case is about this one."""
CASES = 1_000
"""For each route."""


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    world = World(tmp_path_factory.mktemp("openapi"), streams=Streams(seconds=0.02))
    asyncio.run(world.fill(3))
    with served(world) as address:
        yield address


def operations(documented: str) -> list[Any]:
    import schemathesis  # takes a second, so only a campaign pays for it
    from schemathesis.core.result import Ok

    schema = schemathesis.openapi.from_dict(request(documented, "GET", "/openapi.json").body)
    schema.config.update(base_url=documented)
    found = [*schema.get_all_operations()]
    assert all(isinstance(each, Ok) for each in found)
    return [each.ok() for each in found if isinstance(each, Ok)]


def check_operation(operation: Any, cases: int) -> None:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    held = (
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    )
    turns = itertools.count()

    @settings(
        max_examples=cases,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def check(case: Any) -> None:
        if next(turns) % 2 and case.path_parameters:
            case.path_parameters = {**case.path_parameters, **OURS}
        headers = as_operator() if next(turns) % 8 else {}
        response = case.call(headers=headers, timeout=20)
        case.validate_response(response, checks=held)

    check()


def test_every_route_is_listed_with_its_errors_as_problems(documented: str) -> None:
    document = request(documented, "GET", "/openapi.json").body
    thread = "/api/threads/{owner}/{repo}/{number}"
    listed = {(path, verb) for path, verbs in document["paths"].items() for verb in verbs}
    assert listed >= {
        ("/webhooks/github", "post"),
        ("/healthz", "get"),
        ("/readyz", "get"),
        ("/metrics", "get"),
        ("/api/threads", "get"),
        (thread, "get"),
        (f"{thread}/journal", "get"),
        (f"{thread}/events", "get"),
        (f"{thread}/turns", "post"),
    }
    for path, verb in listed:
        answers = document["paths"][path][verb]["responses"]
        if path.startswith("/api/"):
            for status in set(answers) - {"200", "201"}:
                assert [*answers[status]["content"]] == ["application/problem+json"], (path, status)
    assert "docs" not in json.dumps(sorted(document["paths"]))


REQUESTS = (
    ("GET", "/api/threads", 200),
    ("GET", "/api/threads?limit=x", 422),
    ("GET", "/api/threads/octo/hello/1", 200),
    ("GET", "/api/threads/octo/hello/99", 404),
    ("GET", "/api/threads/octo/hello/1/journal", 200),
    ("GET", "/api/threads/octo/hello/1/journal?after=-1", 422),
    ("GET", "/api/threads/octo/hello/1/events", 200),
    ("POST", "/api/threads/octo/hello/1/turns", 422),
    ("GET", "/metrics", 200),
    ("GET", "/readyz", 200),
    ("GET", "/.well-known/plangate-keys.json", 404),
    ("POST", "/webhooks/github", 401),
)


@pytest.mark.parametrize(("verb", "path", "status"), REQUESTS)
def test_the_document_names_each_status_and_type(documented: str, verb: str, path: str, status: int) -> None:
    paths = request(documented, "GET", "/openapi.json").body["paths"]
    plain = re.sub("octo/hello/[0-9]+", "{owner}/{repo}/{number}", path.partition("?")[0])
    for headers in (as_operator(), {}):
        answer = request(documented, verb, path, headers)
        described = paths[plain][verb.lower()]["responses"][str(answer.status)]
        kind = answer.headers["content-type"].partition(";")[0]
        assert kind in described.get("content", {"application/json": {}, "text/plain": {}})
        if headers:
            assert answer.status == status


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_the_document_is_true_in_many_cases(documented: str) -> None:
    for operation in operations(documented):
        check_operation(operation, CASES)
