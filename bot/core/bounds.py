"""Resource bounds of one sandbox, below the limits of every sandbox."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one sandbox; None means no bound of its own."""

    memory_mb: int | None = None
    memory_share: float = 1.0
    """Share of the memory that every sandbox may use. The lesser of the two bounds holds."""
    tmp_mb: int | None = None
    file_bytes: int | None = None
    """Size of the largest file that the sandbox reads."""


UNBOUND: Final = Bounds()
