"""What the pages read, as a port: the overview of all threads, and of the service (bot/service/overview/overview.py).

It shows everything. Who may see what is decided by `visits.Visit`. Methods raise PlangateError.
"""

from collections.abc import Collection, Sequence
from datetime import date
from typing import Protocol

from bot.core.names import ThreadAddress
from bot.service.overview.announcements import Announcements
from bot.service.overview.thread_records import ThreadPage, ThreadQuery
from bot.service.overview.transcript_views import TranscriptPage
from bot.service.overview.views import Costs, DeliveryView, Health, SentDelivery, TaskView, ThreadDetail


class Reading(Protocol):
    """The overview. An answer is limited to a person's repositories by numeric ids, never by names."""

    @property
    def announcements(self) -> Announcements:
        """Wakes everybody who waits for news of a thread."""

    async def page(self, query: ThreadQuery) -> ThreadPage:
        """Return a page of threads. Raises Refused for a bad cursor."""

    async def find(self, repository: str, number: int, visible: Collection[int] | None = None) -> ThreadAddress | None:
        """Return the address of a thread of one of the visible repositories (None: of any); None if it is not known."""

    async def detail(self, address: ThreadAddress) -> ThreadDetail:
        """Return everything about one thread."""

    async def transcripts(self, address: ThreadAddress) -> Sequence[str]:
        """Return the sessions of a thread whose transcripts are stored."""

    async def transcript(self, address: ThreadAddress, session: str, page: int) -> TranscriptPage | None:
        """Return one page of a session's transcript; None if none is stored."""

    async def transcript_extent(self, address: ThreadAddress, session: str) -> str:
        """Return a word that changes whenever a session's transcript grows; "" if none is stored."""

    async def mention(self, address: ThreadAddress) -> str:
        """Return how commands to the bot begin in a thread's repository, such as ``@plangate``."""

    async def costs(self, repositories: Collection[int] | None = None, since: date | None = None) -> Costs:
        """Return the costs of these repositories (None: of all) since a day."""

    async def tasks(self, repositories: Collection[int] | None = None) -> Sequence[TaskView]:
        """Return the scheduled tasks of these repositories (None: of all), by repository and name."""

    async def deliveries(self) -> Sequence[DeliveryView]:
        """Return the deliveries that are stored, oldest first, as far as they are shown."""

    async def sent_deliveries(self) -> Sequence[SentDelivery]:
        """Return the newest deliveries as GitHub lists them, newest first."""

    async def redeliver(self, attempt: int) -> None:
        """Have GitHub deliver again what an attempt delivered."""

    async def health(self) -> Health:
        """Return the state of the service."""
