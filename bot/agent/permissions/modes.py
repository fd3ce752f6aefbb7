"""The permission modes and their cycle (P1)."""

from enum import StrEnum


class Mode(StrEnum):
    """What a session may do without asking."""

    PLAN = "plan"
    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    BYPASS = "bypassPermissions"


def next_mode(mode: Mode, *, bypass_available: bool) -> Mode:
    """Return the next mode of the cycle default, acceptEdits, plan, bypassPermissions (if available)."""
    cycle = [Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.PLAN, *([Mode.BYPASS] if bypass_available else [])]
    return cycle[(cycle.index(mode) + 1) % len(cycle)] if mode in cycle else Mode.DEFAULT
