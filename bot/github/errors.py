"""The errors that requests to GitHub raise.

Refused
 +-- Missing         404: it does not exist, or this token may not see it
 +-- Forbidden       403: the token lacks a permission
 +-- BadToken        401: GitHub does not recognize the token, or no longer does
 +-- Unprocessable   409 or 422: GitHub understood the request and refused it; `what` holds its message
Transient
 +-- TooMuch         the query exceeds GitHub's resources for one response: ask for less at once
 +-- RateLimited     a rate limit that lasts longer than the client waits; `seconds` is how long
 +-- Incomplete      the answer lacks what GitHub's schemas let it leave out, and nothing can stand for
 +-- OutcomeUnknown  the response to a write was lost: look up whether it was done before repeating it (E1)
"""

from typing import TypeVar

from bot.core.errors import Refused, Transient

T = TypeVar("T")


class Missing(Refused):
    """It does not exist, or this token may not see it."""


class Forbidden(Refused):
    """The token lacks a permission."""


class BadToken(Refused):
    """GitHub does not recognize the token, or no longer does."""


class Unprocessable(Refused):
    """GitHub understood the request and refused it."""


class TooMuch(Transient):
    """The query asks for more at once than GitHub gives in one response."""


class Incomplete(Transient):
    """The answer lacks something that GitHub's schemas let it leave out."""


def require_present(value: T | None, what: str) -> T:
    """Return a value of GitHub's answer. Raises Incomplete, which names it, if it is null."""
    if value is None:
        raise Incomplete(f"GitHub's answer does not contain {what}", where="GitHub", fix="try again later")
    return value


class RateLimited(Transient):
    """A rate limit that lasts longer than the client waits."""

    def __init__(self, seconds: float, *, where: str) -> None:
        super().__init__("GitHub's rate limit is reached", where=where, fix=f"try again in {seconds:.0f} s")
        self.seconds = seconds


class OutcomeUnknown(Transient):
    """The response to a write was lost. Look up whether the write was done."""
