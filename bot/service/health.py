"""Health of the service's parts, and a circuit breaker for each App installation."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from bot.clock import SystemClock
from bot.core.errors import Conflict, PlangateError, Transient
from bot.core.names import ThreadAddress
from bot.github.responses import BadToken, Forbidden
from bot.logs import failure, say
from bot.ports import Clock
from bot.service.slots import Installation

# --- Health checks ----------------------------------------------------------------------------------------------------
# Each check runs at most once per interval, however often it is queried.

TIMEOUT_SECONDS: Final = 5.0


@dataclass(slots=True)
class Check:
    """A health check of one part, with its latest result: unknown, ok, or failing."""

    name: str
    ask: Callable[[], Awaitable[object]]
    """Returns if the part is healthy, and raises an error if it fails."""
    seconds: float
    """Seconds for which a result stays valid."""
    clock: Clock = field(default_factory=SystemClock)
    _state: str = field(init=False, default="unknown")
    _asked: float = field(init=False, default=float("-inf"))
    _lock: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    async def state(self) -> str:
        """Return ok or failing. Callers that arrive while the check runs wait for its result."""
        async with self._lock:
            if self.clock.monotonic() - self._asked >= self.seconds:
                await self._renew()
        return self._state

    def learn(self, *, is_ok: bool) -> None:
        """Record a result that other work has shown, without a check."""
        self._state, self._asked = "ok" if is_ok else "failing", self.clock.monotonic()

    async def _renew(self) -> None:
        try:
            await asyncio.wait_for(self.ask(), TIMEOUT_SECONDS)
        except (PlangateError, OSError) as error:  # a TimeoutError is an OSError
            failure(self.name, error)
            self.learn(is_ok=False)
        else:
            self.learn(is_ok=True)


# --- A circuit breaker for each App installation ----------------------------------------------------------------------
# While GitHub fails for an installation, its checks take no slots in which they would wait for timeouts.
# Rules
# - A breaker opens when checks of three threads of an installation failed at GitHub with no success between them. One
#   thread alone opens nothing, because it may be broken by itself.
# - While it is open, checks are refused at once with InstallationUnavailable, and retried later: nothing is lost.
# - After a pause of 30 seconds one check goes through as a probe. If it fails, the pause doubles, up to 5 minutes.
# - Any check that succeeds closes the breaker.
# - A session with the model begins only after GitHub has answered, so what fails after that says nothing about GitHub.
#
# `Breaker` is pure: times are passed in. https://learn.microsoft.com/en-us/azure/architecture/patterns/circuit-breaker

THREADS: Final = 3
"""Failed threads in a row that open a breaker."""
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 300.0
"""Seconds without a request, after the first and after further failures."""

_FAILURES: Final = (Transient, Forbidden, BadToken)
"""Failures of an installation, except for Conflict: down, rate limited, suspended, or without its permissions."""

Key = tuple[int, int]
"""Identifies a thread: the id of its repository, and its number."""


class InstallationUnavailable(Transient):
    """GitHub fails for this installation, so no check of its threads begins for now."""

    def __init__(self, installation: Installation, seconds: float) -> None:
        super().__init__(
            "GitHub fails for this installation",
            where=f"installation {installation}",
            fix=f"the next probe is due in {seconds:.0f} s",
        )
        self.seconds = seconds


@dataclass(slots=True)
class Breaker:
    """The breaker of one installation that fails. Times are seconds of a monotonic clock."""

    failing: set[Key] = field(default_factory=set)
    """The threads that failed."""
    pause: float = 0.0
    """Seconds of the current pause; 0 while the breaker is closed."""
    until: float = 0.0
    """When the pause ends."""
    probe: Key | None = None
    """The thread whose check is the probe."""

    @property
    def state(self) -> str:
        """closed, open, or half-open."""
        return "closed" if not self.pause else "open" if self.probe is None else "half-open"

    def admits(self, thread: Key, now: float) -> bool:
        """Return whether a check of a thread may begin. While the breaker is open, that check is then the probe."""
        if not self.pause:
            return True
        if self.probe is not None or now < self.until:
            return False
        self.probe = thread
        return True

    def record_failure(self, thread: Key, now: float) -> None:
        """Record that GitHub failed for a check of a thread. Open if enough threads failed; double the pause if it was
        the probe."""
        self.failing.add(thread)
        if self.probe == thread or (not self.pause and len(self.failing) >= THREADS):
            self.probe = None
            self.pause = min(max(2 * self.pause, FIRST_PAUSE), LONGEST_PAUSE)
            self.until = now + self.pause

    def abandon_probe(self, thread: Key) -> None:
        """Record that a check ended before GitHub answered. If it was the probe, another check may become the probe."""
        if self.probe == thread:
            self.probe = None


@dataclass(slots=True)
class AdmittedCheck:
    """One check that the breaker admitted."""

    breakers: "InstallationBreakers"
    address: ThreadAddress
    is_over: bool = False
    """Whether GitHub's answer or failure was recorded."""

    def record_answer(self) -> None:
        """Record that GitHub answered. Call it before long work: what fails later says nothing about GitHub."""
        if not self.is_over:
            self.is_over = True
            self.breakers.record_success(self.address.installation)


