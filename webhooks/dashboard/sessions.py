"""Who is signed in. Sessions stay in memory: when the service restarts, people sign in again with one click.

A session ends after IDLE_SECONDS without a request, after SESSION_SECONDS, at sign-out, and when there are too many.
The browser holds a random id; the table holds its hash.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Final

from bot.ports import Clock
from bot.service.viewers import Viewer

SESSION_SECONDS: Final = 12 * 3600
IDLE_SECONDS: Final = 2 * 3600
SIGN_IN_SECONDS: Final = 600
"""GitHub's codes are valid for ten minutes, so a sign-in that takes longer fails anyway."""
MOST_SESSIONS: Final = 2_000
"""Sessions of one process. A further one ends the oldest of whoever has most, so that nobody loses their only one to
people with many."""
REMEMBERED_COMMANDS: Final = 50
"""Commands of one session that are remembered."""
SESSIONS_PER_PERSON: Final = 10
"""Sessions of one person, so that nobody can end those of others by signing in again and again."""


@dataclass(slots=True)
class BrowserSession:
    """One browser in which a person is signed in."""

    viewer: Viewer
    began: float
    used: float
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    command_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a command is posted."""
    posted: dict[tuple[str, ...], str] = field(default_factory=dict)
    """The newest commands, with the addresses of their comments: a form that is sent twice acts once."""

    def remember(self, command: tuple[str, ...], url: str) -> None:
        """Remember a command that was posted."""
        self.posted[command] = url
        while len(self.posted) > REMEMBERED_COMMANDS:
            del self.posted[next(iter(self.posted))]


@dataclass(slots=True)
class Sessions:
    """All sessions of one process, oldest first."""

    clock: Clock
    most: int = MOST_SESSIONS
    _open: dict[str, BrowserSession] = field(default_factory=dict)

    def begin(self, viewer: Viewer) -> str:
        """Begin a session, and return the new id for the browser."""
        self._end_expired()
        own = [key for key, session in self._open.items() if session.viewer.actor.id == viewer.actor.id]
        for key in own[: max(0, len(own) + 1 - SESSIONS_PER_PERSON)]:
            del self._open[key]
        if len(self._open) >= self.most:
            count = Counter(session.viewer.actor.id for session in self._open.values())
            del self._open[max(self._open, key=lambda key: count[self._open[key].viewer.actor.id])]
        name, now = secrets.token_urlsafe(32), self.clock.monotonic()
        self._open[_key(name)] = BrowserSession(viewer, now, now)
        return name

    def find(self, name: str, *, is_use: bool = True) -> BrowserSession | None:
        """Return the open session with an id, or None. Without `is_use`, the request does not prolong it."""
        self._end_expired()
        session = self._open.get(_key(name))
        if session is not None and is_use:
            session.used = self.clock.monotonic()
        return session

    def end(self, name: str) -> None:
        """End the session with an id, if there is one."""
        self._open.pop(_key(name), None)

    def _end_expired(self) -> None:
        now = self.clock.monotonic()
        for key, session in tuple(self._open.items()):
            if now - session.used >= IDLE_SECONDS or now - session.began >= SESSION_SECONDS:
                del self._open[key]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A sign-in that is under way in one browser, as its cookie holds it."""

    state: str
    verifier: str = field(repr=False)
    back: str
    at: float


@dataclass(frozen=True, slots=True)
class Attempts:
    """Reads and writes the cookie of a sign-in. Nothing is stored, so strangers cannot fill a table."""

    clock: Clock
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def begin(self, back: str) -> Attempt:
        """Return a new attempt."""
        return Attempt(secrets.token_urlsafe(32), secrets.token_urlsafe(48), back, self.clock.monotonic())

    def seal(self, attempt: Attempt) -> str:
        """Return the cookie of an attempt."""
        text = base64.urlsafe_b64encode(json.dumps(asdict(attempt)).encode()).decode()
        return f"{text}.{self._mac(text)}"

    def open(self, cookie: str, state: str) -> Attempt | None:
        """Return the attempt in a cookie of ours that GitHub now answers with `state`; None for any other."""
        text, _, mac = cookie.rpartition(".")
        if not text or not hmac.compare_digest(mac.encode(), self._mac(text).encode()):
            return None
        attempt = Attempt(**json.loads(base64.urlsafe_b64decode(text)))
        is_late = self.clock.monotonic() - attempt.at >= SIGN_IN_SECONDS
        return None if is_late or not hmac.compare_digest(attempt.state.encode(), state.encode()) else attempt

    def _mac(self, text: str) -> str:
        return hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()


def _key(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
