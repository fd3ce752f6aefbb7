"""Event streams over real connections: nothing missed, nothing repeated, nobody held up."""

import asyncio
import os
import random
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bot.service.overview.recorder import READ_SECONDS
from tests.core.journal_histories import histories
from tests.stories.ground import until
from tests.webhooks.api_ground import TOKEN, World, as_operator, place, request, serving
from webhooks.client_limits import ClientLimits
from webhooks.event_stream import Streams

EVENTS = "/api/threads/octo/hello/1/events"
(ENTRIES,) = histories(1, 25)


def streaming(world: World, limits: ClientLimits | None = None) -> AbstractAsyncContextManager[str]:
    return serving(world.service, limits or ClientLimits(), world.routes, stopping=world.streams.end)


class Stream:
    """One client of a stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.status = 0

    async def next_id(self) -> int:
        """Return the id of the next event; 0 for a sign of life."""
        while True:
            line = await asyncio.wait_for(self.reader.readline(), 20)
            if not line:
                raise ConnectionResetError
            if line.startswith(b"id: "):
                return int(line[4:])
            if line.startswith(b": alive"):
                return 0

    async def ids(self, count: int) -> list[int]:
        """Return the ids of the next events; a busy machine may see signs of life between them."""
        found: list[int] = []
        while len(found) < count:
            found += [ident] if (ident := await self.next_id()) else []
        return found


@asynccontextmanager
async def connected(base: str, last: int | None = None, receive_buffer: int = 0) -> AsyncIterator[Stream]:
    where = urlsplit(base)
    link = socket.socket()
    if receive_buffer:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    link.setblocking(False)
    await asyncio.get_running_loop().sock_connect(link, (where.hostname or "", where.port or 0))
    reader, writer = await asyncio.open_connection(sock=link, limit=4096)
    known = f"Last-Event-ID: {last}\r\n" if last is not None else ""
    writer.write(f"GET {EVENTS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n{known}\r\n".encode())
    stream = Stream(reader, writer)
    stream.status = int((await reader.readline()).split()[1])
    try:
        yield stream
    finally:
        writer.transport.abort()


async def test_an_append_reaches_the_stream_at_once_without_asking_github(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.append(1, ENTRIES[:3])
    async with streaming(world) as base, connected(base) as stream:
        assert await stream.ids(3) == [1, 2, 3]
        reads = world.journal.reads
        for n in range(3, 9):
            await world.append(1, ENTRIES[n : n + 1])
            assert await stream.next_id() == n + 1
        assert world.journal.reads == reads


async def test_twenty_cut_connections_miss_and_repeat_nothing(tmp_path: Path) -> None:
    world, chance, got = World(tmp_path), random.Random(1), list[int]()
    await world.append(1, ENTRIES[:1])

    async def write() -> None:
        for n in range(1, len(ENTRIES)):
            await world.append(1, ENTRIES[n : n + 1])
            await asyncio.sleep(0)

    async with streaming(world) as base:
        writing = asyncio.create_task(write())
        for _ in range(20):
            async with connected(base, got[-1] if got else None) as stream:
                got += await stream.ids(min(chance.randint(0, 4), len(ENTRIES) - len(got)))
        await writing
        async with connected(base, got[-1]) as stream:
            got += await stream.ids(len(ENTRIES) - len(got))
    assert got == list(range(1, len(ENTRIES) + 1))


async def test_what_another_process_appends_is_found_at_the_next_reading(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.append(1, ENTRIES[:1])
    world.journal.reads = 0
    async with streaming(world) as base, connected(base) as stream:
        assert await stream.next_id() == 1
        await world.journal.write(ENTRIES[1:3])
        world.clock.turn(READ_SECONDS)
        world.recorder.announcements.announce(place(1))  # in place of the 15 s that the stream waits
        assert await stream.ids(2) == [2, 3]
        world.recorder.announcements.announce(place(1))
        assert await stream.next_id() == 0


async def test_a_stream_tells_of_a_journal_that_was_set_back_and_goes_on(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.append(1, ENTRIES[:5])
    async with streaming(world) as base, connected(base, last=9) as stream:
        assert await stream.next_id() == 5
        await world.append(1, ENTRIES[5:6])
        assert await stream.next_id() == 6


async def test_streams_are_bounded(tmp_path: Path) -> None:
    world = World(tmp_path, streams=Streams(most=2))
    await world.append(1, ENTRIES[:1])
    async with streaming(world) as base:
        async with connected(base) as first, connected(base) as second:
            await first.next_id(), await second.next_id()
            refused = await asyncio.to_thread(request, base, "GET", EVENTS, as_operator())
            assert (refused.status, refused.headers["retry-after"]) == (503, "10")
            assert world.streams.count == 2
        await asyncio.to_thread(until, lambda: not world.streams.count, "the streams end")
        async with connected(base) as third:
            assert await third.next_id() == 1


async def test_a_stream_outlasts_the_time_for_requests(tmp_path: Path) -> None:
    world = World(tmp_path, streams=Streams(seconds=2.5))
    await world.append(1, ENTRIES[:1])
    async with streaming(world, ClientLimits(request_seconds=0.8)) as base, connected(base) as stream:
        assert await stream.next_id() == 1
        await asyncio.sleep(1.2)
        await world.append(1, ENTRIES[1:2])
        assert await stream.next_id() == 2
        await asyncio.wait_for(
            stream.reader.readuntil(b"\r\n0\r\n\r\n"), 20
        )  # https://www.rfc-editor.org/rfc/rfc9112#name-chunked-transfer-coding


async def test_a_service_that_ends_ends_its_streams_between_two_events(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.append(1, ENTRIES[:1])
    async with streaming(world) as base, connected(base) as stream:
        assert await stream.next_id() == 1
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(stream.reader.readuntil(b"\r\n0\r\n\r\n"), 20)


async def test_a_slow_reader_is_cut_off(tmp_path: Path) -> None:
    world = World(tmp_path, streams=Streams(send_seconds=0.2))
    await world.append(1, ENTRIES[:1])
    large = replace(ENTRIES[0], body=ENTRIES[0].body | {"text": "x" * 400_000})
    async with streaming(world) as base, connected(base, receive_buffer=4096) as stream:
        assert await stream.next_id() == 1
        while world.streams.count:
            await world.append(1, [replace(large, kind="heard", body=_heard(large.body))])
            await asyncio.sleep(0.05)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await stream.reader.readexactly(10**9)


def _heard(body: dict[str, object]) -> dict[str, object]:
    said = {"turn": "t", "actor": 7, "login": "u7", "text": "", "turn_at": "2026-11-20T08:30:00+00:00"}
    return said | {"text": body["text"]}
