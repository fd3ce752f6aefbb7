"""What can go wrong at GitHub's door, as our errors.

Refused
 +-- Missing         404: it is not there, or this token may not see it
 +-- BadToken        401: GitHub does not know the token (any more)
 +-- Unprocessable   422: GitHub understood and said no; `what` carries its words
Transient
 +-- TooMuch         one answer would take more of GitHub's time than it gives a query: ask for less at once
 +-- Limited         a rate limit that lasts longer than we wait; `seconds` says how long
 +-- Unknown         the answer to a write was lost: it may have been done, so look before doing it again (E1)
"""

from bot.core.errors import Refused, Transient


class Missing(Refused):
    """It does not exist, or this token may not see it."""


class BadToken(Refused):
    """GitHub does not recognize the token, or no longer does."""


class Unprocessable(Refused):
    """GitHub understood the request and refused it."""


class TooMuch(Transient):
    """The query asks for more at once than GitHub gives in one response."""


class Limited(Transient):
    """A rate limit that lasts longer than the client waits."""

    def __init__(self, seconds: float, *, where: str) -> None:
        super().__init__("GitHub's rate limit is reached", where=where, mend=f"try again in {seconds:.0f} s")
        self.seconds = seconds


class Unknown(Transient):
    """The response to a write was lost. Look up whether the write was done."""
