"""Finds known secrets in a text, whole or in part, in any encoding (X3)."""

import base64
import html
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

# --- Texts reduced for the search for secrets ------------------------------------------------------------------------
# `FoldedText` removes what hides a text from a pattern: invisible code points, Markdown marks, tags, colors, escapes.
# `alphanumerics` keeps letters and digits only. `FoldedText.original` and `places_of` map a position back to the
# original.

_UNSEEN: Final = (
    "\xad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
)
# The first sign is found fast, and what follows it identifies the form. Every form is bounded, so that no text takes
# long. Markdown marks count only inside a word; elsewhere they split nothing.
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


# --- Known secrets in a text (X3) ------------------------------------------------------------------------------------
# Every piece of 16 or more characters of a value is found: as it is, in other case, reversed, as Base64 (plain or for
# URLs, at any alignment, wrapped or not), as hex, and split by invisible or other signs. Shorter values are found only
# whole. A prefix that all keys of a kind share says nothing and does not count as part of a value.
#
# The search checks a text at regular steps. Every piece that counts contains a whole gram at one of these steps, so the
# cost for a text does not grow with the number of secrets.

SHORTEST: Final = 8
"""The shortest value to look for. Shorter values are words that would be found everywhere."""
PIECE: Final = 16
"""Characters of a secret whose disclosure is as bad as that of the whole."""
GRAM: Final = 8
_ALPHANUMERIC_PIECE: Final = 14
"""Letters and digits that count as a piece when other signs are left out."""
_MOST_PLACES: Final = 16
"""The number of occurrences of one gram that are examined. A repetitive value has more."""

_FRAME: Final = re.compile(r"-----[^\n-]{1,80}-----")
# Every RSA key begins with these: version, length of the modulus, its first byte. RFC 8017, A.1.2; RFC 5208, 5.
_DER: Final = re.compile(
    r"^\s*MII[A-Za-z0-9+/]{3}(?:IBAAKCA[A-Za-z]EA|IBADANBgkqhkiG9w0BAQEFAASC[A-Za-z0-9+/]{8}AgEAAoI[A-Z]AQ)"
)
# Every JSON Web Token of one algorithm has the same head. RFC 7519, 3.1.
_HEAD: Final = re.compile(r"eyJ[A-Za-z0-9_-]{8,200}\.")


