"""The open threads of all workers: each look leaves in the database what polling and reconciling need."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from bot.core.names import ThreadAddress
from bot.service.host_port import HostPort, LookedAt
from bot.service.queue.jobs import Jobs
from bot.store.postgres.database import Database

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_RECORD: Final = """
INSERT INTO plangate_watched (repository, number, facts) VALUES (%(repository)s, %(number)s, %(facts)s)
ON CONFLICT (repository, number) DO UPDATE SET facts = excluded.facts
"""
_FORGET: Final = "DELETE FROM plangate_watched WHERE repository = %(repository)s AND number = %(number)s"
_ALL: Final = "SELECT facts FROM plangate_watched"


@dataclass(frozen=True, slots=True)
class Watching:
    """What is known of the open threads. It only saves requests: a thread that is not here is looked at instead."""

    host: HostPort
    database: Database
    jobs: Jobs

    async def record(self, address: ThreadAddress) -> None:
        """Record what the look of this process at a thread found out."""
        found, place = self.host.looked_at(address), {"repository": address.repository, "number": address.number}
        if found.comment or found.rest is not None:
            await self.database.rows(_RECORD, **place, facts=_reader().dump_json(found).decode())
        else:
            await self.database.rows(_FORGET, **place)

    async def threads_to_poll(self) -> tuple[ThreadAddress, ...]:
        """Return the threads with a plan or question on display, after telling the host what all looks found out."""
        found = [_reader().validate_python(row["facts"]) for row in await self.database.rows(_ALL)]
        for each in found:
            self.host.recall(each)
        return tuple(each.address for each in found if each.comment)

    async def wake_all(
        self,
        wake: Callable[[ThreadAddress], Awaitable[None]],
        *,
        rests: Callable[[ThreadAddress], bool] = lambda _: False,
    ) -> int:
        """Wake every open thread, except those that rest or for which a job waits. Return how many are open."""
        await self.threads_to_poll()
        addresses = await self.host.open_threads()
        waiting = await self.jobs.find_waiting(addresses)
        for address in addresses:
            if not rests(address) and address not in waiting:
                await wake(address)
        return len(addresses)


@cache
def _reader() -> "TypeAdapter[LookedAt]":
    from pydantic import TypeAdapter

    return TypeAdapter(LookedAt)
