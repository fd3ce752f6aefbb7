"""Shortening a text to one line."""


def shorten_line(text: str, longest: int) -> str:
    """Return a text as one line of at most `longest` characters; one that was cut ends with …"""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"
