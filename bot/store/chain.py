"""The lines of a journal: chained and authenticated. Pure (A4).

A line is one JSON object: ``{"n": from 1, "at": time, "kind": ..., body..., "prev": hex, "mac": hex}``. `prev` is the
SHA-256 of the previous line, 64 zeros for the first. `mac` is HMAC-SHA256 over repository, thread, and the line without
its mac. So no line can be changed, moved, removed from the middle, or copied to another thread. A chain cannot show
that lines are missing at its END: only somebody who remembers a later position can detect a rollback.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from bot.core.errors import Broken, Unreadable
from bot.core.names import RepositoryId, ThreadNumber
from bot.core.transcript import Json
from bot.ports import Entry

RESERVED = frozenset({"n", "at", "kind", "prev", "mac"})
_FIRST = "0" * 64
_FIX = "set PLANGATE_STATE_KEY to the key that wrote it, or restore the ref"
_MAC_BYTES = len(f',"mac":"{_FIRST}"}}')


@dataclass(frozen=True, slots=True)
class Chain:
    """The chain of one thread's journal."""

    repository: RepositoryId
    thread: ThreadNumber
    key: bytes = field(repr=False)

    def extend(self, after: Sequence[bytes], at: datetime, entries: Sequence[tuple[str, Json]]) -> tuple[bytes, ...]:
        """Return the lines (without newline) that append these entries (kind, body) to the lines so far."""
        lines = list(after[-1:])
        for n, (kind, body) in enumerate(entries, start=len(after) + 1):
            prev = hashlib.sha256(lines[-1]).hexdigest() if lines else _FIRST
            head = {"n": n, "at": at.astimezone(UTC).isoformat(), "kind": str(kind)}
            lines.append(self._line(head, body, prev))
        return tuple(lines[len(after[-1:]) :])

    def verify(self, lines: Sequence[bytes]) -> tuple[Entry, ...]:
        """Return the entries of the lines. Raises Unreadable, with the line number, at the first altered line."""
        return parse_unverified(self._verified_lines(lines), f"repository {self.repository}, thread {self.thread}")

    def _line(self, head: Json, body: Json, prev: str) -> bytes:
        """Return one line. Raises Broken if the body is not JSON or uses the line's own fields."""
        if reserved := RESERVED & body.keys():
            raise Broken(f"an entry's body may not hold {', '.join(sorted(reserved))}", where=str(head["kind"]))
        value = head | body | {"prev": prev}
        try:
            text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise Broken("an entry's body is not JSON", where=str(head["kind"]), fix=str(error)) from error
        bare = text.encode("utf-8", "surrogatepass")  # JSON may hold half a surrogate pair, but UTF-8 may not
        return bare[:-1] + f',"mac":"{self._mac(bare)}"}}'.encode()

    def _verified_lines(self, lines: Sequence[bytes]) -> Iterator[bytes]:
        """Yield each line with a valid MAC. Raises Unreadable at the first line without one."""
        for n, line in enumerate(lines, start=1):
            bare = line[:-_MAC_BYTES] + b"}"
            if not hmac.compare_digest(line[-_MAC_BYTES:], f',"mac":"{self._mac(bare)}"}}'.encode()):
                where = f"repository {self.repository}, thread {self.thread}, line {n}"
                raise Unreadable("a journal line is not as this bot wrote it for this thread", where=where, fix=_FIX)
            yield line

    def _mac(self, bare: bytes) -> str:
        """Return the MAC of a line without its mac, in hex."""
        context = f"plangate:journal:1\0{self.repository}\0{self.thread}\0".encode()
        return hmac.new(self.key, context + bare, hashlib.sha256).hexdigest()


def parse_unverified(lines: Iterable[bytes], where: str) -> tuple[Entry, ...]:
    """Return the entries of lines, checking numbers and hashes but not MACs.

    Raises Unreadable at the first bad line.
    """
    prev, entries = _FIRST, []
    for n, line in enumerate(lines, start=1):
        try:
            value: Json = json.loads(line.decode("utf-8", "surrogatepass"))
            follows = (value.pop("n"), value.pop("prev")) == (n, prev) and value.pop("mac")
            prev = hashlib.sha256(line).hexdigest()
            entries.append(Entry(n, datetime.fromisoformat(value.pop("at")), value.pop("kind"), value, prev))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Unreadable("this is not a journal line", where=f"{where}, line {n}", fix=_FIX) from error
        if not follows:
            raise Unreadable("the journal's lines do not follow each other", where=f"{where}, line {n}", fix=_FIX)
    return tuple(entries)
