"""Limits how fast the bot writes to GitHub (E2), so that GitHub does not have to.

GitHub allows 80 requests a minute that create content, and 500 an hour. It asks integrations that write a lot to write
one request after the other, at least a second apart. One request of a person leads to only a few writes, so a few may
go at once:

- All writes of an account share a bucket of 24 that gains one a second. Reactions may take all of it: 20 people who
  mention the bot at the same time see its 👀 at once.
- All other writes also need room in a bucket of four, so that comments cannot take what reactions need.
- Nothing is written while another write waits for its response. A reaction waits for at most one other write.

A full bucket and a minute's gain are 84, so the writes of the last minute and of the last hour are counted as well.

https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api#pause-between-mutative-requests
https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api#avoid-concurrent-requests
https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits
"""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from bot.github.responses import RateLimited
from bot.ports import Clock

MINUTE: Final = 60.0
HOUR: Final = 3600.0
A_MINUTE: Final = 80
AN_HOUR: Final = 500
"""Maximum number of writes within a minute, and within an hour."""
LONGEST_WAIT: Final = 120.0
"""Maximum seconds that a caller waits. A longer wait raises RateLimited."""
BURST: Final = 24
"""Maximum number of writes without a pause."""
OTHER_BURST: Final = 4
"""Maximum number of writes without a pause that are not reactions."""


@dataclass(frozen=True, slots=True)
class ReportedLimit:
    """The limit of one resource, such as ``core`` or ``graphql``."""

    resource: str
    limit: int
    remaining: int
    reset: datetime
    """When `remaining` is `limit` again."""


@dataclass(slots=True)
class Bucket:
    """A token bucket, stored as the time at which it is full again."""

    size: int
    full_at: float = -math.inf

    def wait(self, now: float, between: float) -> float:
        """Return the seconds until it holds a token, or a number that is not positive if it holds one."""
        return self.full_at - (self.size - 1) * between - now

    def spend(self, now: float, between: float) -> None:
        """Take one token."""
        self.full_at = max(self.full_at, now) + between


@dataclass(slots=True)
class WritePace:
    """Decides when the next write may go. Everything that writes under one account shares it.

    Times are the seconds of `clock.monotonic`.
    """

    clock: Clock
    between: float = 1.0
    """Seconds in which a bucket gains one write."""
    an_hour: int = AN_HOUR
    limits: dict[str, ReportedLimit] = field(default_factory=dict, init=False)
    """The newest limits that GitHub reported for the account, by resource."""
    _writes: deque[float] = field(default_factory=deque)
    _shut_until: float = 0.0
    _all: Bucket = field(default_factory=lambda: Bucket(BURST))
    _others: Bucket = field(default_factory=lambda: Bucket(OTHER_BURST))
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _other_turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def busy(self) -> bool:
        """Whether so much was written that everything that can wait, such as progress updates, should wait."""
        waits = self._other_wait() > 0 or self._wait_for_room() > 0
        return waits or len(self._writes) > self.an_hour * 3 // 4

    @property
    def has_spare(self) -> bool:
        """Whether writes may go that nobody waits for, such as reactions for people who may not ask.

        Half of an hour's writes is reserved for everybody else, so that one stranger cannot keep them waiting.
        """
        self._wait_for_room()  # forgets what is older than an hour
        return len(self._writes) < self.an_hour // 2

    async def read(self) -> None:
        """Wait as long as GitHub asked us to wait."""
        await self._wait(self._shut_until - self.clock.monotonic())

    @asynccontextmanager
    async def write(self, *, reaction: bool = False) -> AsyncIterator[None]:
        """Wait until the next write may go, record it, and let no other write go before the block ends.

        Reactions queue with at most one other write at a time.
        """
        if reaction:
            async with self._wait_in_line():
                yield
            return
        async with self._other_turn:
            await self._wait(self._other_wait())
            async with self._wait_in_line():
                self._others.spend(self.clock.monotonic(), self.between)
                yield

    def record(self, headers: Mapping[str, str]) -> None:
        """Record what an answer reports about the account's limits."""
        if (limit := _reported_limit(headers)) is not None:
            self.limits[limit.resource] = limit

    def shut(self, seconds: float) -> None:
        """Block all requests for that many seconds, because GitHub asked for it."""
        self._shut_until = max(self._shut_until, self.clock.monotonic() + seconds)

    @asynccontextmanager
    async def _wait_in_line(self) -> AsyncIterator[None]:
        async with self._turn:
            await self._wait(max(self._shut_until - self.clock.monotonic(), self._wait_for_room()))
            now = self.clock.monotonic()
            self._writes.append(now)
            self._all.spend(now, self.between)
            yield

    def _other_wait(self) -> float:
        return self._others.wait(self.clock.monotonic(), self.between)

    def _wait_for_room(self) -> float:
        """Return the seconds until the bucket and the windows have room for another write."""
        now, writes = self.clock.monotonic(), self._writes
        while writes and writes[0] <= now - HOUR:
            writes.popleft()
        waits = [0.0, self._all.wait(now, self.between)]
        if len(writes) >= A_MINUTE:
            waits.append(writes[-A_MINUTE] + MINUTE - now)
        if len(writes) >= self.an_hour:
            waits.append(writes[-self.an_hour] + HOUR - now)
        return max(waits)

    async def _wait(self, seconds: float) -> None:
        if seconds > LONGEST_WAIT:
            raise RateLimited(seconds, where="GitHub")
        if seconds > 0:
            await self.clock.sleep(seconds)


def _reported_limit(headers: Mapping[str, str]) -> ReportedLimit | None:
    """Return the limit that an answer reports; None for an answer that reports none. Names are in lower case.

    https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#checking-the-status-of-your-rate-limit
    """
    numbers = [headers.get(f"x-ratelimit-{name}", "") for name in ("limit", "remaining", "reset")]
    if not all(number.isdecimal() and len(number) < 12 for number in numbers):
        return None
    limit, remaining, reset = map(int, numbers)
    resource = headers.get("x-ratelimit-resource", "core")
    return ReportedLimit(resource, limit, remaining, datetime.fromtimestamp(reset, UTC))
