"""Which plan comments are shown, and whose changed since they were polled last: reactions send no webhook."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bot.core.errors import PlangateError
from bot.github.poll import fingerprints

if TYPE_CHECKING:
    from bot.compose.address import ThreadAddress
    from bot.compose.connections import Connections

TOLD: Final = 2
"""At how many polls a change of a plan comment is told of."""
_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class Polling:
    """The plan comments that this process has shown, or has seen shown; nothing of it outlives the process."""

    connections: "Connections"
    _shown: dict["ThreadAddress", str] = field(default_factory=dict)
    _seen: dict[str, tuple[str, int]] = field(default_factory=dict)
    """What a poll saw of each plan comment last, and how often it was told of."""

    def show(self, address: "ThreadAddress", comment: str) -> None:
        """Take note of the comment of a thread that is polled from now on; "" for none."""
        before = self._shown.pop(address, "")
        if before != comment:
            self._seen.pop(before, None)
        if comment:
            self._shown[address] = comment

    async def changed_threads(self, addresses: Iterable["ThreadAddress"]) -> tuple["ThreadAddress", ...]:
        """Tell whose comment got a reaction or an edit since the last call: one query for up to 100 plans.

        Each is told of at two calls: where reads lag, the look after the first may not see what the poll saw. An
        installation that cannot be asked keeps back nothing of another; raises where there is nothing else to tell.
        """
        groups: dict[int | None, dict[str, ThreadAddress]] = {}
        for address in addresses:
            if comment := self._shown.get(address):
                groups.setdefault(address.installation, {})[comment] = address
        moved, errors = list["ThreadAddress"](), list[PlangateError]()
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
        """Tell whether what a poll saw of a comment has to be told of, which is counted."""
        before, told = self._seen.get(comment, ("", 0))
        if print_ == before and told >= TOLD:
            return False
        self._seen[comment] = print_, told + 1 if print_ == before else 1
        return True
