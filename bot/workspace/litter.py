"""Litter: folders of processes that were killed, which nobody will use again.

Rules
- Whoever works in a folder holds the lock of its name, so what can be locked is nobody's.
- Only folders with names that are never given twice are litter: a thread's own checkout stays for whoever goes on.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from bot.core.errors import Conflict, PlangateError
from bot.workspace.locks import Lock

MAKING: Final = "~making"
"""The end of a folder's name while it is made; its lock is that of the name before it."""
AT_ONCE: Final = 10
"""How many folders one sweep removes, so that no work waits long for it; the next one goes on."""


async def sweep(folder: Path, litter: Callable[[Path], bool], remove: Callable[[Path], Awaitable[None]]) -> None:
    """Remove folders that are litter and that no living process holds; what cannot be removed stays."""
    found = await asyncio.to_thread(lambda: [place for place in folder.glob("*/") if litter(place)])
    tried = 0
    for place in found:
        lock = Lock(folder / f"{place.name.removesuffix(MAKING)}.lock")
        try:
            lock.take()
        except Conflict:
            continue
        try:
            await remove(place)
            lock.drop()
        except (OSError, PlangateError):
            lock.release()
        tried += 1
        if tried == AT_ONCE:
            return
