"""Commands on a thread: one line, ``@plangate COMMAND`` or ``/plangate COMMAND``.

The caller passes visible text only. Quotes, code, and headings are not commands.
"""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from bot.core.names import SHORT_DIGEST

_DIGEST = re.compile(rf"[0-9a-fA-F]{{{SHORT_DIGEST},}}")
_AFTER_STOP = {"it", "now", "please", "this", "work"}
"""Words that may follow `stop`, because people in a hurry do not look up the syntax."""
_AFTER_FINISH = {"now", "please"}
"""Words that may follow `finish`; others name work that somebody wants to have finished."""
_NUMBER = re.compile(r"\$?(\d{1,6}(?:\.\d{1,2})?)")


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


def parse(line: str, mention: str = "@plangate") -> Command | UnknownCommand | None:
    """Return the command in one visible line, a mistake to answer with "did you mean", or None for ordinary speech.

    A mistake is one unknown word after the mention, a known verb with a malformed argument, or a word similar to
    `approve` or `budget` before an argument that only that command takes. A longer sentence is speech, because people
    talk to the bot in sentences.
    """
    words = _after_mention(line, mention)
    if not words:
        return None
    name, argument = _name(words[0]), " ".join(words[1:])
    if name in set(Verb):
        return _validate_argument(Verb(name), argument, line)
    nearest = next(iter(get_close_matches(name, list(Verb), n=1, cutoff=0.6)), "")
    return UnknownCommand(line.strip(), nearest) if not argument or _fits_only(nearest, argument) else None


def _name(word: str) -> str:
    """Return the name of a command in lower case, without punctuation after one that stands alone (`stop!`)."""
    bare = word.lower().rstrip(".!?")
    return bare if bare in {Verb.STOP, Verb.FINISH, Verb.RETRY, Verb.STATUS, Verb.HELP} else word.lower()


def _fits_only(verb: str, argument: str) -> bool:
    """Return whether the argument fits only the command of that name."""
    if verb == Verb.APPROVE:
        return _DIGEST.fullmatch(argument) is not None
    return verb == Verb.BUDGET and _NUMBER.fullmatch(argument) is not None


def _after_mention(line: str, mention: str) -> list[str]:
    """Return the words after the mention; no words if the line does not begin with it, or if there is no mention."""
    if not mention:
        return []
    words = line.split()
    names = {mention.lower(), "/" + mention.lstrip("@").lower()}
    return words[1:] if words and words[0].lower().rstrip(",:") in names else []


def _validate_argument(verb: Verb, argument: str, line: str) -> Command | UnknownCommand | None:
    """Return the command if its argument has the required form, else the mistake, or None for ordinary speech."""
    match verb:
        case Verb.APPROVE if argument and not _DIGEST.fullmatch(argument):
            return UnknownCommand(line.strip(), "approve DIGEST (12 or more hex digits)")
        case Verb.BUDGET:
            amount = _NUMBER.fullmatch(argument)
            return Command(verb, amount.group(1)) if amount else UnknownCommand(line.strip(), "budget N (dollars)")
        case Verb.REVISE | Verb.MODE if not argument:
            return UnknownCommand(line.strip(), "revise HOW" if verb is Verb.REVISE else "mode NAME")
        case Verb.STOP if argument.lower().rstrip(".!") in _AFTER_STOP:
            return Command(verb)
        case Verb.FINISH if argument.lower().rstrip(".!") in _AFTER_FINISH:
            return Command(verb)
        case Verb.STOP | Verb.FINISH | Verb.RETRY | Verb.STATUS | Verb.HELP if argument:
            return None
        case _:
            return Command(verb, argument)
