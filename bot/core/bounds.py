"""What one sandbox may use, below what every sandbox may."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one sandbox; None for no bound of its own."""

    memory_mb: int | None = None
    memory_share: float = 1.0
    """Of the memory that every sandbox may use; the lesser of the two holds."""
    tmp_mb: int | None = None
    file_bytes: int | None = None
    """The largest file that it reads."""


UNBOUND: Final = Bounds()
