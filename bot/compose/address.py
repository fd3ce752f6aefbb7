"""Names one thread on GitHub for whoever looks at it."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ThreadAddress:
    """One thread on GitHub, and the App installation through which it is reached (None with a plain token)."""

    installation: int | None
    repository: int
    owner: str
    name: str
    number: int
    told: str = field(default="", compare=False)
    """The key of what a delivery says was said there: a look waits a little until it is to be seen."""
