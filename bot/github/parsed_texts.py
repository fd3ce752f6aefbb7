"""Cache of parsed Markdown, kept as long as the process lives.

Parsing is the one part of a check whose cost depends on what somebody wrote, so each text is parsed once, however often
its thread is checked. The key is a digest of the text itself. So an edit within the second of another edit, which
`lastEditedAt` cannot tell apart, still counts as a new text.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import blake2b
from threading import Lock
from typing import Final

from bot.core.codepoints import without_invisible_runs
from bot.core.mail import addressing_line
from bot.core.markdown.visible import LIMIT, Visible, command_lines, mentions, newlines, visible_text

REMEMBERED: Final = 4_000_000
"""Maximum characters that all cached texts hold together."""
_OVERHEAD: Final = 500
"""Characters that a parsed text without any words counts as."""


@dataclass(frozen=True, slots=True)
class ParsedText:
    """What a text shows, whether it addresses the bot, and which of its lines may be commands."""

    shown: Visible
    speaks: bool
    lines: tuple[str, ...]

    @property
    def size(self) -> int:
        """The characters that it counts as in the cache."""
        return _OVERHEAD + sum(map(len, (self.shown.text, *self.shown.removed, *self.lines)))


@dataclass(slots=True)
class ParsedTextCache:
    """The parsed texts of one process, evicted least recently used first. Safe to use from several threads."""

    limit: int = REMEMBERED
    parsed: int = field(default=0, init=False)
    """Number of texts parsed so far."""
    size: int = field(default=0, init=False)
    """Characters that the cached texts count as."""
    _known: OrderedDict[bytes, ParsedText] = field(default_factory=OrderedDict, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def parse(self, text: str, mention: str, *, by_mail: bool) -> ParsedText:
        """Return a text parsed for a bot with that mention, from the cache if it was parsed before.

        GitHub shows a text that was sent by mail as it is, as plain text (A6).
        """
        if by_mail:
            line = addressing_line(text, mention)
            shown = Visible(*without_invisible_runs(newlines(text)[:LIMIT]))
            return ParsedText(shown, bool(line), (line,) if line else ())
        key = blake2b(f"{mention}\n{text}".encode(errors="surrogatepass"), digest_size=32).digest()
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        parsed = ParsedText(visible_text(text), mentions(text, mention), command_lines(text))
        with self._lock:
            self._remember(key, parsed)
        return parsed

    def _remember(self, key: bytes, text: ParsedText) -> None:
        self.parsed += 1
        if key not in self._known:
            self._known[key] = text
            self.size += text.size
        while self.size > self.limit:
            _, forgotten = self._known.popitem(last=False)
            self.size -= forgotten.size
