"""Group commit: deliveries that arrive while others are being stored are stored together, with one write.

A delivery that arrives alone is stored at once. Under load the batches grow by themselves, so that the time of a sync,
or of a transaction, is shared by all that waited for it. No delivery is answered before it is durable itself.
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

WRITERS: Final = 2
"""Batches that are written at the same time, so that what arrives during a write need not wait for its end."""
LARGEST_BATCH: Final = 100
MOST_WAITING: Final = 2_000
"""Maximum number of deliveries that are not durable yet. More are refused, so that memory is bounded on any disk."""

_Waiting = tuple[Delivery, "asyncio.Future[Outcome]"]
StoreAll = Callable[[Sequence[Delivery]], Awaitable[Sequence[Outcome]]]
"""Stores deliveries, all or none, and returns an outcome for each. Raises OSError or Transient if nothing can be
stored now."""


@dataclass(slots=True)
class GroupCommit:
    """Stores deliveries in batches. Installations take turns at places, and a guid is in one batch at a time.

    All methods belong to one event loop.
    """

    store_all: StoreAll
    _waiting: dict[Installation, deque[_Waiting]] = field(init=False, default_factory=dict)
    _outcomes: "dict[str, asyncio.Future[Outcome]]" = field(init=False, default_factory=dict)
    """The outcome of each delivery that waits or is being written, by its guid."""
    _writers: "set[asyncio.Task[None] | None]" = field(init=False, default_factory=set)

    async def store(self, delivery: Delivery) -> Outcome:
        """Store a delivery, and return once it is durable.

        Raises OSError or Transient if it cannot be stored, and any other error that this delivery alone causes.
        """
        if first := self._outcomes.get(delivery.guid):
            await asyncio.shield(first)
            return Outcome.DUPLICATE
        if len(self._outcomes) >= MOST_WAITING:
            raise Transient("too many deliveries wait to be stored", fix="deliver it again")
        self._outcomes[delivery.guid] = outcome = asyncio.get_running_loop().create_future()
        installation = delivery.address.installation if delivery.address else None
        self._waiting.setdefault(installation, deque()).append((delivery, outcome))
        if len(self._writers) < WRITERS:
            self._writers.add(asyncio.create_task(self._write()))
        return await asyncio.shield(outcome)

    async def _write(self) -> None:
        while self._waiting:
            batch = self._next_batch()
            await self._commit(batch)
            for delivery, _ in batch:
                del self._outcomes[delivery.guid]
        self._writers -= {asyncio.current_task()}  # at once: what arrives now needs another one

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
            for (_, waiting), outcome in zip(batch, outcomes, strict=True):
                waiting.set_result(outcome)

    async def _commit_each(self, batch: Sequence[_Waiting], error: Exception) -> None:
        """Store deliveries one by one, so that one that cannot be stored does not keep its neighbors out."""
        if len(batch) == 1:
            _refuse(batch, error)
            return
        for each in batch:
            await self._commit((each,))


def _refuse(batch: Sequence[_Waiting], error: Exception) -> None:
    for _, waiting in batch:
        waiting.set_exception(error)
        waiting.exception()  # whoever waited may be gone, and then nobody else asks for it
