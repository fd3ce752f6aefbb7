"""Escapes text from others before it enters a history: data must not look like the harness (S11a)."""

import re
from typing import Final

from bot.core.codepoints import with_visible_codepoints

_HARNESS: Final = re.compile(
    r"<\s*(?:/\s*)?system-reminder\b|^[^\S\n]*(?:human|user|assistant|system)[^\S\n]*:|^[^\S\n]*\[harness",
    re.IGNORECASE | re.MULTILINE,
)
"""Matches blanks within one line only.

A match that may span lines is retried at every line, and a page has thousands.
"""

_TAG: Final = re.compile(r"(?<!\\)<(?=\s*(?:/\s*)?system-reminder\b)", re.IGNORECASE)


def escape_reminders(text: str) -> str:
    """Escape text that imitates the tags of reminders, and nothing else.

    For the words of people whom the session is to follow: they have authority over the work, but may not speak as the
    harness. Text that is already escaped stays as it is.
    """
    return _TAG.sub(r"\\<", text)


def escape_harness_markup(text: str) -> str:
    """Escape text that imitates reminders, roles, or harness markers."""
    return _HARNESS.sub(lambda match: match.group(0).replace("<", "\\<").replace(":", "\\:").replace("[", "\\["), text)


def as_data(text: str) -> str:
    """Return a sub-agent's text as data: escaped, with every invisible code point as ‹U+XXXX›."""
    return escape_harness_markup(with_visible_codepoints(text))
