"""The slots of one process: shares them among App installations, and ends or holds the sessions in them."""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from bot.core.errors import Transient

Installation: TypeAlias = int | None
"""The id of an App installation. None: the account of the plain token, or work for no installation in particular."""


@dataclass(slots=True)
class FairShares:
    """The slots that each installation holds, of a fixed number.

    As soon as a process knows a second installation, none may hold more than half of the slots, even if the others are
    idle: a check that waits for GitHub's timeouts, or a session of an hour, cannot be taken out of its slot again.
    """

    slots: int
    _held: Counter[Installation] = field(init=False, default_factory=Counter)
    _known: set[int] = field(init=False, default_factory=set)

    @property
    def share(self) -> int:
        """The maximum number of slots that one installation may hold."""
        return self.slots if len(self._known) < 2 else (self.slots + 1) // 2

    @property
    def held(self) -> int:
        """Number of slots that are taken."""
        return self._held.total()

    @property
    def are_full(self) -> bool:
        """Whether no slot is free."""
        return self.held >= self.slots

    @property
    def served(self) -> frozenset[Installation]:
        """The installations that hold their share."""
        return frozenset(installation for installation, held in self._held.items() if held >= self.share)

    def meet(self, installation: Installation) -> None:
        """Add an installation to those that share the slots."""
        if installation is not None:
            self._known.add(installation)

    def has_room(self, installation: Installation) -> bool:
        """Return whether an installation may take a slot now."""
        return not self.are_full and self._held[installation] < self.share

    def occupy(self, installation: Installation) -> None:
        """Record that an installation took a slot."""
        self.meet(installation)
        self._held[installation] += 1

    def give_back(self, installation: Installation) -> None:
        """Record that an installation released a slot."""
        self._held[installation] -= 1
        if not self._held[installation]:
            del self._held[installation]


# --- Ending and holding the sessions of a process ---------------------------------------------------------------------

HELD_SECONDS: Final = 2.0
"""Maximum seconds that a step is held, so that sessions go on however many checks there are."""


@dataclass(slots=True)
class SessionControl:
    """Ends or holds all sessions of one process. All methods belong to one event loop."""

    held_seconds: float = HELD_SECONDS
    _ends: bool = field(init=False, default=False)
    _goes_on: asyncio.Event = field(init=False, default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._goes_on.set()

    def end_sessions(self) -> None:
        """Make each session end before its next step, because this process ends. Another process continues them."""
        self._ends = True
        self._goes_on.set()

    def hold_sessions(self, *, held: bool) -> None:
        """Make each session wait before its next step, or let it go on."""
        if held and not self._ends:
            self._goes_on.clear()
        else:
            self._goes_on.set()

    async def before_step(self) -> None:
        """Wait while sessions are held, at most HELD_SECONDS. Raise Transient if this process ends."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.held_seconds):
                await self._goes_on.wait()
        if self._ends:
            raise Transient("this process is shutting down", fix="another one continues the session")
