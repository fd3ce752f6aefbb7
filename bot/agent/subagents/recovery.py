"""Recovery: what becomes of a sub-agent's trouble, by kind, as one table (S11).

A tool's error goes back to the model where it happens (dispatch), and a model that cannot be reached is tried again and
given up for its fallback by the client; what is left of both goes to the parent. One that was interrupted with its
process goes on when its call is made again (resuming).
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from bot.agent.events import End, Ended
from bot.agent.limits import Resource

RAISE: Final = 1.5
"""What a limit is raised by, and the time of a second try."""
PARTS: Final = 2
"""Into how many parts a task is split that ran out of what it had."""


class Trouble(StrEnum):
    """What went wrong."""

    TIMEOUT = "timeout"
    LIMIT = "limit"
    DENIED = "permission denied"
    TOOL = "tool error"
    MODEL = "model communication"
    INTERRUPTED = "interrupted"
    OTHER = "other"


class Remedy(StrEnum):
    """What is done about it."""

    SMALLER = "once more, with a smaller task and more time"
    RAISE = "the limit is raised"
    SPLIT = "the task is split into parts, one after the other"
    MODEL = "the model is told"
    GO_ON = "it goes on where it was, or begins again"
    PARENT = "the parent is told"


TABLE: Final[Mapping[Trouble, tuple[Remedy, ...]]] = MappingProxyType(
    {
        Trouble.TIMEOUT: (Remedy.SMALLER,),
        Trouble.LIMIT: (Remedy.RAISE, Remedy.RAISE, Remedy.SPLIT),
        Trouble.DENIED: (),
        Trouble.TOOL: (Remedy.MODEL,),
        Trouble.MODEL: (),
        Trouble.INTERRUPTED: (Remedy.GO_ON,),
        Trouble.OTHER: (),
    }
)
"""The remedies of each trouble in their order; when they are used up, the parent is told."""


def remedy(trouble: Trouble, times: int) -> Remedy:
    """Give what is done about a trouble that was met so many times before; total."""
    row = TABLE[trouble]
    if trouble is Trouble.TOOL:
        return Remedy.MODEL
    return row[times] if times < len(row) else Remedy.PARENT


def trouble_of(ended: Ended) -> Trouble:
    """Say what kind of trouble an end without an answer is."""
    match ended.end, ended.limit:
        case End.LIMIT, Resource.SECONDS | Resource.IDLE:
            return Trouble.TIMEOUT
        case End.LIMIT, Resource():
            return Trouble.LIMIT
        case End.FAILED, _:
            return Trouble.MODEL
        case _:
            return Trouble.OTHER
