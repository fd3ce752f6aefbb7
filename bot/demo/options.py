"""Options of the demo. SHELL."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Demo:
    """Options of the demo, as given on the command line."""

    face: str = "service"
    """service, action, or local: `plangate run` without GitHub."""
    headless: bool = False
    folder: Path | None = None
    port: int = 8484
    real_model: bool = False
