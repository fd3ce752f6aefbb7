"""Commands on a thread: one line, ``@plangate COMMAND`` or ``/plangate COMMAND`` (interfaces.md).

The caller passes visible text only; quotes, code and headings are not commands (product.md, Turns).
"""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from bot.core.names import SHORT_DIGEST

_HEX = re.compile(r"[0-9a-fA-F]+")
_NUMBER = re.compile(r"\$?(\d{1,6}(?:\.\d{1,2})?)")


class Verb(StrEnum):
    """Every command there is."""

    APPROVE = "approve"
    REJECT = "reject"
    REVISE = "revise"
    STOP = "stop"
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
class Mistaken:
    """A line that looks like a command and is none, with the nearest one there is ("" for none)."""

    line: str
    nearest: str = ""


def parse(line: str, mention: str = "@plangate") -> Command | Mistaken | None:
    """Read one visible line: a command, a mistake to answer with "did you mean", or None for ordinary speech.

    One unknown word after the mention, or a known verb with an argument of the wrong form, is a mistake; a longer
    sentence is speech, because people talk to the bot in sentences.
    """
    words = _after_mention(line, mention)
    if not words:
        return None
    name, argument = words[0].lower(), " ".join(words[1:])
    if name not in set(Verb):
        nearest = get_close_matches(name, list(Verb), n=1, cutoff=0.6)
        return Mistaken(line.strip(), nearest[0] if nearest else "") if len(words) == 1 else None
    return _checked(Verb(name), argument, line)


def _after_mention(line: str, mention: str) -> list[str]:
    """Give the words after the mention, or none when the line does not begin with it."""
    words = line.split()
    called = {mention.lower(), "/" + mention.lstrip("@").lower()}
    return words[1:] if words and words[0].lower().rstrip(",:") in called else []


def _checked(verb: Verb, argument: str, line: str) -> Command | Mistaken | None:
    """Hold a command's argument against the form it must have."""
    match verb:
        case Verb.APPROVE if argument and not (_HEX.fullmatch(argument) and len(argument) >= SHORT_DIGEST):
            return Mistaken(line.strip(), "approve DIGEST (12 or more hex digits)")
        case Verb.BUDGET:
            amount = _NUMBER.fullmatch(argument)
            return Command(verb, amount.group(1)) if amount else Mistaken(line.strip(), "budget N (dollars)")
        case Verb.REVISE | Verb.MODE if not argument:
            return Mistaken(line.strip(), "revise HOW" if verb is Verb.REVISE else "mode NAME")
        case Verb.STOP | Verb.RETRY | Verb.STATUS | Verb.HELP if argument:
            return None
        case _:
            return Command(verb, argument)
