"""What sandboxed tools may do and use, and what one of their operations results in (T3a)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from bot.core.transcript import Json


class Access(StrEnum):
    """What a toolhost may do to its checkout."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result of one toolhost operation. An error is an answer for the model, not an exception."""

    text: str
    is_error: bool = False
    blocks: tuple[Json, ...] = ()
    """Content blocks in addition to the text: images."""
    stamps: Mapping[str, str] = field(default_factory=dict)
    """The state of files after the operation: path -> stamp (T4: Edit requires that the file was read)."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Facts for the harness, not for the model: exit_code, seconds."""


@dataclass(frozen=True, slots=True)
class SandboxBounds:
    """The bounds of one sandbox; None means no bound of its own."""

    memory_mb: int | None = None
    memory_share: float = 1.0
    """Share of the memory that every sandbox may use. The lesser of the two bounds holds."""
    tmp_mb: int | None = None
    file_bytes: int | None = None
    """Size of the largest file that the sandbox reads."""


UNBOUND: Final = SandboxBounds()
