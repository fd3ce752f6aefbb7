"""Code points that people cannot see or tell apart, shown as ‹U+XXXX› (X1)."""

import re
import unicodedata
from collections.abc import Callable
from html.entities import html5
from typing import Final

# --- Invisible code points (X1) --------------------------------------------------------------------------------------
# They are shown as ‹U+XXXX›, except where writing needs them. Kept: line feeds and tabs; the joiners and selectors of
# emoji sequences; joiners between letters of scripts that use them, and the marks of scripts that stand before or
# between their signs; one variation selector after an ideograph, as in Japanese names
# (https://www.unicode.org/reports/tr37/); the three flags that are spelled with tags
# (https://www.unicode.org/reports/tr51/).

_SUSPECT: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ud800-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
    "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd\U00013430-\U0001345f"
    "\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
)
# Visible format code points next to signs of their own script: number and verse signs in Arabic, the abbreviation sign
# in Syriac, number signs in Kaithi, and layout controls between hieroglyphs.
_MARKS: Final = re.compile(
    "[\u0600-\u0605\u06dd\u0890\u0891\u08e2](?=[\u0620-\u08ff])|\u070f(?=[\u0710-\u074f])"
    "|[\U000110bd\U000110cd](?=[\U00011080-\U000110ba\U00011066-\U0001106f])"
    "|(?<=[\U00013000-\U0001342f])[\U00013430-\U0001345f](?=[\U00013000-\U0001342f])"
)
_ENTITY: Final = re.compile(r"(?<!\\)&(?:#(?:[xX]([0-9A-Fa-f]{1,6})|([0-9]{1,7}))|([A-Za-z][A-Za-z0-9]{1,31}));")
_JOINERS: Final = frozenset("\u200c\u200d")
_EMOJI_STYLE: Final = "\ufe0f"
_STYLES: Final = frozenset("\ufe0e\ufe0f")
_FORMS: Final = re.compile("[\ufe00-\ufe02\U000e0100-\U000e010f]")
"""Selectors of an ideograph's form. Only the few that fonts know, so that a message spelled with them stays short."""
_IDEOGRAPHS: Final = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]")
_TAGGED_FLAGS: Final = re.compile(
    "\U0001f3f4(?:"
    + "|".join("".join(chr(0xE0000 + ord(sign)) for sign in name) for name in ("gbeng", "gbsct", "gbwls"))
    + ")\U000e007f"
)
# Arabic to Thaana and N'Ko, the scripts of India, Sinhala, Tibetan, Myanmar, Khmer, Mongolian, and their extensions.
_JOINED_SCRIPTS: Final = re.compile("[\u0620-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\ua8e0-\ua8ff\uaa60-\uaa7f]")
_PICTURES: Final = re.compile(
    "[\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
)
_KEYCAPS: Final = frozenset(f"{key}\ufe0f\u20e3" for key in "0123456789#*")


def with_visible_codepoints(text: str) -> str:
    """Return a text with every invisible code point written as ‹U+XXXX›."""
    return _replace_invisible_runs(text, as_numbers)


def with_invisible_entities_decoded(text: str) -> str:
    """Return Markdown in which each entity of invisible code points is replaced by them, so that they can be judged."""
    return _ENTITY.sub(_invisible_of_entity, text)


def _invisible_of_entity(match: re.Match[str]) -> str:
    """Return what an entity stands for if some of it may be invisible, else the entity.

    https://spec.commonmark.org/0.31.2/#entity-and-numeric-character-references
    """
    hexadecimal, decimal, name = match.groups()
    code = int(hexadecimal, 16) if hexadecimal else int(decimal or 0)
    decoded = html5.get(f"{name};", "") if name else chr(code if code <= 0x10FFFF else 0xFFFD)
    return decoded if _SUSPECT.search(decoded) else match.group()


def with_printable_signs(text: str) -> str:
    """Return a text with every unprintable character written as ‹U+XXXX›."""
    return "".join(sign if sign.isprintable() else as_numbers(sign) for sign in text)


