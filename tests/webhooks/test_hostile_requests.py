"""Values and deliveries that nobody would send: none is a fault; people get pages, and programs problems."""

import asyncio
import base64
import json
import random
import re
import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from bot.service.service import Service
from bot.testing.host import host_application
from tests.github.test_deliveries import examples
from tests.service.ground import Host, call, headers, payload, settings
from tests.webhooks.api_ground import World, machine_pages, request
from webhooks.app import application
from webhooks.dashboard.pages import FOR_PROGRAMS, HEADERS
from webhooks.delivery_route import Bounds
from webhooks.event_stream import Streams

LONG = ("9" * 25, "9" * 4_400)
ODD = (
    *("0", "-1", "1" * 15, "007", "1.5", "1e9", "0x1", "٣", "²", "x" * 9_000, "\0", "a\0b"),
    *("..", ".", "%", "\x7f", "👩‍🔬", "'--"),
)


def cursor(*place: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


EDGES = (cursor("0001-01-01T00:00:00+23:59", 1, 1), cursor("9999-12-31T23:59:59-23:59", 1, 1))
"""Cursors with times that UTC does not have."""
CURSORS = (
    *EDGES,
    cursor("0001-01-01", 1, 1),
    cursor("2026-11-20", 10**30, 1),
    cursor("2026-11-20", 1.5, None),
    cursor("\ud800", 1, 1),
    cursor(*"abcd"),
    base64.urlsafe_b64encode(b"[" * 40_000).decode(),
    base64.urlsafe_b64encode(b"[1,1," + b"9" * 4_400 + b"]").decode(),
)
QUERIES = "q stage after plan posted page days back seen code state limit repository search waiting_for token".split()


class Served:
    """A service on this machine, with the paths of all its routes."""

    def __init__(self, base: str, app: FastAPI) -> None:
        self.base = base
        routers = [route.original_router for route in app.routes if hasattr(route, "original_router")]
        routes = (route for part in (app, *routers) for route in part.routes)
        self.paths = sorted({route.path for route in routes if isinstance(route, APIRoute)})

    def filled(self, value: str) -> list[str]:
        """Return each path with a value in the place of each of its parameters, the others being those of a thread."""
        usual = {"owner": "octo", "repo": "hello", "name": "hello", "number": "1", "session": "plan-1"}
        found = []
        for path in self.paths:
            names = re.findall(r"{(\w+)", path)
            for odd in names:
                given = {**usual, odd: value}
                found.append(re.sub(r"{(\w+)[^}]*}", lambda match, given=given: quote(given[match[1]], safe=""), path))  # type: ignore[misc]
        return found

    def check(self, path: str, method: str = "GET", headers: dict[str, str] | None = None) -> None:
        """Raise AssertionError if a request fails here, or if a person gets what is for programs."""
        answer = request(self.base, method, path, headers, b"" if method == "POST" else None)
        about = f"{method} {path[:200]} {answer.status} {str(answer.body)[:200]}"
        assert answer.status < 500, about
        kind = answer.headers.get("content-type", "")
        if path.startswith("/api/"):
            assert answer.status < 400 or kind == "application/problem+json", about
        elif not FOR_PROGRAMS.fullmatch(path.partition("?")[0]) and not path.startswith("/setup"):
            assert "json" not in kind, about
            assert {name.lower() for name in HEADERS} <= answer.headers.keys(), about


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """All routes of a service without an App, which shows its pages on this machine."""
    folder, apps = tmp_path_factory.mktemp("hostile"), list[FastAPI]()
    world = World(folder, token="", streams=Streams(seconds=0.02))
    asyncio.run(world.fill(2))
    pages = machine_pages(world, folder)
    with host_application(application(world.service, Bounds(), world.routes, pages, apps.append)) as base:
        yield Served(base, apps[0])


@pytest.mark.req("W5")
def test_a_number_without_end_is_no_fault_on_any_route(served: Served) -> None:
    paths = [path for value in LONG for path in served.filled(value)]
    assert len(paths) > 40
    for path in paths:
        served.check(path)


@pytest.mark.req("W5")
@pytest.mark.parametrize("edge", EDGES)
def test_a_time_at_the_edge_of_the_calendar_is_no_fault(served: Served, edge: str) -> None:
    for path in ("/threads", "/api/threads"):
        served.check(f"{path}?after={edge}")


@pytest.mark.req("W5")
@pytest.mark.long
def test_no_value_is_a_fault_on_any_route(served: Served) -> None:
    for value in ODD:
        for path in served.filled(value):
            served.check(path)
            served.check(path, "POST")
    plain = sorted({*served.filled("1"), *(path for path in served.paths if "{" not in path)})
    for path, value in product(plain, (*LONG, *ODD, *CURSORS)):
        served.check(f"{path}?{urlencode(dict.fromkeys(QUERIES, value[:3_000].encode('utf-8', 'replace')))}")
        served.check(f"{path}?after={quote(value, safe='')}")
    for path, name in product(plain, ("Last-Event-ID", "Idempotency-Key", "Cookie", "Authorization", "Host", "Origin")):
        for text in ("9" * 4_400, "\xe9", "[", "Bearer \xff", "plangate=\xe9"):
            served.check(path, headers={name: text})


@pytest.mark.req("W5")
@pytest.mark.parametrize(
    "path",
    ("/no/such/page", "/threads/", "/threads/a/b/1/transcripts", "/assets/x", "/live/x", "/healthzz", "/.well-known/x"),
)
def test_a_person_who_mistypes_an_address_gets_a_page(served: Served, path: str) -> None:
    answer = request(served.base, "GET", path)
    assert answer.status == 404
    assert answer.headers["content-type"].startswith("text/")
    assert {name: answer.headers[name.lower()] for name in HEADERS} == HEADERS


@pytest.mark.req("W5")
def test_a_fault_keeps_the_headers_and_is_a_page_for_people_and_a_problem_for_programs(tmp_path: Path) -> None:
    world = World(tmp_path, token="")

    def broken(app: FastAPI) -> None:
        @app.get("/broken")
        @app.get("/api/broken")
        async def broken() -> None:
            raise ZeroDivisionError("a secret detail")

    pages = machine_pages(world, tmp_path)
    with host_application(application(world.service, Bounds(), world.routes, pages, broken)) as base:
        page, problem = (request(base, "GET", path) for path in ("/broken", "/api/broken"))
        elsewhere = request(base, "GET", "/broken", {"Via": "1.1 proxy"})
    assert (page.status, page.headers["content-type"]) == (500, "text/html; charset=utf-8")
    assert {name: page.headers[name.lower()] for name in HEADERS} == HEADERS
    assert b"secret detail" not in page.body
    assert (problem.status, problem.headers["content-type"]) == (500, "application/problem+json")
    assert (elsewhere.status, elsewhere.body) == (404, b"Not Found\n")


ODD_VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**63, 10**400, 1.5, "", "x", "7", "\0", "\ud800", "../..", "👩‍🔬" * 500),
    *([], {}, [[]], {"id": {}}),
)
"""What no payload has in most places."""


