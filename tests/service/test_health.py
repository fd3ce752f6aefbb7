"""What the service says of its parts costs little, whoever asks how often."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bot.core.errors import Transient
from bot.service.health import Check
from bot.service.queue.queue_port import Outcome
from bot.service.service import Service
from tests.service.ground import HandClock, Host, delivery, settings


@dataclass
class Part:
    """A part of the service that is asked how it is."""

    failure: Exception | None = None
    asked: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self) -> None:
        self.asked += 1
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure


async def test_a_part_is_asked_once_in_a_while() -> None:
    """Many who ask at the same time, and in the seconds after, get one answer."""
    part, clock = Part(), HandClock()
    check = Check("part", part.ask, 5.0, clock)
    waiting = [asyncio.ensure_future(check.state()) for _ in range(50)]
    part.gate.set()
    assert await asyncio.gather(*waiting) == ["ok"] * 50
    clock.turn(4)
    part.failure = OSError(28, "No space left on device")
    assert (await check.state(), part.asked) == ("ok", 1)
    clock.turn(1)
    assert (await check.state(), part.asked) == ("failing", 2)


@pytest.mark.req("D2")
async def test_what_the_work_shows_counts_at_once() -> None:
    """Nobody has to be asked for it."""
    part = Part(Transient("full"))
    part.gate.set()
    check = Check("part", part.ask, 5.0, HandClock())
    assert await check.state() == "failing"
    check.learn(is_ok=True)
    assert (await check.state(), part.asked) == ("ok", 1)


async def test_readiness_does_not_write_for_each_that_asks(tmp_path: Path) -> None:
    """One probe serves all that ask within seconds; a delivery that cannot be stored is known without one."""
    service = Service(settings(tmp_path), Host(), worker=False)
    assert await service.can_store()
    (tmp_path / "inbox").rmdir()
    (tmp_path / "inbox").write_text("a file, not a folder")
    assert await service.can_store()
    assert await service.receive(delivery(1)) is Outcome.NO_ROOM
    assert not await service.can_store()