def without_invisible_runs(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a text without runs of invisible code points, and what was hidden.

    A run can spell something, so it is removed; a single one is written as ‹U+XXXX›. The second value has each code
    point or run as ‹U+XXXX›.
    """
    hidden: list[str] = []

    def keep(run: str) -> str:
        hidden.append(as_numbers(run))
        return hidden[-1] if len(run) == 1 else ""

    return _replace_invisible_runs(text, keep), tuple(hidden)


def is_blank(text: str) -> bool:
    return not _replace_invisible_runs(text, lambda _: "").strip()


def as_numbers(run: str) -> str:
    """Return each character of a text as ‹U+XXXX›."""
    return "".join(f"‹U+{ord(sign):04X}›" for sign in run)


def _replace_invisible_runs(text: str, replace: Callable[[str], str]) -> str:
    """Replace each run of invisible code points, except flags and what writing needs."""
    if not _SUSPECT.search(text):
        return text
    parts, run = list[str](), ""
    flags = {at for flag in _TAGGED_FLAGS.finditer(text) for at in range(*flag.span())}
    for at, sign in enumerate(text):
        if _SUSPECT.match(sign) and at not in flags and not _is_needed_by_writing(text, at):
            run += sign
            continue
        parts += [replace(run), sign] if run else [sign]
        run = ""
    return "".join([*parts, *([replace(run)] if run else [])])


def _is_needed_by_writing(text: str, at: int) -> bool:
    """Return whether writing needs the code point at this position."""
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if _FORMS.match(text[at]):
        return _IDEOGRAPHS.match(before) is not None
    if text[at] in _STYLES:
        return bool(_PICTURES.match(before)) or (text[at - 1 : at + 2] in _KEYCAPS)
    if text[at] not in _JOINERS:
        return _MARKS.match(text, at) is not None
    if _JOINED_SCRIPTS.match(before):
        return _SUSPECT.match(after) is None
    return text[at] == "\u200d" and _picture_before(text, at) and bool(_PICTURES.match(after))


def _picture_before(text: str, at: int) -> bool:
    """Return whether an emoji ends before this position, with or without its style selector."""
    before = text[at - 1 : at]
    if before == _EMOJI_STYLE:
        before = text[at - 2 : at - 1]
    return bool(_PICTURES.match(before)) and unicodedata.category(before) in {"So", "Sk"}


# --- Lookalikes of ASCII characters ----------------------------------------------------------------------------------
# They are shown as ‹U+XXXX› where people decide on a name or a command. What a word of another script needs stays. A
# character is marked where it stands in for a Latin letter, or for a sign that a shell or a package index reads
# (https://www.unicode.org/reports/tr39/).

_LETTERS: Final = frozenset(
    # Cyrillic
    "\u0430\u0441\u0435\u043e\u0440\u0445\u0443\u0456\u0458\u0455\u0501\u04bb\u051b\u051d\u04cf\u0475\u0433\u043f\u043a\u044c"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0406\u0408\u0405\u050c\u051a\u051c\u0474\u04c0"
    # Greek
    "\u03bf\u03b1\u03bd\u03c1\u03c5\u03b9\u03ba\u03b3\u03c9\u03c7\u03b7\u03c4\u03f2\u03f3"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    # Armenian, Cherokee
    "\u0585\u0578\u057d\u0570\u0581\u0566\u0563\u13a0\u13aa\u13ac\u13a1\u13bb\u13ab\u13aa\u13d4\u13b3\u13e2\u13da\u13df\u13d9"
    # Latin beyond ASCII
    "\u0131\u0237\u0251\u0261\u0269\u026a\u0280\u029c\u029f\u1d00\u1d04\u1d05\u1d07\u1d0a\u1d0b\u1d0d\u1d0f\u1d18\u1d1b\u1d1c\u1d20"
    "\u1d21\u1d22\ua730\ua731\u01c0"
)
_SIGNS: Final = re.compile(
    "[\u2010-\u2015\u2043\u02d7\u2212\u2044\u2215\u2571\u29f8\u2216\u29f9\u2024\u0589\u02d0\u02f8\u2236\ua789\u037e\u2223\u2502"
    "\u223c\u02dc\u2217\u204e\u02c4\u02c6\u201a]"
)
_WORD: Final = re.compile(r"[^\W\d_]+")


def mark_lookalikes(text: str) -> str:
    """Return a command with lookalikes of ASCII as ‹U+XXXX›.

    Letters are marked in words that have ASCII letters or consist of lookalikes only.
    """
    return "".join(map(_marked_sign, _WORD.sub(_marked_word, text)))


def mark_beyond_ascii(text: str) -> str:
    """Return a package name with every character beyond ASCII as ‹U+XXXX›. A marked text stays as it is."""
    return "".join(sign if sign.isascii() or sign in "‹›" else as_numbers(sign) for sign in text)


def _marked_word(match: re.Match[str]) -> str:
    word = match.group()
    if word.isascii() or not (any(map(str.isascii, word)) or _LETTERS.issuperset(word)):
        return word
    return "".join(as_numbers(sign) if sign in _LETTERS else sign for sign in word)


def _marked_sign(sign: str) -> str:
    """Return a sign, or its number if its compatible form is ASCII (wide, bold, raised) or it looks like ASCII."""
    is_other = not sign.isascii() and (unicodedata.normalize("NFKC", sign).isascii() or _SIGNS.match(sign))
    return as_numbers(sign) if is_other else sign
