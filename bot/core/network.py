"""Network access of a sandbox: the hosts that it may reach, each decision about it, and fetched pages.

`core.hosts.reachable_hosts` chooses the hosts of approved work, and `workspace.egress.proxy` enforces them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class NetworkDecision:
    """One decision of the network policy: the requested host and port, whether access was allowed, and why not."""

    host: str
    port: int
    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Network:
    """The hosts that a sandbox may reach; none if no host is named."""

    hosts: tuple[str, ...] = ()
    """Names, and ``*.domain``."""
    listener: Callable[[NetworkDecision], None] = lambda _: None
    """Called with each decision."""


NO_NETWORK: Final = Network()


@dataclass(frozen=True, slots=True)
class WebPage:
    """A web page as text, and whether it was cut. `moved` is its new address if it moved to another host."""

    url: str
    text: str
    cut: bool = False
    moved: str = ""
    size: int = 0
    """Bytes received over the wire."""
