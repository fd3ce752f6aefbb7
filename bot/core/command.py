"""How people address the bot: by a mention, or by a command.

A command is one line: ``@plangate COMMAND`` or ``/plangate COMMAND``, with or without a greeting. The caller passes
visible text only. Quotes, code, and headings are not commands.
"""

import re
import unicodedata
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from typing import Final

from bot.core.names import SHORT_DIGEST

_SIGNS: Final = ",:;，、。：；．､｡—–"
_BETWEEN: Final = rf"[\s{_SIGNS}.!！-]*"
_GREETINGS: Final = (
    rf"(?:(?:hi|hello|hey|dear|please|thanks|thank you|ok|okay|请|你好)(?![A-Za-z0-9_])[\s{_SIGNS}.!！]*)*"
)
"""Words that may stand before and after the mention. The list is closed: any other word makes the line a sentence."""
_VERB: Final = re.compile(rf"([A-Za-z]+)(?:([{_SIGNS}]|[!?！？]+|\.+(?=\s|\Z))\s*|\s+|\Z)(.*)", re.DOTALL)
"""A verb, the sign after it, and the rest of the line."""
_DOUBT: Final = re.compile(r"[?？]|\.\.")
_DECISION: Final = re.compile(r"(?<![\w./-])(?:approve[sd]?|reject(?:s|ed)?)(?![\w(/-]|\.\w)", re.IGNORECASE)
_ITEM_MARK: Final = re.compile(r"\A\s*(?:[-*+]|\d{1,9}[.)])\s+")
_DIGEST: Final = re.compile(rf"([0-9a-fA-F]{{{SHORT_DIGEST},}})[.!,，。！]?")
_NUMBER: Final = re.compile(r"\$?([0-9]{1,6}(?:\.[0-9]{1,2})?)[.!,，。！]?")
_AFTER: Final = {"now", "please", "thanks"}
"""Words that may follow a command without an argument, because people in a hurry do not look up the syntax."""
_AFTER_STOP: Final = {*_AFTER, "it", "this", "work"}
_INSTANT: Final = frozenset(",!.，。！—–")
"""Signs after which `stop` stops, whatever else the line says."""


_GOES_ON: Final = frozenset(_SIGNS) - frozenset("。．｡")
"""Signs after which a sentence goes on, such as on the next line."""


class Verb(StrEnum):
    """Every command that exists."""

    APPROVE = "approve"
    REJECT = "reject"
    REVISE = "revise"
    STOP = "stop"
    FINISH = "finish"
    RETRY = "retry"
    BUDGET = "budget"
    MODE = "mode"
    STATUS = "status"
    HELP = "help"


@dataclass(frozen=True, slots=True)
class Command:
    """A well-formed command with its argument ("" for none)."""

    verb: Verb
    argument: str = ""


@dataclass(frozen=True, slots=True)
class UnknownCommand:
    """A line that looks like a command but is not one, with the nearest command ("" for none)."""

    line: str
    nearest: str = ""


@lru_cache
def mention_pattern(mention: str | None = None) -> re.Pattern[str]:
    """Return a pattern for a mention as GitHub reads one: of that account, or of any account or team for None.

    Only an ASCII letter or digit before it makes it part of a word, such as an address. Text of other scripts may stand
    right before and after it. A longer name, a team, and a name with a domain are not that account. A configured name
    without an @, which GitHub does not know as a mention, stands by itself.
    """
    if mention is None:
        return re.compile(r"(?<![A-Za-z0-9])@[A-Za-z0-9][A-Za-z0-9_-]*(?:/[A-Za-z0-9_.-]+)?")
    before = "[A-Za-z0-9]" if mention.startswith("@") else r"[\w@/.-]"
    return re.compile(rf"(?<!{before}){re.escape(mention)}(?![A-Za-z0-9_/-]|\.+[A-Za-z0-9_])", re.IGNORECASE)


@lru_cache
def _address_pattern(mention: str) -> re.Pattern[str]:
    by_slash = mention_pattern("/" + mention.lstrip("@")).pattern
    name = rf"(?:{_GREETINGS}{mention_pattern(mention).pattern}|{by_slash})"
    return re.compile(rf"\s*{name}{_BETWEEN}(?:{_GREETINGS}(?=\S))?", re.IGNORECASE)


