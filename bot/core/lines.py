"""Shortening texts: to one line, or by a cut in the middle."""

from typing import Final

_NOTE: Final = "\n\n[… {:,} characters are left out here …]\n\n"


def shorten_line(text: str, longest: int) -> str:
    """Return a text as one line of at most `longest` characters; one that was cut ends with …"""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def cut_middle(text: str, longest: int) -> str:
    """Return a text of at most `longest` characters plus a note: a longer one loses its middle, with a count."""
    if len(text) <= longest:
        return text
    head = (longest + 1) // 2
    return text[:head] + _NOTE.format(len(text) - longest) + text[len(text) - (longest - head) :]
