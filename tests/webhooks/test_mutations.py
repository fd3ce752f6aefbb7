"""Deliveries that nobody would send: each is signed, so each is read, and none of them breaks anything."""

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.service.service import Service
from bot.testing.host import host_application
from tests.github.test_deliveries import examples
from tests.service.ground import Host, call, headers, payload, settings
from webhooks.app import application

ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**63,
    10**400,
    1.5,
    "",
    "x",
    "7",
    "\u0000",
    "\ud800",
    "../..",
    [],
    {},
    [[]],
    {"id": {}},
    "👩‍🔬" * 500,
)
"""What no payload has in most places."""


def bodies() -> list[tuple[str, bytes]]:
    """Return GitHub's examples of the events that we take or, without them, one of our own."""
    return examples() or [("issues", payload(3)), ("issue_comment", payload(4))]


def mutate(body: bytes, chance: random.Random) -> bytes:
    """Return a body with a few changes: to its values, or to its bytes."""
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
        return chance.choice(ODD)
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
    """Send mutations of every body in turn. The inbox is emptied now and then, as looks would do."""
    chance, known = random.Random(1), bodies()
    for n in range(count):
        event, body = known[n % len(known)]
        changed = mutate(body, chance)
        assert send(base, n, event, changed) in {200, 202, 400}, (n, event, changed[:500])
        if n % 200 == 199:
            shutil.rmtree(folder / "inbox", ignore_errors=True)


def test_every_example_is_taken(base: str) -> None:
    """GitHub's own examples are stored, or are not for us."""
    statuses = [send(base, n, event, body) for n, (event, body) in enumerate(bodies())]
    assert set(statuses) <= {200, 202}
    assert 202 in statuses


@pytest.mark.long
def test_mutations(base: str, tmp_path: Path) -> None:
    """A sample of mutations."""
    check_mutations(base, tmp_path, 200)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_many_mutations(base: str, tmp_path: Path) -> None:
    """Ten thousand mutations."""
    check_mutations(base, tmp_path, 10_000)