def text_to_bot(line: str, mention: str) -> str:
    """Return what a line says to the bot after its name and greetings; "" if it does not begin by addressing it."""
    address = _address_pattern(mention).match(line) if mention else None
    return line[address.end() :].strip() if address else ""


def without_item_mark(line: str) -> str:
    """Return a line without the mark of a list item."""
    return _ITEM_MARK.sub("", line, count=1)


def undecided_line(text: str) -> str:
    """Return the first line of a visible text that says "approve" or "reject", outside quotes and code; "" for none."""
    fence = ""
    for line in map(str.strip, text.split("\n")):
        if fence or line.startswith("```"):
            fence = "" if line == fence else fence or line[: len(line) - len(line.lstrip("`"))]
        elif not line.startswith((">", "#")) and _DECISION.search(re.sub("`[^`]+`", "", line)):
            return line
    return ""


def parse(line: str, mention: str = "@plangate") -> Command | UnknownCommand | None:
    """Return the command in one visible line, a mistake to answer with "did you mean", or None for ordinary speech.

    A mistake is one unknown word after the mention, a known verb with a malformed argument, `approve` or `reject` with
    a doubt, or a word similar to `approve` or `budget` before an argument that only that command takes. A longer
    sentence is speech, because people talk to the bot in sentences. So is a word of another script.
    """
    text = text_to_bot(line, mention)
    if not text:
        return None
    match = _VERB.match(text)
    name, sign, argument = match.groups("") if match else (text.split()[0], "", text.partition(" ")[2])
    name, argument = name.lower(), " ".join(argument.split())
    if name in set(Verb):
        return _validate_argument(Verb(name), sign, argument, line.strip())
    nearest = next(iter(get_close_matches(unicodedata.normalize("NFKC", name), list(Verb), n=1, cutoff=0.6)), "")
    is_only_word = not argument and name.isascii() and len(line.split()) <= len(("name", "word"))
    is_mistake = is_only_word or (_fits_only(nearest, argument) if argument else nearest) or _DECISION.match(text)
    return UnknownCommand(line.strip(), nearest) if is_mistake else None


def _fits_only(verb: str, argument: str) -> bool:
    """Return whether the argument fits only the command of that name."""
    if verb == Verb.APPROVE:
        return _DIGEST.fullmatch(argument) is not None
    return verb == Verb.BUDGET and _NUMBER.fullmatch(argument) is not None


def _validate_argument(verb: Verb, sign: str, argument: str, line: str) -> Command | UnknownCommand | None:
    """Return the command if its argument has the required form, else the mistake, or None for ordinary speech."""
    match verb:
        case Verb.APPROVE | Verb.REJECT if _DOUBT.search(sign) or (
            verb is Verb.APPROVE and not argument and sign in _GOES_ON
        ):
            return UnknownCommand(line, verb)
        case Verb.APPROVE if argument:
            digest, form = _DIGEST.fullmatch(argument), "approve DIGEST (12 or more hex digits)"
            return Command(verb, digest[1]) if digest else UnknownCommand(line, form)
        case Verb.BUDGET:
            amount = _NUMBER.fullmatch(argument)
            return Command(verb, amount[1]) if amount else UnknownCommand(line, "budget N (dollars)")
        case Verb.REVISE | Verb.MODE if not argument:
            return UnknownCommand(line, "revise HOW" if verb is Verb.REVISE else "mode NAME")
        case Verb.REJECT | Verb.REVISE:
            return Command(verb, re.sub(r"\A[-–—]+ ", "", argument))
        case Verb.APPROVE | Verb.MODE:
            return Command(verb, argument.rstrip(".!,，。！"))
        case Verb.STOP if sign and _INSTANT.issuperset(sign):
            return Command(verb)
        case _:
            words = re.findall(r"[^\s,.!，。！]+", argument.lower())
            return Command(verb) if (_AFTER_STOP if verb is Verb.STOP else _AFTER).issuperset(words) else None
