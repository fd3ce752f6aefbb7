"""Laws of the worker: whatever comes in whatever order, checks never overlap and nothing that was said is missed."""

import asyncio
import tempfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.errors import Refused, Transient
from bot.service.inbox import Inbox
from bot.service.queue.queue_port import Outcome
from tests.service.ground import FileWork, Host, delivery, settle, thread

WITH_SESSION = (3, 4)
"""The threads whose checks run sessions."""
ROUNDS = 25
"""Steps of the event loop between which a worker that waits for nothing from outside comes to rest."""
NUMBERS = st.integers(1, 4)
STEPS = st.one_of(
    st.tuples(st.just("wake"), NUMBERS),
    st.tuples(st.just("deliver"), NUMBERS),
    st.tuples(st.just("finish"), NUMBERS),
    st.tuples(st.just("refuse"), NUMBERS),
    st.tuples(st.just("fail"), NUMBERS),
    st.tuples(st.just("heard"), NUMBERS),
    st.tuples(st.just("time"), st.integers(1, 400)),
)


class CountedThreads(ThreadPoolExecutor):
    """The threads of an event loop, which remember what is under way, so that a test can wait for it."""

    def __init__(self) -> None:
        super().__init__(1)
        self._under_way: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._under_way.append(future := super().submit(fn, *args, **kwargs))
        return future

    async def settle(self) -> None:
        """Let everything run that can run without anything from outside, work in threads included."""
        await settle(ROUNDS)
        while self._under_way:
            await asyncio.wait([asyncio.wrap_future(self._under_way.pop())])
            await settle(ROUNDS)


@dataclass(slots=True)
class Play:
    """One run of a worker, with what was asked of it and when: times are positions in the host's list of calls."""

    inbox: Inbox
    host: Host = field(default_factory=lambda: Host(hold=True, hold_readings=True, sessions=WITH_SESSION))
    asked: list[tuple[int, int]] = field(default_factory=list)
    stored: dict[str, int] = field(default_factory=dict)

    def run(self, steps: list[tuple[str, int]]) -> None:
        """Take the steps on an event loop of their own."""

        async def play() -> None:
            work = FileWork.on(self.inbox, self.host, looks=1, sessions=1)
            async with asyncio.timeout(20), work.worker.running():
                asyncio.get_running_loop().set_default_executor(threads := CountedThreads())
                await self.play(work, steps, threads)

        asyncio.run(play())

    async def play(self, work: FileWork, steps: list[tuple[str, int]], threads: CountedThreads) -> None:
        for what, number in steps:
            await self.step(work, what, number)
            await threads.settle()
            self.check()
        while await work.busy():
            work.clock.turn(300)
            for call in [*self.host.under_way("check"), *self.host.under_way("read")]:
                call.end.set_result(None)
            await threads.settle()
            self.check()

    async def step(self, work: FileWork, what: str, number: int) -> None:
        checking = [call for call in self.host.under_way() if call.address.number == number]
        reading = [call for call in self.host.under_way("read") if call.address.number == number]
        match what:
            case "wake":
                self.asked.append((number, len(self.host.calls)))
                await work.store.wake([thread(number)])
            case "deliver":
                made = delivery(number, f"guid-{number}-{len(self.asked)}")
                self.asked.append((number, len(self.host.calls)))
                at = len(self.host.calls)
                if await work.store.store_all([made]) == [Outcome.STORED]:
                    self.stored[made.guid] = at
            case "finish" if checking:
                checking[0].end.set_result(None)
            case "refuse" if checking:
                checking[0].end.set_exception(Refused("no"))
            case "fail" if checking:
                checking[0].end.set_exception(Transient("away"))
            case "heard" if reading:
                reading[0].end.set_result(None)
            case "time":
                work.clock.turn(number)
            case _:
                pass  # there is nothing to end

    def check(self) -> None:
        """What holds at every moment."""
        for what in ("check", "read"):
            under_way = [call.address.number for call in self.host.under_way(what)]
            assert len(under_way) == len(set(under_way))
        sessions = [call for call in self.host.under_way() if call.address.number in WITH_SESSION]
        assert len(sessions) <= 1
        assert len(self.host.under_way()) - len(sessions) <= 1
        waiting = {each.guid for each in self.inbox.waiting()}
        for guid, at in self.stored.items():
            if guid not in waiting:
                number = int(guid.split("-")[1])
                assert any(
                    call.what in {"check", "queued"} and call.address.number == number and settled(call.end)
                    for call in self.host.calls[at:]
                ), f"{guid} was let go before a check covered it"


def settled(end: "asyncio.Future[None]") -> bool:
    """Whether a check came to an end that is no passing failure."""
    return end.done() and not end.cancelled() and not isinstance(end.exception(), Transient)


@pytest.mark.req("W2", "E4")
@given(st.lists(STEPS, max_size=25))
def test_no_wake_is_missed_and_no_check_overlaps(steps: list[tuple[str, int]]) -> None:
    """Each wake is followed by a check that began after it, with its session; a file goes only after a check; no more
    checks or sessions run than there are slots; at rest the inbox is empty."""
    with tempfile.TemporaryDirectory() as folder:
        play = Play(Inbox(Path(folder)))
        play.run(steps)
        assert play.inbox.waiting() == ()
        for number, at in play.asked:
            later = [call for call in play.host.calls[at:] if call.what == "check"]
            assert number in [call.address.number for call in later]


def test_the_laws_are_not_vacuous() -> None:
    """The steps reach what the laws speak of: overlapping wakes, full slots, readings, retries, queued sessions."""
    with tempfile.TemporaryDirectory() as folder:
        play = Play(Inbox(Path(folder)))
        full = [("deliver", 1), ("wake", 2), ("deliver", 1), ("heard", 2), ("heard", 1), ("finish", 1)]
        again = [("fail", 2), ("heard", 1), ("finish", 1), ("time", 1), ("finish", 2)]
        play.run([*full, *again, ("deliver", 3), ("wake", 4)])
        assert play.host.numbers().count(1) == 2
        assert play.host.numbers().count(2) == 2
        assert play.host.numbers("queued") == [4]
        assert {1, 2} <= set(play.host.numbers("read"))
