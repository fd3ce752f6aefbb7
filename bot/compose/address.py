"""The address of one thread on GitHub."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ThreadAddress:
    """One thread on GitHub, and the App installation that reaches it (None with a plain token)."""

    installation: int | None
    repository: int
    owner: str
    name: str
    number: int
    told: str = field(default="", compare=False)
    """Key of what a delivery reported was said there. A look waits briefly until the API shows it."""
