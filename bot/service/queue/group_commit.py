"""Group commit: deliveries that arrive while others are being stored are stored together, with one write.

A delivery that arrives alone is stored at once. Under load the batches grow by themselves, so that the time of a sync,
or of a transaction, is shared by all that waited for it. Nobody learns the outcome before his own delivery is durable.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from bot.core.errors import Transient
from bot.service.fairness import Installation
from bot.service.inbox import Delivery
from bot.service.queue.queue_port import Outcome

LARGEST_BATCH: Final = 100
MOST_WAITING: Final = 2_000
"""Maximum number of deliveries that wait. More are refused, so that memory is bounded however slow the disk is."""

_Waiting = tuple[Delivery, "asyncio.Future[Outcome]"]
StoreAll = Callable[[Sequence[Delivery]], Awaitable[Sequence[Outcome]]]
"""Stores deliveries, all or none, and returns an outcome for each. Raises OSError or Transient if nothing can be
stored now."""


@dataclass(slots=True)
class GroupCommit:
    """Stores deliveries in batches, one batch at a time. Installations take turns at places in a batch.

    All methods belong to one event loop.
    """

    store_all: StoreAll
    _waiting: dict[Installation, deque[_Waiting]] = field(init=False, default_factory=dict)
    _writing: "asyncio.Task[None] | None" = field(init=False, default=None)

    async def store(self, delivery: Delivery) -> Outcome:
        """Store a delivery, and return once it is durable.

        Raises OSError or Transient if it cannot be stored, and any other error that this delivery alone causes.
        """
        if sum(map(len, self._waiting.values())) >= MOST_WAITING:
            raise Transient("too many deliveries wait to be stored", fix="deliver it again")
        stored: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        installation = delivery.address.installation if delivery.address else None
        self._waiting.setdefault(installation, deque()).append((delivery, stored))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return await stored

    async def _write(self) -> None:
        try:
            while self._waiting:
                await self._commit(self._next_batch())
        finally:
            self._writing = None

    def _next_batch(self) -> list[_Waiting]:
        """Take the next deliveries: one of each installation in turn."""
        batch: list[_Waiting] = []
        while self._waiting and len(batch) < LARGEST_BATCH:
            installation, waiting = next(iter(self._waiting.items()))
            batch.append(waiting.popleft())
            del self._waiting[installation]  # to the end of the line
            if waiting:
                self._waiting[installation] = waiting
        return batch

    async def _commit(self, batch: Sequence[_Waiting]) -> None:
        try:
            outcomes = await self.store_all([delivery for delivery, _ in batch])
        except asyncio.CancelledError:
            _refuse(batch, Transient("the process ends", fix="deliver it again"))
            raise
        except (OSError, Transient) as error:
            _refuse(batch, error)
        except Exception as error:  # noqa: BLE001 - the delivery that causes it learns it
            await self._commit_each(batch, error)
        else:
            for (_, stored), outcome in zip(batch, outcomes, strict=True):
                if not stored.done():  # whoever waited may be gone
                    stored.set_result(outcome)

    async def _commit_each(self, batch: Sequence[_Waiting], error: Exception) -> None:
        """Store deliveries one by one, so that one that cannot be stored does not keep its neighbors out."""
        if len(batch) == 1:
            _refuse(batch, error)
            return
        for each in batch:
            await self._commit((each,))


def _refuse(batch: Sequence[_Waiting], error: Exception) -> None:
    for _, stored in batch:
        if not stored.done():
            stored.set_exception(error)
