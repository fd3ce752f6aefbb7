"""Caches the contents of blobs, which never change, so that git is asked for each of them once.

A session adds up what every thread of its repository cost today, and each check opens its thread's journal again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

LARGEST: Final = 64 * 1024
"""Bytes of the largest blob that is kept. Files of journals are far smaller; those of transcripts are read once."""
CAPACITY: Final = 4 * 1024 * 1024
"""Bytes of all blobs that are kept: some hundred threads. Those that were used longest ago are forgotten first."""


@dataclass(slots=True)
class BlobCache:
    """Contents of blobs by their ids. Threads may share it."""

    _contents: dict[str, bytes] = field(init=False, default_factory=dict)
    _size: int = field(init=False, default=0)
    _lock: Lock = field(init=False, default_factory=Lock)

    def find(self, blobs: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of those blobs that are cached."""
        contents = dict[str, bytes]()
        with self._lock:
            for blob in blobs:
                if (content := self._contents.pop(blob, None)) is not None:
                    self._contents[blob] = contents[blob] = content
        return contents

    def keep(self, contents: Mapping[str, bytes]) -> None:
        """Cache contents, and drop the ones that were used longest ago beyond the capacity."""
        with self._lock:
            for blob, content in contents.items():
                if len(content) <= LARGEST and blob not in self._contents:
                    self._contents[blob] = content
                    self._size += len(content)
            while self._size > CAPACITY:
                self._size -= len(self._contents.pop(next(iter(self._contents))))
