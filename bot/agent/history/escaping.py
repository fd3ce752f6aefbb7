"""Escapes text of others before it enters a history: data must not look like the harness (S11a)."""

import re
from typing import Final

from bot.core.codepoints import with_visible_codepoints

_HARNESS: Final = re.compile(
    r"<\s*(?:/\s*)?system-reminder\b|^[^\S\n]*(?:human|user|assistant|system)[^\S\n]*:|^[^\S\n]*\[harness",
    re.IGNORECASE | re.MULTILINE,
)
"""Spaces of one line alone: what may go on over lines is tried anew at each of them, and a page has thousands."""


def escape_harness_markup(text: str) -> str:
    """Escape what imitates reminders, roles or harness markers."""
    return _HARNESS.sub(lambda match: match.group(0).replace("<", "\\<").replace(":", "\\:").replace("[", "\\["), text)


def as_data(text: str) -> str:
    """Give text of a sub-agent as data: escaped, with every code point that nobody sees as ‹U+XXXX›."""
    return escape_harness_markup(with_visible_codepoints(text))
