"""What git says of a connection that failed, and whether the same command may succeed a moment later."""

import re
from typing import Final

# git's http.c, remote-curl.c and fetch-pack.c, and curl's own words.
_PASSING: Final = re.compile(
    r"returned error: (?:429|5\d\d)|RPC failed|early EOF|hung up|unexpected disconnect|Empty reply|"
    r"Connection (?:reset|refused|timed out)|Operation timed out|Failed to connect|Could not resolve|transfer closed"
)

PAUSES: Final = (1.0, 4.0)
"""Seconds to wait before a listing or fetch that failed in passing is tried again."""


def is_passing(said: str) -> bool:
    """Return whether git's words tell of a server or a network that failed for the moment, not of a refusal."""
    return _PASSING.search(said) is not None
