"""Characters that look like ASCII but are not, shown as ‹U+XXXX› where people decide on a name or a command.

What a word of another script needs stays. A character is marked where it stands in for a Latin letter, or for a sign
that a shell or a package index reads (https://www.unicode.org/reports/tr39/).
"""

import re
import unicodedata
from typing import Final

from bot.core.codepoints import as_numbers

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
