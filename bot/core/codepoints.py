"""Code points that nobody sees: shown as ‹U+XXXX›, but where writing needs them (X1).

Kept: line feeds and tabs; the joiners and selectors of emoji sequences; joiners between letters of scripts that are
written with them; the three flags that are spelled with tags (https://www.unicode.org/reports/tr51/).
"""

import re
import unicodedata
from typing import Final

_SUSPECT: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ud800-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
)
_JOINERS: Final = frozenset("\u200c\u200d")
_EMOJI_STYLE: Final = "\ufe0f"
_TAGGED_FLAGS: Final = re.compile(
    "\U0001f3f4(?:"
    + "|".join("".join(chr(0xE0000 + ord(sign)) for sign in name) for name in ("gbeng", "gbsct", "gbwls"))
    + ")\U000e007f"
)
# Arabic to Thaana and N'Ko, the scripts of India, Sinhala, Tibetan, Myanmar, Khmer, Mongolian, and their extensions.
_JOINED_SCRIPTS: Final = re.compile("[\u0620-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\ua8e0-\ua8ff\uaa60-\uaa7f]")
_PICTURES: Final = re.compile("[\xa9\xae\u203c-\u3299\U0001f000-\U0001faff]")
_KEYS: Final = frozenset("0123456789#*")


def shown(text: str) -> str:
    """Give a text with every code point that nobody sees as ‹U+XXXX›."""
    if not _SUSPECT.search(text):
        return text
    made, at = "", 0
    for flag in _TAGGED_FLAGS.finditer(text):
        made += _without(text, at, flag.start()) + flag.group()
        at = flag.end()
    return made + _without(text, at, len(text))


def _without(text: str, start: int, end: int) -> str:
    """Show the suspects in one part of a text."""
    return "".join(
        f"‹U+{ord(text[at]):04X}›" if _SUSPECT.match(text[at]) and not _needed(text, at) else text[at]
        for at in range(start, end)
    )


def _needed(text: str, at: int) -> bool:
    """Tell whether writing needs the code point at that place."""
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if text[at] == _EMOJI_STYLE:
        return bool(_PICTURES.match(before)) or (before in _KEYS and after == "\u20e3")
    if text[at] not in _JOINERS:
        return False
    if _JOINED_SCRIPTS.match(before) and _JOINED_SCRIPTS.match(after):
        return True
    return text[at] == "\u200d" and _picture_before(text, at) and bool(_PICTURES.match(after))


def _picture_before(text: str, at: int) -> bool:
    """Tell whether an emoji ends before that place, with or without its style."""
    before = text[at - 1 : at]
    if before == _EMOJI_STYLE:
        before = text[at - 2 : at - 1]
    return bool(_PICTURES.match(before)) and unicodedata.category(before) in {"So", "Sk"}
