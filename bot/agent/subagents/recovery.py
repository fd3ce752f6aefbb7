"""Recovery: the remedies for each kind of a sub-agent's trouble, as one table (S11).

Other parts handle two kinds first: dispatch returns a tool's error to the model, and the client retries a model that
cannot be reached and then switches to its fallback. What remains goes to the parent. A sub-agent that was interrupted
with its process resumes when its call is made again (resuming).
"""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from bot.agent.limits import Resource
from bot.agent.monitor import Monitor
from bot.agent.session_events import End, Ended

RAISE: Final = 1.5
"""Factor by which a limit, or the time of a second try, is raised."""
PARTS: Final = 2
"""Number of parts into which a task is split after it exhausted its limits."""


class Trouble(StrEnum):
    """Kinds of trouble."""

    TIMEOUT = "timeout"
    LIMIT = "limit"
    DENIED = "permission denied"
    TOOL = "tool error"
    MODEL = "model communication"
    INTERRUPTED = "interrupted"
    OTHER = "other"


class Remedy(StrEnum):
    """Responses to trouble."""

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
"""Remedies of each trouble, in order. Once they are used up, the parent is told."""


def remedy(trouble: Trouble, times: int) -> Remedy:
    """Return the remedy for a trouble that occurred `times` times before. Defined for every input."""
    row = TABLE[trouble]
    if trouble is Trouble.TOOL:
        return Remedy.MODEL
    return row[times] if times < len(row) else Remedy.PARENT


def trouble_of(ended: Ended) -> Trouble:
    """Return the kind of trouble that an end without an answer is."""
    match ended.end, ended.limit:
        case End.LIMIT, Resource.SECONDS | Resource.IDLE:
            return Trouble.TIMEOUT
        case End.LIMIT, Resource():
            return Trouble.LIMIT
        case End.FAILED, _:
            return Trouble.MODEL
        case _:
            return Trouble.OTHER


def raise_requested_limit(monitor: Monitor, troubles: Counter[Trouble], resource: Resource) -> bool:
    """Raise a limit that a sub-agent asks for (resource_request), as often as the table allows. Return whether it was.

    A request counts as trouble with a limit.
    """
    if remedy(Trouble.LIMIT, troubles[Trouble.LIMIT]) is not Remedy.RAISE:
        return False
    troubles[Trouble.LIMIT] += 1
    monitor.raise_limit(resource, RAISE)
    return True
