"""The HTTP: every status, over real connections."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from bot.config.settings import Secret, Settings
from bot.core.errors import Misconfigured
from bot.service.inbox import Inbox
from bot.service.service import Service
from bot.testing.host import host_application
from tests.service.ground import SECRET, Host, call, deliver, headers, payload, settings, signature
from webhooks.app import application, serve
from webhooks.delivery_route import Bounds

HOOK = "/webhooks/github"
BODY_LIMIT = 25 * 1024 * 1024
BOUNDS = Bounds()


@contextmanager
def served(folder: Path, secret: str = SECRET, bounds: Bounds = BOUNDS) -> Iterator[str]:
    """Serve without a worker: what is stored stays."""
    service = Service(settings(folder, secret), Host(), worker=False)
    with host_application(application(service, bounds)) as base:
        yield base


@pytest.fixture
def base(tmp_path: Path) -> Iterator[str]:
    with served(tmp_path) as address:
        yield address


@pytest.mark.req("W2")
def test_a_delivery_is_stored_without_its_body_and_a_second_one_is_a_duplicate(base: str, tmp_path: Path) -> None:
    assert deliver(base, 3).status == 202
    again = deliver(base, 3)
    assert (again.status, again.body) == (200, {"outcome": "duplicate"})
    (stored,) = Inbox(tmp_path / "inbox").waiting()
    assert stored.address is not None
    assert (stored.guid, stored.event, stored.address.number, stored.address.installation) == ("guid-1", "issues", 3, 7)


@pytest.mark.req("W1")
def test_a_delivery_may_be_a_form_signed_over_its_raw_bytes(base: str, tmp_path: Path) -> None:
    body = urlencode({"payload": payload(3).decode()}).encode()
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    signed_json = headers(body) | {"X-Hub-Signature-256": signature(payload(3))}
    assert call(base, "POST", HOOK, body, (signed_json | kind).items()).status == 401
    assert call(base, "POST", HOOK, body, (headers(body) | kind).items()).status == 202
    twice = body + b"&" + body
    assert call(base, "POST", HOOK, twice, (headers(twice, "twice") | kind).items()).status == 400
    assert [each.address and each.address.number for each in Inbox(tmp_path / "inbox").waiting()] == [3]


@pytest.mark.parametrize("event", ("ping", "star", "push"))
def test_events_that_are_not_for_us_are_not_stored(base: str, tmp_path: Path, event: str) -> None:
    body = payload(1)
    assert call(base, "POST", HOOK, body, headers(body, event=event).items()).status == 200
    assert Inbox(tmp_path / "inbox").waiting() == ()


def test_what_the_bot_does_is_not_stored_and_a_persons_edit_of_it_is(base: str, tmp_path: Path) -> None:
    own, tick = payload(3, sender=99), payload(3, sender=5)
    answer = call(base, "POST", HOOK, own, headers(own, "own", "issue_comment").items())
    assert (answer.status, answer.body) == (200, {"outcome": "not for us"})
    assert call(base, "POST", HOOK, tick, headers(tick, "tick", "issue_comment").items()).status == 202
    assert [each.guid for each in Inbox(tmp_path / "inbox").waiting()] == ["tick"]


def test_a_check_of_what_the_bot_pushed_wakes(base: str, tmp_path: Path) -> None:
    """The sender of a check is whoever pushed: that the bot did so does not make the check its own doing."""
    facts = {
        "action": "completed",
        "check_suite": {"pull_requests": [{"number": 4}]},
        "repository": {"id": 1, "name": "hello", "owner": {"id": 5, "login": "octo"}},
        "sender": {"id": 99, "login": "plangate[bot]"},
    }
    body = json.dumps(facts).encode()
    assert call(base, "POST", HOOK, body, headers(body, event="check_suite").items()).status == 202
    assert [each.address and each.address.number for each in Inbox(tmp_path / "inbox").waiting()] == [4]


def test_an_installation_is_a_wake_without_a_thread(base: str, tmp_path: Path) -> None:
    body = b'{"action": "created", "installation": {"id": 7}}'
    assert call(base, "POST", HOOK, body, headers(body, event="installation").items()).status == 202
    assert [each.address for each in Inbox(tmp_path / "inbox").waiting()] == [None]


BODY = payload(1)
GOOD = headers(BODY)
SIGNED = {"X-GitHub-Event": "issues", "X-GitHub-Delivery": "guid-1"}


@pytest.mark.req("W1")
@pytest.mark.parametrize(
    ("given", "status"),
    (
        pytest.param(SIGNED.items(), 401, id="unsigned"),
        pytest.param((SIGNED | {"X-Hub-Signature-256": signature(BODY, "other")}).items(), 401, id="other-secret"),
        pytest.param((SIGNED | {"X-Hub-Signature-256": "sha256=\xe9"}).items(), 401, id="not-ascii"),
        pytest.param([*GOOD.items(), ("x-hub-signature-256", signature(BODY))], 401, id="doubled"),
        pytest.param([*GOOD.items(), ("X-GitHub-Delivery", "guid-2")], 400, id="doubled-guid"),
        pytest.param((GOOD | {"X-GitHub-Delivery": "../../etc/passwd"}).items(), 400, id="path-as-guid"),
    ),
)
def test_headers_that_github_never_sends_are_refused_and_nothing_is_stored(
    base: str, tmp_path: Path, given: list[tuple[str, str]], status: int
) -> None:
    assert call(base, "POST", HOOK, BODY, given).status == status
    assert Inbox(tmp_path / "inbox").waiting() == ()


@pytest.mark.parametrize("body", (b"", b"[]", b'{"issue": {"number": "1"}}', b"\xff", b"[" * 100_000))
def test_a_signed_body_of_another_form_is_refused(base: str, body: bytes) -> None:
    assert call(base, "POST", HOOK, body, headers(body).items()).status == 400


def test_a_service_with_an_empty_secret_accepts_nothing(tmp_path: Path) -> None:
    with served(tmp_path, "") as base:
        given = SIGNED | {"X-Hub-Signature-256": signature(BODY, "")}
        assert call(base, "POST", HOOK, BODY, given.items()).status == 401


def raw(base: str, text: bytes) -> bytes:
    where = urlsplit(base)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=20) as connection:
        connection.sendall(text)
        return connection.makefile("rb").readline()


@pytest.mark.req("W1")
def test_a_body_that_says_it_is_too_large_is_refused_before_a_byte_of_it(base: str) -> None:
    head = f"POST {HOOK} HTTP/1.1\r\nHost: x\r\nContent-Length: {BODY_LIMIT + 1}\r\n\r\n"
    assert b" 413 " in raw(base, head.encode())


@pytest.mark.req("W1")
def test_a_body_that_grows_too_large_is_refused_while_it_streams(base: str) -> None:
    head = f"POST {HOOK} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    piece = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    where = urlsplit(base)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=20) as connection:
        connection.sendall(head + piece * 25)
        connection.sendall(b"1\r\nx\r\n")
        assert b" 413 " in connection.makefile("rb").readline()


def test_a_body_of_exactly_25_mib_is_accepted(base: str) -> None:
    body = payload(1)[:-1] + b" " * (BODY_LIMIT - len(payload(1))) + b"}"
    assert len(body) == BODY_LIMIT
    assert call(base, "POST", HOOK, body, headers(body).items()).status == 202


def test_a_client_that_leaves_in_a_body_harms_nobody(base: str) -> None:
    where = urlsplit(base)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=20) as connection:
        connection.sendall(f"POST {HOOK} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf".encode())
    assert deliver(base, 1).status == 202


def test_a_body_that_comes_too_slowly_is_given_up(tmp_path: Path) -> None:
    with served(tmp_path, bounds=Bounds(seconds=0.1)) as base:
        assert b" 400 " in raw(base, f"POST {HOOK} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf".encode())
        assert deliver(base, 1).status == 202


def test_bodies_beyond_the_memory_for_all_are_refused_and_give_it_back(tmp_path: Path) -> None:
    with served(tmp_path, bounds=Bounds(held=1000)) as base:
        for _ in range(3):
            assert call(base, "POST", HOOK, b"x" * 1001, GOOD.items()).status == 503
        assert call(base, "POST", HOOK, b"x" * 1000, GOOD.items()).status == 401
        assert deliver(base, 1).status == 202


@pytest.mark.req("D2")
def test_deliveries_that_cannot_be_stored_are_refused_until_there_is_room_again(tmp_path: Path) -> None:
    with served(tmp_path) as base:
        assert call(base, "GET", "/readyz").status == 200
        (tmp_path / "inbox").rmdir()
        (tmp_path / "inbox").write_text("a file, not a folder")
        assert deliver(base, 1).status == 503
        ready = call(base, "GET", "/readyz")
        assert (ready.status, ready.body["status"], ready.body["deliveries"]) == (503, "not ready", "failing")
        assert call(base, "GET", "/healthz").status == 200
        (tmp_path / "inbox").unlink()
        assert deliver(base, 1).status == 202
        assert call(base, "GET", "/readyz").status == 200


def test_readiness_says_more_to_those_who_may_know(tmp_path: Path) -> None:
    service = Service(settings(tmp_path), Host(), worker=False)
    details: dict[str, Any] = {
        "deliveries": "ok",
        "github": "unknown",
        "model": "unknown",
        "reconciled": None,
        "busy": 0,
    }
    details["installations"] = {}
    with host_application(application(service)) as base:
        assert call(base, "GET", "/readyz").body == {"status": "ready", **details}
        assert call(base, "GET", "/readyz", given=[("X-Forwarded-For", "10.0.0.9")]).body == {"status": "ready"}
        service.settings = replace(service.settings, github=replace(service.settings.github, api_token=Secret("t")))
        assert call(base, "GET", "/readyz").body == {"status": "ready"}
        given = [("Authorization", "Bearer t")]
        assert call(base, "GET", "/readyz", given=given).body == {"status": "ready", **details}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    (
        ("GET", HOOK, 405),
        ("GET", "/docs", 404),
        ("GET", "/redoc", 404),
        ("GET", "/openapi.json", 200),
        ("GET", "/", 404),
        ("GET", "/setup?token=x", 410),
        ("POST", "/setup", 410),
        ("GET", "/setup/callback?code=x&state=x", 410),
    ),
)
def test_the_set_up_is_closed_and_no_page_loads_scripts_from_elsewhere(
    base: str, method: str, path: str, status: int
) -> None:
    assert call(base, method, path).status == status


def test_the_description_names_every_answer(base: str) -> None:
    paths: Any = call(base, "GET", "/openapi.json").body["paths"]
    told = {path: set(each["responses"]) for path, methods in paths.items() for each in methods.values()}
    assert told == {
        HOOK: {"202", "200", "400", "401", "413", "503"},
        "/healthz": {"200"},
        "/readyz": {"200", "503"},
        "/metrics": {"200", "401"},
        "/.well-known/plangate-keys.json": {"200", "404", "503"},
    }


def test_serving_without_a_secret_is_refused(tmp_path: Path) -> None:
    given = settings(tmp_path, "")
    with pytest.raises(Misconfigured, match="PLANGATE_WEBHOOK_SECRET"):
        serve(replace(given, github=replace(given.github, app_id="1")), "127.0.0.1", 0)


@pytest.mark.req("O1", "O2")
def test_metrics_are_for_a_token_or_without_one_for_this_machine(tmp_path: Path) -> None:
    service = Service(settings(tmp_path), Host(), worker=False)
    service.counters.add("sessions_total", end="answered")
    through, right, wrong = (
        ("X-Forwarded-For", "10.0.0.9"),
        ("Authorization", "Bearer t"),
        ("Authorization", "Bearer u"),
    )
    with host_application(application(service)) as base:
        assert call(base, "GET", "/metrics").status == 200
        assert call(base, "GET", "/metrics", given=[through]).status == 401
        assert call(base, "GET", "/metrics", given=[("Via", "1.1 proxy")]).status == 401
        rebound = urllib.request.Request(f"{base}/metrics", headers={"Host": "rebound.example"})  # noqa: S310 - our own address
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(rebound, timeout=20)  # noqa: S310 - our own address
        assert call(base, "GET", "/metrics", given=[through, ("Authorization", "Bearer ")]).status == 401
        service.settings = replace(service.settings, github=replace(service.settings.github, api_token=Secret("t")))
        for given in ([], [wrong], [through, wrong], [("Authorization", "Bearer ")]):
            assert call(base, "GET", "/metrics", given=given).status == 401
        assert call(base, "GET", "/metrics", given=[through, right]).status == 200
        asking = urllib.request.Request(f"{base}/metrics", headers=dict([right]))  # noqa: S310 - our own address
        with urllib.request.urlopen(asking, timeout=20) as answer:  # noqa: S310 - our own address
            text = answer.read().decode().splitlines()
    assert text[:2] == ["# TYPE plangate_sessions_total counter", 'plangate_sessions_total{end="answered"} 1']


@pytest.mark.req("RC4")
def test_everybody_may_read_the_keys_of_receipts_and_revoked_ones_stay_revoked(tmp_path: Path) -> None:
    given = settings(tmp_path)
    first, second = (replace(given, state_key=Secret(letter * 40)) for letter in "ab")

    def keys(of: Settings) -> list[dict[str, Any]]:
        service = Service(of, Host(), worker=False)
        with host_application(application(service, BOUNDS)) as address:
            found: Any = call(address, "GET", "/.well-known/plangate-keys.json").body["keys"]
            return list(found)

    (one,) = keys(first)
    assert set(one) == {"id", "public"}
    old, new = keys(second)
    assert (old["id"], "until" in old, "since" in new, new["id"] != one["id"]) == (one["id"], True, True, True)
    path = tmp_path / "plangate-keys.json"
    listed = json.loads(path.read_text())
    listed["keys"][0]["revoked"] = "2026-11-20T00:00:00+00:00"
    path.write_text(json.dumps(listed))
    assert keys(second)[0]["revoked"] == "2026-11-20T00:00:00+00:00"
    assert len(keys(second)) == 2
    mistaken = path.read_text().replace("2026-11-20T", "2026-11-31T")
    path.write_text(mistaken)
    with host_application(application(Service(second, Host(), worker=False), BOUNDS)) as address:
        assert call(address, "GET", "/.well-known/plangate-keys.json").status == 503
    assert path.read_text() == mistaken