@dataclass(frozen=True, slots=True)
class Span:
    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class _Index:
    """All spellings of all values, joined, with their grams. `owners` maps a position to its kind."""

    joined: str
    grams: frozenset[str]
    owners: tuple[tuple[int, str], ...]
    shortest: int

    def pieces(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield (start, end, kind) of each piece in a text that is folded like the values."""
        grams, step, last = self.grams, self.shortest - GRAM + 1, 0
        steps = range(0, len(text) - GRAM + 1, step)
        for at in [at for at in steps if text[at : at + GRAM] in grams]:
            if at >= last and (piece := self._longest(text, at)):
                yield piece
                last = piece[1]

    def _longest(self, text: str, at: int) -> tuple[int, int, str] | None:
        """Return the longest piece around a gram, or None if it is too short."""
        gram, best, place = text[at : at + GRAM], (0, 0, ""), -1
        for _ in range(_MOST_PLACES):
            place = self.joined.find(gram, place + 1)
            if place < 0:
                break
            start, end = _extend_match(text, at, self.joined, place)
            if end - start > best[1] - best[0]:
                best = (start, end, self._kind(place))
        return best if best[1] - best[0] >= self.shortest else None

    def _kind(self, place: int) -> str:
        return next(kind for end, kind in self.owners if place < end)

    def __add__(self, other: "_Index") -> "_Index":
        size = len(self.joined)
        owners = (*self.owners, *((size + end, kind) for end, kind in other.owners))
        return _Index(self.joined + other.joined, self.grams | other.grams, owners, self.shortest)


@dataclass(frozen=True, slots=True)
class KnownSecrets:
    """Secret values with their kinds. Built once, used for every text."""

    values: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    _long: tuple[_Index, _Index] | None = field(init=False, repr=False, default=None)
    """The indexes of the values as written and of their letters and digits."""
    _short: tuple[tuple[str, str], ...] = field(init=False, repr=False, default=())

    def __post_init__(self) -> None:
        bodies = [(body, kind) for value, kind in self.values for body in _bodies(value)]
        long = [(body, kind) for body, kind in bodies if len(body) >= PIECE]
        exact = [(lowercase_in_place(spelling), kind) for body, kind in long for spelling in (body, body[::-1])]
        loose = [
            (alphanumerics(lowercase_in_place(spelling)), kind) for body, kind in long for spelling in _spellings(body)
        ]
        short = {
            lowercase_in_place(spelling): kind
            for body, kind in bodies
            if SHORTEST <= len(body) < PIECE
            for spelling in _spellings(body)
            if len(spelling) >= SHORTEST
        }
        if long:
            object.__setattr__(self, "_long", (_index(exact, PIECE), _index(loose, _ALPHANUMERIC_PIECE)))
        object.__setattr__(self, "_short", tuple(short.items()))

    def __bool__(self) -> bool:
        return bool(self._long or self._short)

    def __add__(self, other: "KnownSecrets") -> "KnownSecrets":
        """Return the secrets of both. No value is indexed again, because indexing a key takes milliseconds."""
        joined = KnownSecrets()
        object.__setattr__(joined, "values", (*self.values, *other.values))
        pairs = zip(self._long, other._long, strict=True) if self._long and other._long else ()
        object.__setattr__(joined, "_long", tuple(one + more for one, more in pairs) or self._long or other._long)
        object.__setattr__(joined, "_short", (*self._short, *other._short))
        return joined

    def spans(self, text: str, other: FoldedText | None) -> Iterator[Span]:
        """Yield the secrets in a text. `other` is its `plain` form. Spans may overlap."""
        lower = lowercase_in_place(text)
        yield from self._short_values(lower)
        if self._long is None:
            return
        exact, loose = self._long
        for start, end, kind in exact.pieces(lower):
            yield Span(start, end, kind)
        yield from _relaxed_spellings(loose, without_line_breaks(lower), None)
        if other is not None:
            yield from _relaxed_spellings(loose, without_line_breaks(lowercase_in_place(other.text)), other)

    def _short_values(self, lower: str) -> Iterator[Span]:
        for value, kind in self._short:
            at = lower.find(value)
            while at >= 0:
                yield Span(at, at + len(value), kind)
                at = lower.find(value, at + len(value))


def _relaxed_spellings(index: _Index, lower: str, way: FoldedText | None) -> Iterator[Span]:
    """Yield values found by their letters and digits alone."""
    pieces = list(index.pieces(alphanumerics(lower)))
    places = places_of(lower, [at for start, end, _ in pieces for at in (start, end - 1)])
    for first, last, (_, _, kind) in zip(places, places, pieces, strict=False):
        yield Span(*(way.original(first, last + 1) if way else (first, last + 1)), kind)


def _bodies(value: str) -> list[str]:
    """Return the distinctive parts of a value, without PEM frames and the heads that all keys of a kind share."""
    parts = _FRAME.split(value.replace("\r\n", "\n"))
    return [
        body
        for part in parts
        for section in _HEAD.split(part)
        if len(body := _DER.sub("", section).strip()) >= SHORTEST
    ]


def _spellings(body: str) -> Iterator[str]:
    """Yield all spellings of a value that differ in their letters and digits."""
    raw = body.encode("utf-8", "surrogatepass")
    yield body
    yield body[::-1]
    yield raw.hex()
    for skipped in range(3):
        whole = base64.b64encode(bytes(skipped) + raw).decode()
        # Leave out what depends on the neighboring bytes: the first 0, 2, or 3 signs, and the padding at the end.
        first, last = (0, 2, 3)[skipped], (len(raw) + skipped) % 3
        yield whole[first : len(whole) - (0, 3, 2)[last]]
        # Base64 for URLs writes two signs differently. The index of letters and digits drops all four, but short values
        # are matched as written.
        if len(body) < PIECE:
            yield whole[first : len(whole) - (0, 3, 2)[last]].translate({43: 45, 47: 95})


def _index(spellings: Iterable[tuple[str, str]], shortest: int) -> _Index:
    joined, owners, size, grams = list[str](), list[tuple[int, str]](), 0, set[str]()
    for spelling, kind in dict.fromkeys(spellings):
        if len(spelling) < shortest:
            continue
        joined += (spelling, "\0")
        size += len(spelling) + 1
        owners.append((size, kind))
        grams.update(spelling[at : at + GRAM] for at in range(len(spelling) - GRAM + 1))
    return _Index("".join(joined), frozenset(grams), tuple(owners), shortest)


def _extend_match(text: str, at: int, other: str, place: int) -> tuple[int, int]:
    """Return the range in `text` where both texts agree around the given positions, within one value."""
    start, other_at = at, place
    while start > 0 and other_at > 0 and text[start - 1] == other[other_at - 1] != "\0":
        start, other_at = start - 1, other_at - 1
    end, other_at = at + GRAM, place + GRAM
    while end < len(text) and other_at < len(other) and text[end] == other[other_at] != "\0":
        end, other_at = end + 1, other_at + 1
    return start, end
