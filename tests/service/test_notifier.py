"""The notifier: each reported move reaches the operator's webhook at least once, whatever the receiver does."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from bot.config.environment import redactor_for
from bot.config.environment import settings as read_settings
from bot.config.settings import Settings
from bot.core.errors import Misconfigured
from bot.core.gate import Move
from bot.core.moves import Entry
from bot.core.reporting import MOVES
from bot.core.secrets.redaction import Redactor
from bot.service.notifier import PAUSES, Notifier, signed_headers
from tests.core.journal_histories import History
from tests.rows import every_row
from tests.service.ground import HandClock, settle, thread

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SLOW = 0
"""The status of an answer that never comes."""


@dataclass
class Receiver:
    """A webhook on loopback that answers as it is told, and 204 afterwards."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _ in self.requests]

    def take(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["content-length"]))
        self.requests.append(({name.lower(): value for name, value in handler.headers.items()}, body))
        status = self.answers.pop(0) if self.answers else 204
        if status == SLOW:
            self.closing.wait(20)
            return
        handler.send_response(status)
        handler.send_header("location", f"{self.url}/elsewhere")
        handler.send_header("content-length", "0")
        handler.end_headers()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.take(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_port}/plangate"
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield made
        made.closing.set()
        server.shutdown()


def journal(*, until: Move = Move.PUBLISHED) -> list[Entry]:
    """Return a random journal that ends with that move."""
    for seed in range(1000):
        history = History(seed)
        for _ in range(12):
            history.grow()
            if history.entries[-1].kind == until:
                return history.entries
    raise AssertionError(until)


def given(folder: Path, url: str) -> Settings:
    env = {"PLANGATE_NOTIFY_URL": url, "PLANGATE_NOTIFY_SECRET": SECRET, "PLANGATE_DATA_DIR": str(folder)}
    return read_settings(env)


def notifier(folder: Path, url: str, at: datetime, *, seconds: float = 10.0) -> tuple[Notifier, HandClock]:
    clock = HandClock(at.timestamp())
    return Notifier(given(folder, url), clock, Redactor(), seconds=seconds), clock


async def sent(receiver: Receiver, work: Notifier, count: int) -> None:
    """Wait until that many requests arrived, and their answers were read."""
    clock = work.clock
    assert isinstance(clock, HandClock)
    async with asyncio.timeout(20):
        while len(receiver.requests) < count or not (work.is_idle or clock.waits()):  # noqa: ASYNC110 - a thread's
            await asyncio.sleep(0.005)


def moves(entries: list[Entry]) -> list[int]:
    return [each.n for each in entries if each.kind in MOVES]


