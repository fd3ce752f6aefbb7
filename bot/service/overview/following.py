"""Follows one thread's journal: the entries that exist, then each new one, in order, without gaps or repetitions."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from bot.core.names import ThreadAddress
from bot.service.overview.journal_reader import LOOK_SECONDS
from bot.service.overview.overview import Overview
from bot.service.overview.thread_history import JournalStep


@dataclass(frozen=True, slots=True)
class News:
    """The entries since the last news; none if it only shows that the stream is alive."""

    steps: Sequence[JournalStep] = ()
    set_back_to: int | None = None
    """The number of the last entry that still counts, if somebody set the journal back; else None."""


async def follow_thread(overview: Overview, address: ThreadAddress, position: int) -> AsyncGenerator[News]:
    """Yield the entries after a position, without end. The first news comes at once.

    An append of this process is news at once; those of others are looked for at least every LOOK_SECONDS. Raises
    as `Overview.steps` does.
    """
    last = ""
    with overview.announcements.subscribe(address) as signal:
        while True:
            signal.clear()
            entries, update = await overview.journals.entries(address), News()
            if len(entries) < position or (last and entries[position - 1].chain_hash != last):
                position = 0 if len(entries) >= position else len(entries)  # other entries took the place of known ones
                update = News(set_back_to=position)
            elif len(entries) > position:
                update = News((await overview.steps(address))[position:])
                position += len(update.steps)
            last = entries[position - 1].chain_hash if 0 < position <= len(entries) else ""
            yield update
            if update.set_back_to is not None and position < len(entries):
                continue
            with suppress(TimeoutError):
                await asyncio.wait_for(signal.wait(), LOOK_SECONDS)
