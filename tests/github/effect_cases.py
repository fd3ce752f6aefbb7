"""What an effect on GitHub is, for the matrix of tests/github/effects.py (E1)."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bot.core.names import ThreadNumber
from bot.testing.github import conversation
from tests.github.conftest import HOME, Ground


@dataclass(frozen=True, slots=True)
class Case:
    """An effect about to happen: `act` makes it happen, as often as it is called; `made` counts what came of it."""

    act: Callable[[], Awaitable[object]]
    made: Callable[[], int]


@dataclass(frozen=True, slots=True)
class Effect:
    """One kind of request that changes something."""

    request: str
    """``METHOD /path``, with wildcards."""
    site: str
    """Where the code sends it: ``file:function:verb``."""
    prepare: Callable[[Ground, int], Awaitable[Case]] | None = None
    """Makes a case on a thread with so many comments; None for what only whole stories do."""
    containing: str = ""
    once: bool = False
    """Whether sending it twice would make two: then it is never sent while a look-up fails."""


async def crowded(ground: Ground, size: int) -> ThreadNumber:
    """Open an issue that has so many comments of others."""
    thread = ground.issue()
    issue, person = ground.github.world.issue(HOME, thread), ground.person("rea")
    for number in range(size):
        conversation.comment(person, issue, f"comment {number}")
    return thread
