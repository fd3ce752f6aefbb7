"""One line of a text, for places that have room for one."""


def shorten_line(text: str, longest: int) -> str:
    """Give a text as one line of so many characters at most; one that was cut ends with …"""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"
