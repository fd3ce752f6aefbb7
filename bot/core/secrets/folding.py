"""Texts reduced for the search for secrets, with a mapping back to the original positions.

`FoldedText` removes what hides a text from a pattern: invisible code points, Markdown marks, tags, colors, escapes.
`alphanumerics` keeps letters and digits only. `FoldedText.original` and `places_of` map a position back to the
original.
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
# The first sign is found fast, and what follows it identifies the form. Every form is bounded, so that no text takes
# long.
# Markdown marks count only inside a word; elsewhere they split nothing.
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
class FoldedText:
    """A text without what splits words. `starts` and `origins` map each piece to its original position.

    `ends` holds the end in the original of a piece that is one character but was written as several; 0 for others.
    """

    text: str
    starts: tuple[int, ...]
    origins: tuple[int, ...]
    ends: tuple[int, ...]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the range in the original of a nonempty part of the text."""
        first, last = (bisect_right(self.starts, at) - 1 for at in (start, end - 1))
        until = self.ends[last] or self.origins[last] + end - self.starts[last]
        return self.origins[first] + start - self.starts[first], until


def plain(text: str) -> FoldedText | None:
    """Return the text without what splits words; None if there is nothing to remove."""
    parts, starts, origins, ends, at, size = list[str](), [0], [0], [0], 0, 0
    for match in _SPLIT.finditer(text):
        sign = _decoded_character(match)
        parts += (text[at : match.start()], sign)
        size += match.start() - at
        if sign:
            starts.append(size)
            origins.append(match.start())
            ends.append(match.end())
            size += len(sign)
        starts.append(size)
        origins.append(match.end())
        ends.append(0)
        at = match.end()
    if not parts:
        return None
    parts.append(text[at:])
    return FoldedText("".join(parts), tuple(starts), tuple(origins), tuple(ends))


def _decoded_character(escape: re.Match[str]) -> str:
    """Return the character that an escape stands for; "" if it stands for none or for several."""
    spelling = escape.group()
    match escape.lastgroup:
        case "entity":
            character = html.unescape(spelling)
            return character if len(character) == 1 else ""
        case "percent":
            return chr(int(spelling[1:], 16))
        case "escape":
            return chr(int(spelling[2:], 16))
        case _:
            return ""


def lowercase_in_place(text: str) -> str:
    """Return a text in lower case, with each character at its position."""
    lower = text.lower()
    return (
        lower if len(lower) == len(text) else "".join(low if len(low := sign.lower()) == 1 else sign for sign in text)
    )


def without_line_breaks(lower: str) -> str:
    """Return a folded text with escaped line breaks, as JSON writes them in a key, replaced by white space."""
    return lower.replace("\\r", "  ").replace("\\n", "  ")


def alphanumerics(lower: str) -> str:
    """Return the ASCII letters and digits of a folded text."""
    return lower.encode("ascii", "replace").translate(None, _DROPPED).decode("ascii")


def places_of(lower: str, wanted: Iterable[int]) -> Iterator[int]:
    """Yield the positions in a folded text of the nth characters that `alphanumerics` kept (from 0, ascending)."""
    start, counted, places = 0, 0, list[int]()
    for nth in wanted:
        while nth >= counted + len(places) and start < len(lower):
            counted, block = counted + len(places), lower[start : start + _BLOCK]
            places = [at for at, sign in enumerate(block, start) if sign.isascii() and sign.isalnum()]
            start += _BLOCK
        yield places[nth - counted]
