"""Litter: folders that nobody will use again, since their process was killed or their thread is long over.

Rules
- Whoever works in a folder holds the lock of its name, so what can be locked is nobody's.
- A folder whose name is given once is litter when it is nobody's; a thread's own checkout stays for whoever goes on,
  until nobody did for a long time.
"""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from bot.core.errors import Conflict, PlangateError
from bot.workspace.locks import Lock

MAKING: Final = "~making"
"""The end of a folder's name while it is made; its lock is that of the name before it."""
KEPT_SECONDS: Final = 30 * 24 * 3600.0
CROWDED_SECONDS: Final = 24 * 3600.0
"""For how long what nobody uses is kept, and for how long where the disk is almost full."""
_CROWDED: Final = 0.05
AT_ONCE: Final = 10
"""How many folders one sweep removes, so that no work waits long for it; the next one goes on."""


def is_unused(stamp: Path, *, seconds: float = KEPT_SECONDS) -> bool:
    """Tell whether a file, or the folder that it should be in, was not touched for that long, or as the disk allows."""
    try:
        touched = (stamp if stamp.exists() else stamp.parent).stat().st_mtime
        disk = shutil.disk_usage(stamp.parent)
    except FileNotFoundError:
        return False
    return time.time() - touched > (min(CROWDED_SECONDS, seconds) if disk.free < disk.total * _CROWDED else seconds)


def _abandoned_locks(folder: Path) -> list[Path]:
    """List the places of locks that lock nothing: whoever held one was killed before or after it had a folder."""
    names = {place.name for place in folder.glob("*/")}
    return [folder / lock.stem for lock in folder.glob("*.lock") if not {lock.stem, f"{lock.stem}{MAKING}"} & names]


async def sweep(folder: Path, litter: Callable[[Path], bool], remove: Callable[[Path], Awaitable[None]]) -> None:
    """Remove folders that are litter and that no living process holds; what cannot be removed stays."""
    found = await asyncio.to_thread(
        lambda: [*_abandoned_locks(folder), *(place for place in folder.glob("*/") if litter(place))]
    )
    tried = 0
    for place in found:
        lock = Lock(folder / f"{place.name.removesuffix(MAKING)}.lock")
        try:
            lock.take()
        except Conflict:
            continue
        try:
            if place.exists():
                await remove(place)
            lock.drop()
        except (OSError, PlangateError):
            lock.release()
        tried += 1
        if tried == AT_ONCE:
            return
