"""The hidden last line of each bot comment, which identifies a comment whose id was lost (A4).

``<!-- plangate:1 KIND THREAD ASK DIGEST KEYID MAC -->``. A marker with a bad MAC is not ours. Recorded comment ids
outrank markers.
"""

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bot.core.names import ThreadNumber

NO_DIGEST: Final = "-"
_OF_ENTRIES: Final = frozenset({"tell"})
_OF_ASKS: Final = frozenset({"plan", "progress", "question", "unsettled"})
"""The comment kinds numbered by an entry of the journal, and the kinds numbered by an ask."""

_LINE: Final = re.compile(
    r"<!-- plangate:1 ([a-z][a-z_-]{0,30}) (\d{1,19}) (\d{1,9}) ([0-9a-f]{64}|-) ([0-9a-f]{8}) ([0-9a-f]{32}) -->"
)


@dataclass(frozen=True, slots=True)
class Marker:
    """What a comment is: its kind, the thread and ask that it answers, and the digest that it shows ("-" for none)."""

    kind: str
    thread: ThreadNumber
    ask: int
    digest: str
    key_id: str
    mac: str

    def is_ahead(self, position: int, ask: int) -> bool:
        """Return whether a journal with `position` entries and `ask` asks is older than this comment (A4b).

        A `tell` comment is numbered by its entry, which was journaled before; the others by their ask.
        """
        return (self.kind in _OF_ENTRIES and self.ask > position) or (self.kind in _OF_ASKS and self.ask > ask)

    def holds(self, mac: Callable[[str], str]) -> bool:
        """Return whether the marker's MAC matches the one that `mac` computes."""
        return hmac.compare_digest(mac(_signed_text(self.kind, self.thread, self.ask, self.digest)), self.mac)


@dataclass(frozen=True, slots=True)
class Key:
    """The key of markers, as far as they need it: its id, and a function that returns a MAC of 32 hex digits."""

    id: str
    mac: Callable[[str], str]


def make(kind: str, thread: ThreadNumber, ask: int, *, digest: str = NO_DIGEST, key: Key) -> str:
    """Return the marker line of one comment."""
    mac = key.mac(_signed_text(kind, thread, ask, digest))
    return f"<!-- plangate:1 {kind} {thread} {ask} {digest} {key.id} {mac} -->"


def digest_of(text: str) -> str:
    """Return the digest by which a marker names what its comment is about: the SHA-256 of the text, in hex digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def parse(text: str) -> Marker | None:
    """Return the marker in the last line of a comment; None if there is none of this form."""
    match = _LINE.fullmatch(_last_line(text))
    if match is None:
        return None
    kind, thread, ask, digest, key_id, mac = match.groups()
    return Marker(kind, ThreadNumber(int(thread)), int(ask), digest, key_id, mac)


def without(text: str) -> str:
    """Return a comment without its marker, with LF newlines and no trailing space: the form to compare."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n").rstrip()
    last = _last_line(plain)
    return plain[: len(plain) - len(last)].rstrip() if _LINE.fullmatch(last) else plain


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2].strip()


def _signed_text(kind: str, thread: ThreadNumber, ask: int, digest: str) -> str:
    return f"plangate:1 {kind} {thread} {ask} {digest}"
