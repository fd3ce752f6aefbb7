"""Limits what strangers may have the service try in vain, for each account and in all (W1b)."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from bot.core.errors import PlangateError, Refused
from bot.ports import Clock


@dataclass(slots=True)
class AttemptLimit:
    """Counts attempts that failed in the last `seconds`, and those under way, so that many at once count as well.

    Callers ask `has_room` first, so that at most `in_all` attempts are remembered.
    """

    clock: Clock
    per_account: int
    in_all: int
    seconds: float
    _attempts: deque[tuple[float, object]] = field(init=False, default_factory=deque)
    """When each began, and for which account, oldest first."""

    def has_room(self, account: object) -> bool:
        """Return whether an account may try once more."""
        while self._attempts and self._attempts[0][0] <= self.clock.monotonic() - self.seconds:
            self._attempts.popleft()
        own = sum(account == other for _, other in self._attempts)
        return own < self.per_account and len(self._attempts) < self.in_all

    @contextmanager
    def count(self, account: object, failure: type[PlangateError] = Refused) -> Iterator[None]:
        """Count an attempt while the block runs, and afterward if the block raises such an error."""
        attempt, is_failed = self.record(account), False
        try:
            yield
        except failure:
            is_failed = True
            raise
        finally:
            if not is_failed:
                with suppress(ValueError):  # it began so long ago that it is forgotten
                    self._attempts.remove(attempt)

    def record(self, account: object) -> tuple[float, object]:
        """Count an attempt however it ends, and return its record."""
        self._attempts.append((self.clock.monotonic(), account))
        return self._attempts[-1]
