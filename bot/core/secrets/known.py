"""Detection of known secrets in a text, whole or in part, in any encoding (X3).

Every piece of 16 or more characters of a value is found: as it is, in other case, reversed, as Base64 (plain or for
URLs, at any alignment, wrapped or not), as hex, and split by invisible or other signs. Shorter values are found only
whole. A prefix that all keys of a kind share says nothing and does not count as part of a value.

The search checks a text at regular steps. Every piece that counts contains a whole gram at one of these steps, so the
cost for a text does not grow with the number of secrets.
"""

import base64
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from bot.core.secrets.folding import FoldedText, alphanumerics, lowercase_in_place, places_of, without_line_breaks

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
    """A part of a text that is a secret, with its kind."""

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
        """Return the index of both, which must have the same shortest piece."""
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
        """Yield the short values."""
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
    """Return the index of the given spellings."""
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
