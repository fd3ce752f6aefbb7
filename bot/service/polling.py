"""Tracks the plan comments on display and finds those that changed since the last poll. Reactions send no webhook."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from bot.core.errors import PlangateError
from bot.core.names import ThreadAddress
from bot.github.poll import fingerprints
from bot.service.connections import Connections

TOLD: Final = 2
"""Number of polls at which each change of a plan comment is reported."""
_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class Polling:
    """The plan comments that this process posted or saw. Nothing here outlives the process."""

    connections: Connections
    _shown: dict[ThreadAddress, str] = field(default_factory=dict)
    _seen: dict[str, tuple[str, int]] = field(default_factory=dict)
    """What the last poll saw of each plan comment, and how often it was reported."""

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

    async def changed_threads(self, addresses: Iterable[ThreadAddress]) -> tuple[ThreadAddress, ...]:
        """Return the threads whose comment got a reaction or an edit since the last call. One query polls up to 100
        plans.

        Each change is reported by two calls: reads may lag, so the look after the first may not see what the poll saw.
        A failed installation does not affect the others. Raises only if there is nothing else to report.
        """
        groups: dict[int | None, dict[str, ThreadAddress]] = {}
        for address in addresses:
            if comment := self._shown.get(address):
                groups.setdefault(address.installation, {})[comment] = address
        moved, errors = list[ThreadAddress](), list[PlangateError]()
        for installation, comments in groups.items():
            try:
                found = await fingerprints(self.connections.poller(installation), tuple(comments))
            except PlangateError as error:
                _log.warning("the plans of an installation cannot be polled: %s", error)
                errors.append(error)
            else:
                moved += [comments[comment] for comment, print_ in found.items() if self._tells(comment, print_)]
        if errors and not moved:
            raise errors[0]
        return tuple(moved)

    def _tells(self, comment: str, print_: str) -> bool:
        """Return whether a poll result must be reported, and count the report."""
        before, told = self._seen.get(comment, ("", 0))
        if print_ == before and told >= TOLD:
            return False
        self._seen[comment] = print_, told + 1 if print_ == before else 1
        return True
