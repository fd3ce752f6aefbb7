"""Follows one thread's journal: what is there, and then what comes, in order, without gaps and without repetitions."""

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
    """What came since the last news; nothing if the wait was long enough for a sign of life."""

    steps: Sequence[JournalStep] = ()
    set_back_to: int | None = None
    """If somebody set the journal back: the number of the last entry that still counts; else None."""


async def follow_thread(overview: Overview, address: ThreadAddress, position: int) -> AsyncGenerator[News]:
    """Yield what comes after a position, without end. The first news comes at once.

    An append of this process is news at once; those of others are looked for at least every LOOK_SECONDS. Raises
    as `Overview.steps` does.
    """
    last = ""
    with overview.announcements.listen(address) as news:
        while True:
            news.clear()
            entries, found = await overview.journals.entries(address), News()
            if len(entries) < position or (last and entries[position - 1].chain_hash != last):
                position = 0 if len(entries) >= position else len(entries)  # other entries took the place of known ones
                found = News(set_back_to=position)
            elif len(entries) > position:
                found = News((await overview.steps(address))[position:])
                position += len(found.steps)
            last = entries[position - 1].chain_hash if 0 < position <= len(entries) else ""
            yield found
            if found.set_back_to is not None and position < len(entries):
                continue
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), LOOK_SECONDS)