async def test_the_signature_of_the_specification() -> None:
    """The example of https://github.com/standard-webhooks/standard-webhooks has the signature that it names."""
    key = given(Path(), "https://chat.example").notify.key()
    headers = signed_headers(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330")


async def test_each_move_is_sent_once_and_in_order(tmp_path: Path, receiver: Receiver) -> None:
    """However often the journal is read, and after a restart as well."""
    entries = journal()
    for _ in range(2):
        work, _ = notifier(tmp_path, receiver.url, entries[-1].at)
        async with work.running():
            for end in range(1, len(entries) + 1):
                work.send_new(thread(2), entries[:end])
                await settle(3)
            await sent(receiver, work, len(moves(entries)))
    bodies = [json.loads(body) for _, body in receiver.requests]
    assert [int(each.split("-")[2]) for each in receiver.ids()] == moves(entries)
    assert (bodies[-1]["type"], bodies[-1]["data"]["stage"]) == ("done", "in_review")
    assert bodies[-1]["data"]["pull_request"] == f"https://x/{entries[-1].n - 1}"


@pytest.mark.parametrize("answer", (500, 302, 429, SLOW))
async def test_a_receiver_that_fails_is_asked_again(tmp_path: Path, receiver: Receiver, answer: int) -> None:
    """With the same id and a signature of that moment. A redirect is a failure: nothing is sent elsewhere."""
    receiver.answers = [answer]
    entries = journal(until=Move.PROPOSED)
    work, clock = notifier(tmp_path, receiver.url, entries[-1].at, seconds=0.2 if answer == SLOW else 10)
    async with work.running():
        work.send_new(thread(2), entries)
        await sent(receiver, work, 1)
        assert clock.waits() == [PAUSES[0]]
        clock.turn(PAUSES[0])
        await sent(receiver, work, len(moves(entries)) + 1)
    (first, _), (second, _) = receiver.requests[:2]
    assert first["webhook-id"] == second["webhook-id"]
    assert int(second["webhook-timestamp"]) - int(first["webhook-timestamp"]) == PAUSES[0]
    assert work.counters.values[("notifications_total", (("outcome", "failed"), ("type", "waiting")))] == 1


async def test_a_receiver_that_is_down_is_given_up_after_a_day(tmp_path: Path) -> None:
    """The number of attempts is bounded, and the thread's journal may be read at any time meanwhile."""
    entries = journal(until=Move.PROPOSED)
    work, clock = notifier(tmp_path, "http://127.0.0.1:9/", entries[-1].at)
    attempts = 0
    async with work.running():
        work.send_new(thread(2), entries)
        while not work.is_idle:
            async with asyncio.timeout(20):
                while not (clock.waits() or work.is_idle):  # noqa: ASYNC110 - the request is a real one
                    await asyncio.sleep(0.002)
            if clock.waits():
                attempts += 1
                clock.turn(clock.waits()[0])
                work.send_new(thread(2), entries)
                await settle()
    assert attempts == 28
    assert sum(v for k, v in work.counters.values.items() if ("outcome", "given up") in k[1]) == len(moves(entries))


async def test_a_process_that_dies_before_it_sends(tmp_path: Path, receiver: Receiver) -> None:
    """The next one reads the journal again, and sends what the first one could not, with the same id."""
    entries = journal(until=Move.PROPOSED)
    first, _ = notifier(tmp_path, "http://127.0.0.1:9/", entries[-1].at)
    async with first.running():
        first.send_new(thread(2), entries)
        await settle()
    for _ in range(2):
        second, _ = notifier(tmp_path, receiver.url, entries[-1].at)
        async with second.running():
            second.send_new(thread(2), entries)
            await sent(receiver, second, len(moves(entries)))
    assert [int(each.split("-")[2]) for each in receiver.ids()] == moves(entries)


async def test_no_secret_is_sent(tmp_path: Path, receiver: Receiver) -> None:
    """What people wrote into a title is redacted before it is signed."""
    entries = journal(until=Move.PROPOSED)
    work, _ = notifier(tmp_path, receiver.url, entries[-1].at)
    title = "my-own-password-of-long-ago"
    work.redactor.learn(title, "API token")
    for entry in entries:
        entry.body.update({"title": title} if entry.kind == Move.REQUESTED else {})
    async with work.running():
        work.send_new(thread(2), entries)
        await sent(receiver, work, 1)
    told = json.loads(receiver.requests[0][1])["data"]["title"]
    assert told
    assert "password" not in told


async def test_a_journal_that_cannot_be_folded_harms_nothing(tmp_path: Path, receiver: Receiver) -> None:
    """It is logged, and other threads are reported."""
    entries = journal(until=Move.PROPOSED)
    work, _ = notifier(tmp_path, receiver.url, entries[-1].at)
    broken = [Entry(1, datetime.now(UTC), Move.PUBLISHED, {"nonsense": 1})]
    async with work.running():
        work.send_new(thread(1), broken)
        work.send_new(thread(2), entries)
        await sent(receiver, work, len(moves(entries)))
    assert {each.split("-")[1] for each in receiver.ids()} == {"2"}


async def test_without_an_address_nothing_happens(tmp_path: Path) -> None:
    """No file, no task."""
    work = Notifier(Settings(data_dir=tmp_path), HandClock(), Redactor())
    async with work.running():
        work.send_new(thread(2), journal())
        assert work.is_idle
    assert not [*tmp_path.iterdir()]


@every_row(
    ("url", "secret", "problem"),
    (
        ("http://chat.example/", SECRET, "not an address for notifications"),
        ("https://me:pass@chat.example/", SECRET, "not an address for notifications"),
        ("ftp://chat.example/", SECRET, "not an address"),
        ("https://chat.example/", "", "need an address and a secret"),
        ("", SECRET, "need an address and a secret"),
        ("https://chat.example/", "my secret", "not a secret of standard webhooks"),
        ("https://chat.example/", "whsec_c2hvcnQ=", "not a secret of standard webhooks"),
        ("https://chat.example/", "whsec_!!!", "not a secret of standard webhooks"),
    ),
)
def test_what_operators_may_set(url: str, secret: str, problem: str) -> None:
    """Plain http only to this machine, and a secret that libraries take."""
    with pytest.raises(Misconfigured, match=problem):
        read_settings({"PLANGATE_NOTIFY_URL": url, "PLANGATE_NOTIFY_SECRET": secret})


@pytest.mark.parametrize("url", ("https://10.0.0.7/chat", "http://127.0.0.1:8065/hook", "http://[::1]:1/", ""))
def test_addresses_that_operators_may_set(url: str) -> None:
    """A private address is the operator's own choice; and its secret is never shown."""
    found = read_settings({"PLANGATE_NOTIFY_URL": url, "PLANGATE_NOTIFY_SECRET": SECRET if url else ""})
    assert found.notify.url == url.rstrip("/")
    assert SECRET not in redactor_for(found).redact(f"it is {SECRET}")


async def test_the_example_of_the_documentation(tmp_path: Path, receiver: Receiver) -> None:
    """What docs/notifications.md shows accepts what is sent, and nothing else; and each field is explained there."""
    page = (Path(__file__).parents[2] / "docs" / "notifications.md").read_text()
    names: dict[str, Any] = {}
    exec(page.split("```python\n")[1].split("```")[0], names)  # noqa: S102 - our own page
    entries = journal(until=Move.PROPOSED)
    work, clock = notifier(tmp_path, receiver.url, entries[-1].at)
    clock.seconds = time.time()
    fresh = [replace(each, at=datetime.now(UTC)) for each in entries]
    async with work.running():
        work.send_new(thread(2), fresh)
        await sent(receiver, work, 1)
    headers, body = receiver.requests[0]
    names["verify"](SECRET, headers, body)
    late = {**headers, "webhook-timestamp": str(int(headers["webhook-timestamp"]) - 301)}
    for others, text in ((headers, body + b" "), (late, body), ({**headers, "webhook-signature": "v1,"}, body)):
        with pytest.raises(ValueError, match=r"bad signature|too old"):
            names["verify"](SECRET, others, text)
    shown, sent_body = json.loads(page.split("```json\n")[1].split("```")[0]), json.loads(body)
    assert (shown.keys(), shown["data"].keys()) == (sent_body.keys(), sent_body["data"].keys())
    assert all(f"`{name}`" in page for name in shown["data"])
    assert all(f"`{move}`" in page for move in MOVES)
