"""Line counts at regular byte offsets of a large file, so that its lines are counted only once.

Rules: counts belong to one version of a file and are dropped when it changes; only a few files are kept.
"""

import os
import time
from bisect import bisect_left
from typing import BinaryIO

EVERY = 1 << 22
_FILES = 8
_TICK = 0.1
"""Seconds within which a file may change without a new time stamp."""

_Key = tuple[int, int, int, int, int]


class Milestones:
    """The counts, by file."""

    def __init__(self) -> None:
        self._counted: dict[_Key, dict[int, int]] = {}

    def of(self, descriptor: int) -> dict[int, int]:
        """Return the milestones of an open file's current version, to be used and extended: number -> lines before it.

        They have no gaps; 0 is the beginning. What is added for a file that has just changed is not kept.
        """
        status = os.fstat(descriptor)
        if time.time() - status.st_ctime < _TICK:
            return {0: 0}
        key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        while len(self._counted) >= _FILES and key not in self._counted:
            self._counted.pop(next(iter(self._counted)), None)
        return self._counted.setdefault(key, {0: 0})


def nearest(milestones: dict[int, int], file: BinaryIO, lines: int) -> tuple[int, int, bytes]:
    """Move a file to the last milestone before the end of the given number of lines.

    Returns its offset, the number of lines that end before it, and the byte before it.
    """
    at = max(0, bisect_left(range(len(milestones)), lines, key=milestones.__getitem__) - 1)
    file.seek(max(0, at * EVERY - 1))
    return at * EVERY, milestones[at], file.read(1) if at else b"\n"


def record_milestone(milestones: dict[int, int], place: int, lines: int) -> None:
    """Record the number of lines before an offset, if the offset is the next milestone."""
    number, beside = divmod(place, EVERY)
    if not beside and number == len(milestones):
        milestones[number] = lines