def bodies() -> list[tuple[str, bytes]]:
    """Return GitHub's examples of the events that we take or, without them, one of our own."""
    return examples() or [("issues", payload(3)), ("issue_comment", payload(4))]


def mutate(body: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.25:
        return _mutate_bytes(body, chance)
    value = json.loads(body)
    for _ in range(chance.randint(1, 3)):
        value = _mutate_value(value, chance)
    return json.dumps(value).encode()


def _mutate_bytes(body: bytes, chance: random.Random) -> bytes:
    at, end = sorted(chance.sample(range(len(body)), 2))
    return chance.choice(
        (body[:at], body[:at] + body[end:], body + body, body[:at] + chance.randbytes(3) + body[at:], b"[" * 100_000)
    )


def _mutate_value(value: Any, chance: random.Random) -> Any:
    """Return a value with another one somewhere in it, more often near its top, where it is read."""
    if not isinstance(value, dict | list) or not value or chance.random() < 0.1:
        return chance.choice(ODD_VALUES)
    key = chance.choice([*value] if isinstance(value, dict) else range(len(value)))
    if isinstance(value, dict) and chance.random() < 0.3:
        return {name: each for name, each in value.items() if name != key}
    changed = _mutate_value(value[key], chance)
    if isinstance(value, dict):
        return {**value, key: changed}
    return [*value[:key], changed, *value[key + 1 :]]


@pytest.fixture
def base(tmp_path: Path) -> Iterator[str]:
    with host_application(application(Service(settings(tmp_path), Host(), worker=False))) as address:
        yield address


def send(base: str, n: int, event: str, body: bytes) -> int:
    return call(base, "POST", "/webhooks/github", body, headers(body, f"guid-{n}", event).items()).status


def check_mutations(base: str, folder: Path, count: int) -> None:
    """Send mutations of every body in turn. The inbox is emptied now and then, as checks would do."""
    chance, known = random.Random(1), bodies()
    for n in range(count):
        event, body = known[n % len(known)]
        changed = mutate(body, chance)
        assert send(base, n, event, changed) in {200, 202, 400}, (n, event, changed[:500])
        if n % 200 == 199:
            shutil.rmtree(folder / "inbox", ignore_errors=True)


def test_githubs_own_examples_are_stored_or_not_for_us(base: str) -> None:
    statuses = [send(base, n, event, body) for n, (event, body) in enumerate(bodies())]
    assert set(statuses) <= {200, 202}
    assert 202 in statuses


@pytest.mark.long
def test_200_mutations_of_deliveries_are_no_fault(base: str, tmp_path: Path) -> None:
    check_mutations(base, tmp_path, 200)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_10000_mutations_of_deliveries_are_no_fault(base: str, tmp_path: Path) -> None:
    check_mutations(base, tmp_path, 10_000)
