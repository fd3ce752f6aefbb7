"""What somebody wants of the network, what is decided about it, and what comes back."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class NetworkDecision:
    """One decision of the network policy: what somebody wanted to reach, whether they did, and why not."""

    host: str
    port: int
    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Network:
    """What a sandbox may reach; nothing at all where no host is named."""

    hosts: tuple[str, ...] = ()
    """Names, and ``*.domain``."""
    listener: Callable[[NetworkDecision], None] = lambda _: None
    """Hears each decision."""


NO_NETWORK: Final = Network()


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the web as text, and whether it was cut; `moved` is where it has gone instead, on another host."""

    url: str
    text: str
    cut: bool = False
    moved: str = ""
    size: int = 0
    """Bytes of it that came over the wire."""