@dataclass(slots=True)
class InstallationBreakers:
    """The breakers of one process, which knows only those installations that fail."""

    clock: Clock
    openings: int = 0
    """How often a breaker opened."""
    _breakers: dict[Installation, Breaker] = field(init=False, default_factory=dict)

    def is_open(self, installation: Installation) -> bool:
        """Return whether the breaker of an installation is not closed."""
        breaker = self._breakers.get(installation)
        return breaker is not None and breaker.state != "closed"

    @property
    def open_installations(self) -> frozenset[Installation]:
        """The installations whose breakers are not closed."""
        return frozenset(filter(self.is_open, self._breakers))

    def states(self) -> Mapping[str, Mapping[str, object]]:
        """Return the breakers that are not closed, by installation: state, and seconds until the next probe."""
        now = self.clock.monotonic()
        return {
            str(installation): {"state": breaker.state, "probe_in": max(0, round(breaker.until - now))}
            for installation, breaker in self._breakers.items()
            if breaker.state != "closed"
        }

    def metrics(self) -> str:
        """Return the breakers that are not closed, and the number of openings, in the Prometheus text format."""
        gauge, total = "plangate_installation_breaker", "plangate_installation_breaker_openings_total"
        rows = [f'{gauge}{{installation="{name}",state="{row["state"]}"}} 1' for name, row in self.states().items()]
        lines = (f"# TYPE {gauge} gauge", *rows, f"# TYPE {total} counter", f"{total} {self.openings}")
        return "".join(f"{line}\n" for line in lines)

    @contextmanager
    def attempt(self, address: ThreadAddress) -> Iterator[AdmittedCheck]:
        """Admit a check, and record how it ends. Raises InstallationUnavailable while the breaker is open."""
        breaker = self._breakers.get(address.installation)
        now = self.clock.monotonic()
        if breaker is not None and not breaker.admits(_key(address), now):
            raise InstallationUnavailable(address.installation, max(0.0, breaker.until - now))
        attempt = AdmittedCheck(self, address)
        try:
            yield attempt
        except BaseException as error:
            self._record_end(attempt, error)
            raise
        attempt.record_answer()

    def record_success(self, installation: Installation) -> None:
        """Close the breaker of an installation, by forgetting it."""
        was_open = self.is_open(installation)
        self._breakers.pop(installation, None)
        if was_open:
            say("installation", installation=str(installation), breaker="closed")

    def _record_end(self, attempt: AdmittedCheck, error: BaseException) -> None:
        key, installation = _key(attempt.address), attempt.address.installation
        if attempt.is_over:
            return
        if isinstance(error, _FAILURES) and not isinstance(error, Conflict):
            self._record_failure(installation, key)
        elif isinstance(error, PlangateError):  # GitHub answered, and refused this request alone
            self.record_success(installation)
        elif (breaker := self._breakers.get(installation)) is not None:
            breaker.abandon_probe(key)

    def _record_failure(self, installation: Installation, key: Key) -> None:
        breaker = self._breakers.setdefault(installation, Breaker())
        was_closed = breaker.state == "closed"
        breaker.record_failure(key, self.clock.monotonic())
        if was_closed and breaker.state == "open":
            self.openings += 1
            say("installation", level=logging.WARNING, installation=str(installation), breaker="open")


def _key(address: ThreadAddress) -> Key:
    return address.repository, address.number
