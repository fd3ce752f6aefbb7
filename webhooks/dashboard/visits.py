"""One request to a page: where it was sent, who is signed in, and what this person may see (W5)."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from fastapi import Request

from bot.core.actor import Role
from bot.core.errors import Refused
from bot.core.names import ThreadAddress
from bot.ports import Clock
from bot.service.overview.overview import Overview
from bot.service.viewers import SignIn, ViewerAccess
from webhooks.dashboard.guard import Origin, origin_of
from webhooks.dashboard.sessions import Attempts, BrowserSession, Sessions

SESSION_COOKIE: Final = "plangate"
LONGEST_NUMBER: Final = 15
"""Digits of the largest number of a thread, as in the API."""


class NotSignedIn(Exception):
    """The person has to sign in first, or again."""


class NotFound(Exception):
    """There is no such page, or this person may not see it. The response is the same for both."""


class NotAllowed(Exception):
    """The person may see this, but not do it."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One request. Without a session it is the operator's, at a service that speaks as a machine account."""

    origin: Origin
    session: BrowserSession | None = None
    access: ViewerAccess = field(default_factory=ViewerAccess)

    @property
    def login(self) -> str:
        """Login of the person; "" for the operator."""
        return self.session.viewer.actor.login if self.session else ""

    @property
    def person(self) -> int:
        """Number of the person's account; 0 for the operator."""
        return self.session.viewer.actor.id if self.session else 0

    @property
    def form_token(self) -> str:
        """The token that this person's forms carry."""
        return self.session.form_token if self.session else ""

    @property
    def visible(self) -> Collection[int] | None:
        """The numeric ids of the repositories that the person may see; None for all."""
        return self.access.roles if self.session else None

    @property
    def actionable(self) -> Collection[int] | None:
        """The repositories in which the page offers this person commands. The operator sees what waits in all."""
        return {number for number in self.access.roles if self.may_act(number)} if self.session else None

    def role(self, repository: int) -> Role:
        """Return the person's role in a repository. The operator reads everything, and decides nothing here."""
        return self.access.role(repository) if self.session else Role.READ

    def may_act(self, repository: int) -> bool:
        """Return whether the page offers commands. Whether one counts is decided by the gate, as for any comment."""
        return self.role(repository) >= Role.WRITE


@dataclass(frozen=True, slots=True)
class Dashboard:
    """What all pages share."""

    reading: Overview
    sign_in: SignIn
    sessions: Sessions
    attempts: Attempts

    @property
    def clock(self) -> Clock:
        """The clock of the service."""
        return self.sign_in.clock

    @property
    def needs_sign_in(self) -> bool:
        """Whether people sign in. A service without an App serves its operator on this machine."""
        return self.sign_in.settings.github.as_app

    async def visit(self, request: Request, *, is_use: bool = True) -> Visit:
        """Return the visit of a request. Raises NotServed, NotSignedIn, and Transient."""
        origin = origin_of(request, self.sign_in.settings)
        if not self.needs_sign_in:
            return Visit(origin)
        name = request.cookies.get(origin.cookie(SESSION_COOKIE), "")
        session = self.sessions.find(name, is_use=is_use)
        if session is None:
            raise NotSignedIn
        try:
            access = await session.viewer.access()
        except Refused:  # the person revoked the App's authorization, or the token could not be renewed
            self.sessions.end(name)
            raise NotSignedIn from None
        return Visit(origin, session, access)

    async def address(self, visit: Visit, request: Request) -> ThreadAddress:
        """Return the thread in the path of a request. Raises NotFound if there is none, or none for this person."""
        parts = request.path_params
        number = parts["number"]
        if not (number.isascii() and number.isdecimal() and len(number) <= LONGEST_NUMBER):
            raise NotFound
        address = await self.reading.find(f"{parts['owner']}/{parts['name']}", int(number), visit.visible)
        if address is None or visit.role(address.repository) < Role.READ:
            raise NotFound
        return address
