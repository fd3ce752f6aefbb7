"""How many lines lie before every so many bytes of a large file, so that it is counted once.

Rules: what was counted belongs to a file as it was, and is forgotten when it has changed; of few files at a time.
"""

import os
import time
from bisect import bisect_left
from typing import BinaryIO

EVERY = 1 << 22
_FILES = 8
_TICK = 0.1
"""Seconds within which a file may change without showing it."""

_Key = tuple[int, int, int, int, int]


class Milestones:
    """What was counted, by file."""

    def __init__(self) -> None:
        self._counted: dict[_Key, dict[int, int]] = {}

    def of(self, descriptor: int) -> dict[int, int]:
        """Give the milestones of an open file as it is now, to be used and added to: number -> lines before it.

        They have no gaps; 0 is the beginning. What is added for a file that was changed just now is not kept.
        """
        found = os.fstat(descriptor)
        if time.time() - found.st_ctime < _TICK:
            return {0: 0}
        key = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        while len(self._counted) >= _FILES and key not in self._counted:
            self._counted.pop(next(iter(self._counted)), None)
        return self._counted.setdefault(key, {0: 0})


def nearest(milestones: dict[int, int], file: BinaryIO, lines: int) -> tuple[int, int, bytes]:
    """Set a file to the last milestone that lies before the end of so many lines.

    Gives where that is, how many lines end before it, and the byte before it.
    """
    at = max(0, bisect_left(range(len(milestones)), lines, key=milestones.__getitem__) - 1)
    file.seek(max(0, at * EVERY - 1))
    return at * EVERY, milestones[at], file.read(1) if at else b"\n"


def record_milestone(milestones: dict[int, int], place: int, lines: int) -> None:
    """Note how many lines lie before a place, where that is the next milestone."""
    number, beside = divmod(place, EVERY)
    if not beside and number == len(milestones):
        milestones[number] = lines
