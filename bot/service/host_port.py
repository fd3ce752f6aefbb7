"""What the service needs from the bot: checking threads, and listing the threads that need a check."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from bot.core.names import ThreadAddress
from bot.core.thread.state import ThreadState
from bot.github.relevance import KnownBot
from bot.service.resting import Rest


@dataclass(frozen=True, slots=True)
class CheckedThread:
    """What a check of a thread found out, for the process that polls and reconciles."""

    address: ThreadAddress
    comment: str
    """The plan or question that is polled for reactions; "" for none."""
    rest: Rest | None
    """Until when the thread need not be checked; None if it does not rest."""
    polled: str = ""
    """What polls see of the comment, once checks were asked for because of it; "" if this process does not know."""


class HostPort(Protocol):
    """The bot on GitHub. Every method raises Transient, Refused, or Broken, and may be cancelled at any time."""

    async def check_thread(self, address: ThreadAddress, begin_session: Callable[[], bool]) -> ThreadState:
        """Carry a thread on until it rests, or until `begin_session` returns False. May take an hour.

        `begin_session` is called before each session with the model. If it returns False, a later check begins the
        session.
        """

    async def read_comments(self, address: ThreadAddress) -> ThreadState:
        """Only read what people said on a thread, and answer what can be answered at once."""

    async def open_threads(self) -> tuple[ThreadAddress, ...]:
        """Return every thread that is not at rest for good."""

    async def installation(self, address: ThreadAddress) -> int | None:
        """Return the App installation through which a thread is reached, or None if there is no App."""

    def rests(self, address: ThreadAddress) -> bool:
        """Return whether an open thread only waits for people and was checked in its current state."""

    async def changed_threads(self, addresses: Collection[ThreadAddress]) -> tuple[ThreadAddress, ...]:
        """Return the threads whose plan comment got reactions or edits since the last call."""

    def is_bot(self, actor: int | None) -> bool:
        """Return whether an account is known to be the bot's own."""

    def known_bot(self, repository: int) -> KnownBot | None:
        """Return the bot of a repository, as this process read it last; None if it never did."""

    def last_check(self, address: ThreadAddress) -> CheckedThread:
        """Return what the last check of a thread found out."""

    def recall(self, checked: CheckedThread) -> None:
        """Record the result of another process's check."""

    def hold_sessions(self, *, held: bool) -> None:
        """Make running sessions wait before each step, because checks need the processors; or let them go on."""

    def end_at_next_step(self) -> None:
        """Make running sessions end at their next step with Transient, because this process ends."""
