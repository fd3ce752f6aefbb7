"""Finds checks that no webhook asks for: because of reactions (`Polling`), or after some time (`Resting`)."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from bot.core.errors import PlangateError
from bot.core.gate import WAITS_FOR_PEOPLE, Stage
from bot.core.names import CommitId, ThreadAddress
from bot.core.thread.state import ThreadState
from bot.github.activity import fingerprints
from bot.service.connections import Connections

REST_SPAN: Final = timedelta(hours=3)
"""How long a check of a waiting thread stays valid. The check after it finds what polling and reading do not show."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Until when the last whole check of a thread is valid, and the journal position and branch head it saw."""

    until: datetime
    position: int
    head: CommitId | None


@dataclass(frozen=True, slots=True)
class Resting:
    """The threads that rest, according to the checks of this process and of others."""

    _rests: dict[ThreadAddress, Rest] = field(default_factory=dict)

    def get(self, address: ThreadAddress) -> Rest | None:
        """Return the rest of a thread, if it rests."""
        return self._rests.get(address)

    def set(self, address: ThreadAddress, rest: Rest | None) -> None:
        """Record the rest of a thread that another process has checked; None if the thread does not rest."""
        self._rests.pop(address, None)
        if rest is not None:
            self._rests[address] = rest

    def record_check(self, address: ThreadAddress, state: ThreadState, began: datetime, head: CommitId | None) -> None:
        """Record a whole check, which began with the default branch at that head."""
        self._rests.pop(address, None)
        if state.stage in WAITS_FOR_PEOPLE and not state.has_unfinished_turns:
            until = began + REST_SPAN
            until = min(until, state.plan.current.expires) if state.stage is Stage.AWAITING_APPROVAL else until
            self._rests[address] = Rest(until, state.position, head)

    def record_listing(self, address: ThreadAddress, state: ThreadState, head: CommitId | None) -> None:
        """Record the current state of a thread and the default branch. A thread whose state changed no longer rests."""
        rest = self._rests.get(address)
        if rest is not None and (rest.position, rest.head) != (state.position, head):
            del self._rests[address]

    def rests(self, address: ThreadAddress, at: datetime) -> bool:
        """Return whether a thread rests at that time."""
        rest = self._rests.get(address)
        return rest is not None and at < rest.until


# Reactions send no webhook, so plan comments on display are polled.

TOLD: Final = 2
"""Number of polls at which each change of a plan comment is reported."""
SETTLED: Final = TOLD + 1
"""Number of polls with the same result, after which nothing is left to report."""
PATIENCE: Final = 10.0
"""Seconds that a call waits for answers. The next call reports the later ones."""
_log: Final = logging.getLogger(__name__)
Poll: TypeAlias = "asyncio.Task[list[ThreadAddress] | PlangateError]"
"""The poll of one installation, and the threads that it found changed."""


@dataclass(slots=True)
class Polling:
    """The plan comments that this process posted or saw. Nothing here outlives the process."""

    connections: Connections
    patience: float = PATIENCE
    _shown: dict[ThreadAddress, str] = field(default_factory=dict)
    _seen: dict[str, tuple[str, int]] = field(default_factory=dict)
    """What the last poll saw of each plan comment, and how many polls saw that, at most SETTLED."""
    _under_way: dict[int | None, Poll] = field(default_factory=dict)
    """The polls that no call has reported yet."""

    def show(self, address: ThreadAddress, comment: str) -> None:
        """Set the comment of a thread that is polled from now on; "" for none."""
        before = self._shown.pop(address, "")
        if before != comment:
            self._seen.pop(before, None)
        if comment:
            self._shown[address] = comment

    def comment_of(self, address: ThreadAddress) -> str:
        """Return the comment of a thread that is polled; "" for none."""
        return self._shown.get(address, "")

    def settled_fingerprint(self, address: ThreadAddress) -> str:
        """Return the fingerprint of a thread's comment once it was reported and a later poll saw the same; else ""."""
        fingerprint, times = self._seen.get(self.comment_of(address), ("", 0))
        return fingerprint if times == SETTLED else ""

    def recall(self, address: ThreadAddress, fingerprint: str) -> None:
        """Use another process's settled fingerprint of a thread's comment, unless this process has one of its own."""
        if fingerprint:
            self._seen.setdefault(self.comment_of(address), (fingerprint, SETTLED))

    async def changed_threads(self, addresses: Iterable[ThreadAddress]) -> tuple[ThreadAddress, ...]:
        """Return the threads whose comment got a reaction or an edit since the last call.

        One query polls up to 100 plans.

        Each change is reported by two calls: reads may lag, so the check after the first may not see what the poll saw.
        Installations are polled side by side, and one that fails or is slow does not affect the others. Raises only if
        there is nothing else to report.
        """
        groups: dict[int | None, dict[str, ThreadAddress]] = {}
        for address in addresses:
            if comment := self._shown.get(address):
                groups.setdefault(address.installation, {})[comment] = address
        for installation, comments in groups.items():
            if installation not in self._under_way:
                self._under_way[installation] = asyncio.create_task(self._poll(installation, comments))
        moved, errors = list[ThreadAddress](), list[PlangateError]()
        for answer in await self._answers():
            if isinstance(answer, PlangateError):
                _log.warning("the plans of an installation cannot be polled: %s", answer)
                errors.append(answer)
            else:
                moved += answer
        if errors and not moved:
            raise errors[0]
        return tuple(moved)

    async def close(self) -> None:
        """Cancel the polls that are under way."""
        for poll in self._under_way.values():
            poll.cancel()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)
        self._under_way.clear()

    async def _answers(self) -> list[list[ThreadAddress] | PlangateError]:
        """Wait for the polls under way, at most PATIENCE seconds, and return the results of those that ended."""
        if self._under_way:
            await asyncio.wait(self._under_way.values(), timeout=self.patience)
        over = {installation: poll for installation, poll in self._under_way.items() if poll.done()}
        for installation in over:
            del self._under_way[installation]
        return [poll.result() for poll in over.values()]

    async def _poll(
        self, installation: int | None, comments: Mapping[str, ThreadAddress]
    ) -> list[ThreadAddress] | PlangateError:
        try:
            found = await fingerprints(self.connections.poller(installation), tuple(comments))
        except PlangateError as error:
            return error
        return [comments[comment] for comment, fingerprint in found.items() if self._must_report(comment, fingerprint)]

    def _must_report(self, comment: str, fingerprint: str) -> bool:
        """Return whether a poll result must be reported, and count the report."""
        before, times = self._seen.get(comment, ("", 0))
        times = min(times + 1, SETTLED) if fingerprint == before else 1
        self._seen[comment] = fingerprint, times
        return times < SETTLED
