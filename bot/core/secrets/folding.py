"""A text as somebody reads it who looks for a secret in it: without what splits words, and with the way back.

`Plain` takes out what hides a text from a pattern (code points nobody sees, marks of Markdown, tags, colours, escapes);
`squeezed` leaves letters and digits alone. Both can say where in the original a place of theirs is.
"""

import html
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

_UNSEEN: Final = (
    "\xad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
)
# The first sign is found fast, and what follows it says what it is; each way is bounded, so that no text takes long.
# Marks of Markdown count inside of a word alone: elsewhere they split nothing.
_SPLIT: Final = re.compile(
    rf"[{_UNSEEN}\U000e0000-\U000e01ef`*<&%\\‹\x1b](?:"
    rf"(?P<none>(?<=[{_UNSEEN}\U000e0000-\U000e01ef])|(?<=\w[`*])[`*]{{0,9}}(?=\w)"
    r"|(?<=<)(?:!--[^>]{0,200}-->|/?[A-Za-z][^<>]{0,80}>)|(?<=‹)U\+[0-9A-F]{4,6}›"
    r"|(?:(?<=\x1b)|(?<=\\)(?:u001[bB]|x1[bB]))\[[0-9;?]{0,20}[A-Za-z])"
    r"|(?P<entity>(?<=&)(?:\#\d{1,7}|\#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,31});)"
    r"|(?P<percent>(?<=%)[0-9A-Fa-f]{2})"
    r"|(?P<escape>(?<=\\)(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2})))"
)
_DROPPED: Final = bytes(code for code in range(256) if not chr(code).isalnum() or code > 127)
_BLOCK: Final = 4096


@dataclass(frozen=True, slots=True)
class Plain:
    """A text without what splits words; `starts` and `origins` say from where to where each piece was moved.

    `ends` says where in the original a piece ends that is one sign and was written as several; 0 for others.
    """

    text: str
    starts: tuple[int, ...]
    origins: tuple[int, ...]
    ends: tuple[int, ...]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Give from where to where in the original a part of the text is; it is not empty."""
        first, last = (bisect_right(self.starts, at) - 1 for at in (start, end - 1))
        until = self.ends[last] or self.origins[last] + end - self.starts[last]
        return self.origins[first] + start - self.starts[first], until


def plain(text: str) -> Plain | None:
    """Take out what splits words; None where there is nothing of the kind."""
    made, starts, origins, ends, at, size = list[str](), [0], [0], [0], 0, 0
    for found in _SPLIT.finditer(text):
        sign = _decoded_character(found)
        made += (text[at : found.start()], sign)
        size += found.start() - at
        if sign:
            starts.append(size)
            origins.append(found.start())
            ends.append(found.end())
            size += len(sign)
        starts.append(size)
        origins.append(found.end())
        ends.append(0)
        at = found.end()
    if not made:
        return None
    made.append(text[at:])
    return Plain("".join(made), tuple(starts), tuple(origins), tuple(ends))


def _decoded_character(found: re.Match[str]) -> str:
    """Give what a way of writing stands for: at most one sign."""
    said = found.group()
    match found.lastgroup:
        case "entity":
            meant = html.unescape(said)
            return meant if len(meant) == 1 else ""
        case "percent":
            return chr(int(said[1:], 16))
        case "escape":
            return chr(int(said[2:], 16))
        case _:
            return ""


def lowercase_in_place(text: str) -> str:
    """Give a text in lower case, each character at its place."""
    lower = text.lower()
    return (
        lower if len(lower) == len(text) else "".join(low if len(low := sign.lower()) == 1 else sign for sign in text)
    )


def without_line_breaks(lower: str) -> str:
    """Give a folded text with the escapes of line breaks, as JSON has them in a key, as white space."""
    return lower.replace("\\r", "  ").replace("\\n", "  ")


def alphanumerics(lower: str) -> str:
    """Give the letters and digits (ASCII) of a text that is folded."""
    return lower.encode("ascii", "replace").translate(None, _DROPPED).decode("ascii")


def places_of(lower: str, wanted: Iterable[int]) -> Iterator[int]:
    """Yield where in a folded text the nth letters and digits (from 0, rising) are that `squeezed` left."""
    start, seen, places = 0, 0, list[int]()
    for nth in wanted:
        while nth >= seen + len(places) and start < len(lower):
            seen, block = seen + len(places), lower[start : start + _BLOCK]
            places = [at for at, sign in enumerate(block, start) if sign.isascii() and sign.isalnum()]
            start += _BLOCK
        yield places[nth - seen]
