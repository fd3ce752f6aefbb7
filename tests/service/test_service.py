"""The service: what becomes of a delivery, and what it says of itself."""

import asyncio
import os
import signal
import threading
from pathlib import Path

import pytest

from bot.core.errors import Transient
from bot.service.queue.queue_port import Outcome
from bot.service.service import Service
from tests.service.ground import Host, deliver, delivery, idle, settings, settle, waiting
from webhooks.app import bind_listener, run
from webhooks.client_limits import ClientLimits


async def test_a_delivery_is_checked(tmp_path: Path) -> None:
    """Stored, checked, let go."""
    host = Host()
    service = Service(settings(tmp_path), host)
    async with service.running():
        assert await service.receive(delivery(1)) is Outcome.STORED
        await idle(service)
        assert await service.receive(delivery(1)) is Outcome.DUPLICATE
    assert host.numbers() == [1]
    assert waiting(service) == ()


@pytest.mark.req("W1", "D2")
async def test_a_delivery_is_taken_in_while_everybody_waits_for_github(tmp_path: Path) -> None:
    """However many threads hang there, the answer comes in time; so does that of /readyz."""
    service, answered = Service(settings(tmp_path), Host(), worker=False), threading.Event()
    hanging = [asyncio.ensure_future(asyncio.to_thread(answered.wait, 60)) for _ in range(64)]
    try:
        async with asyncio.timeout(10):
            assert await service.receive(delivery(1)) is Outcome.STORED
            assert (await service.state())["deliveries"] == "ok"
    finally:
        answered.set()
        await asyncio.gather(*hanging)


@pytest.mark.req("W2")
async def test_deliveries_for_a_thread_that_waits_join(tmp_path: Path) -> None:
    """One file stands for all that say the same; from the moment the check begins the next one is stored again."""
    host = Host(hold=True)
    service = Service(settings(tmp_path), host)
    async with service.running():
        for number in range(1, 10):  # all check slots and one more
            await service.receive(delivery(number))
        await settle()
        waits = next(number for number in range(1, 10) if number not in host.numbers())
        assert await service.receive(delivery(waits, "later")) is Outcome.JOINED
        assert len(waiting(service)) == 9
        checking = host.numbers()[0]
        assert await service.receive(delivery(checking, "during")) is Outcome.STORED
        assert await service.receive(delivery(checking, "too")) is Outcome.JOINED
        assert len(waiting(service)) == 10


async def test_it_runs_until_a_signal(tmp_path: Path) -> None:
    """Over HTTP, from the first delivery to the end of its checks; what stops it is told once."""
    host, told = Host(hold=True), []
    service = Service(settings(tmp_path), host)
    with bind_listener("127.0.0.1", 0) as listener:
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        running = asyncio.create_task(run(service, listener, ClientLimits(), stopping=lambda: told.append(1)))
        assert (await asyncio.to_thread(deliver, base, 1)).status == 202
        await host.until(1)
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
            await settle()
        await running
    assert told == [1]
    assert host.under_way() == []
    assert waiting(service)[0].guid == "guid-1"


async def test_without_a_worker_deliveries_are_only_stored(tmp_path: Path) -> None:
    """The next worker takes them up."""
    host = Host()
    service = Service(settings(tmp_path), host, worker=False)
    async with service.running():
        assert await service.receive(delivery(1)) is Outcome.STORED
        await settle()
    assert host.calls == []
    later = Service(settings(tmp_path), host)
    async with later.running():
        await host.until(1)
    assert host.numbers() == [1]


async def test_the_model_is_asked_once_in_a_while(tmp_path: Path) -> None:
    """Whoever asks for the state again and again costs the model nothing."""
    asked = []

    async def model() -> None:
        asked.append(1)

    service = Service(settings(tmp_path), Host(), model=model)
    assert [(await service.state())["model"] for _ in range(3)] == ["ok"] * 3
    assert len(asked) == 1


@pytest.mark.parametrize("error", (Transient("away"), TimeoutError()))
async def test_a_model_that_fails(tmp_path: Path, error: Exception) -> None:
    """It is said, and deliveries are stored all the same."""

    async def model() -> None:
        raise error

    state = await Service(settings(tmp_path), Host(), model=model).state()
    assert (state["model"], state["deliveries"]) == ("failing", "ok")
