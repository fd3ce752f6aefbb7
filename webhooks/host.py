"""What the service asks of the bot: to look at threads, and to say which threads want a look."""

from collections.abc import Callable, Collection
from typing import Protocol

from bot.compose.address import ThreadAddress
from bot.workflow.record import Record


class HostPort(Protocol):
    """The bot on GitHub; every method raises Transient, Refused or Broken, and may be cancelled at any time."""

    async def look(self, address: ThreadAddress, begin_session: Callable[[], bool]) -> Record:
        """Carry a thread on until it rests, or until `begin_session` returns False; may take an hour.

        `begin_session` is called before each session with the model; where it returns False, a later look begins it.
        """

    async def listen(self, address: ThreadAddress) -> Record:
        """Only take in what people said on a thread, and answer what can be answered at once."""

    async def open_threads(self) -> tuple[ThreadAddress, ...]:
        """List every thread that is not at rest for good."""

    async def installation(self, address: ThreadAddress) -> int | None:
        """Give the App installation through which a thread is reached; None where there is no App."""

    def rests(self, address: ThreadAddress) -> bool:
        """Tell whether an open thread of that list only waits for people, and was looked at as it stands."""

    async def changed_threads(self, addresses: Collection[ThreadAddress]) -> tuple[ThreadAddress, ...]:
        """List those whose plan comment got reactions or edits since the last call."""

    def is_bot(self, actor: int | None) -> bool:
        """Tell whether an account is known to be the bot's own."""
