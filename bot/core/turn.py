"""What people say to the bot: who they are, one turn, the commands in it, and texts that hold others' words (A6)."""

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import Final

from bot.core.codepoints import with_visible_codepoints
from bot.core.names import SHORT_DIGEST
from bot.core.transcript import Json

# --- GitHub accounts: their kind and role ----------------------------------------------------------------------------


class Role(IntEnum):
    """A person's role on the repository, lowest first (GitHub's role_name; a custom role counts as its base role)."""

    NONE = 0
    READ = 1
    TRIAGE = 2
    WRITE = 3
    MAINTAIN = 4
    ADMIN = 5
    NOBODY = 6
    """Above every real role. A setting that requires it admits only accounts that are listed by name."""


class ActorKind(StrEnum):
    """The kind of account that acted. Only a user can approve (A2)."""

    USER = "user"
    BOT = "bot"
    MANNEQUIN = "mannequin"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Actor:
    """A GitHub account, matched by numeric id, never by login (A2)."""

    id: int
    login: str
    kind: ActorKind = ActorKind.USER

    def noreply(self, host: str) -> str:
        """Return the noreply address by which a GitHub server attributes commits to this account.

        https://docs.github.com/en/account-and-profile/reference/email-addresses-reference
        """
        return f"{self.id}+{self.login}@users.noreply.{host}"

    def is_listed_in(self, people: Collection[str | int]) -> bool:
        """Return whether a list names this account by its numeric id.

        A login in it names nobody: anybody can register one that its owner gave up (A7).
        """
        return self.id in people


# --- A turn and its pictures -----------------------------------------------------------------------------------------


class Acknowledgment(StrEnum):
    """The bot's immediate answer to a turn: a reaction to it."""

    SEEN = "seen"
    """👀: received, an answer will follow (PR3)."""
    MAY_NOT = "may_not"
    """😕: this person may not ask. The bot adds no explanation."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one person asked, as people see it. `key` is the same for every delivery of the same turn."""

    key: str
    actor: Actor
    text: str
    """Visible text: what a person sees, without hidden parts (X1)."""
    at: datetime
    role: Role | None = Role.ADMIN
    """The actor's role on the repository, looked up live; None when the look-up failed."""
    listed: bool = False
    """Whether the actor is named in approve.users or is in a team of approve.teams."""
    edited: bool = False
    """Whether the comment was ever edited. An edited comment is not a command (A4a)."""
    foreign: bool = False
    """Whether the words may be another person's: they or their title were edited, a label points at them, or they were
    sent by mail."""
    by_mail: bool = False
    """Whether it was sent by mail. Then it may ask, stop, and reject, and nothing else (A6)."""
    mark: bool = False
    """Whether nothing was said: a label was set or the bot was assigned."""
    aside: bool = False
    """Whether this is no turn after all. It is journaled only so that it is not judged again."""
    strangers: bool = False
    """Whether the planner reads words of people on the thread who have no rights here, or that a mail may quote."""
    editors: tuple[int, ...] = ()
    """Numeric ids of other people who may have written the words: those who edited them or renamed the thread, and the
    author that a label points at."""
    hidden: tuple[str, ...] = ()
    waits: str | None = None
    """Time (ISO 8601) of the oldest turn that still waited when this one was taken in; turns from then on are read
    again. "" if none waits any longer, None if there is nothing to report."""
    version: str = ""
    """Key of the text's current version. Another edit makes another version."""


def version_key(key: str, edited_at: datetime | None = None) -> str:
    """Return the key of a text's version: that of its last edit, or the text as posted (`ThreadPost.version`)."""
    return f"{key}@{edited_at.isoformat() if edited_at else ''}"


@dataclass(frozen=True, slots=True)
class PostedComment:
    """Where a plan or question is shown: the id for looking it up and its page URL, "" if there is no page."""

    id: str
    url: str = ""
    at: datetime | None = None
    """When it was posted, by GitHub's clock or the terminal's."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: where it is, and its image block, or why there is none."""

    label: str
    """Our words: who attached it to what."""
    alt: str = ""
    """Its alternative text, written by somebody who may ask."""
    image: Json | None = None
    why: str = ""
    """Why it is not shown."""
    foreign: bool = False
    """Whether people who may not ask may have attached it."""


# --- How people address the bot: by a mention, or by a command -------------------------------------------------------
# A command is one line: ``@plangate COMMAND`` or ``/plangate COMMAND``, with or without a greeting. The caller passes
# visible text only. Quotes, code, and headings are not commands.

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


# --- Replies by mail: the part that is surely the author's (A6) ------------------------------------------------------
# Mail clients put the original text under the reply, mostly without a mark, and GitHub stores both as the words of the
# person who replied. GitHub shows such a text as plain text. No sign is common to all clients, so only the first line
# is surely the author's, and some clients go on in that line: ``Stop.Ann LeeOn Jan 30, 2023, at 1:52 AM, Bo Ray
# wrote:``.
#
# Rules
# - Only a first line that begins with the mention, or with a greeting and the mention, addresses the bot. Whatever
#   follows counts as other people's words.
# - A command that the client's own words follow without a space is that command alone.
# - A new verb does not count by mail until it is listed in VERBS.

VERBS: Final = frozenset({Verb.REJECT, Verb.REVISE, Verb.STOP, Verb.STATUS, Verb.HELP})
"""The commands that count by mail: they ask, reject, or stop."""
MAIL_NOTE: Final = (
    "(Sent by mail: parts of this may be other people's words. The rest of the mail is left out here; the thread shows "
    "it.)"
)
_END: Final = re.compile("[.!！]")
"""The end of a sentence: what follows in the line may be the mail program's own words."""
_RUN_ON: Final = re.compile(rf"((?i:{'|'.join(Verb)})(?: (?:it|now|please|this|work))?)[.!?]*(?=[^\W\d_a-z])")


def first_line(text: str) -> str:
    """Return the first line of a text, which is blank if the text begins with a blank line."""
    return next(iter(text.splitlines()), "")


def addressing_line(text: str, mention: str) -> str:
    """Return the first line of a text sent by mail if it begins with the mention, else ""."""
    line = with_visible_codepoints(first_line(text)).strip()
    greeting = re.split(rf"/|{re.escape(mention)}", line, maxsplit=1, flags=re.IGNORECASE)[0]
    said = text_to_bot(line, mention)
    if not (said or line.lower() == mention.lower()) or _END.search(greeting):
        return ""
    run_on = _RUN_ON.match(said)
    return f"{mention} {run_on[1]}" if run_on else line


def counts_by_mail(command: Command | UnknownCommand) -> bool:
    return isinstance(command, Command) and command.verb in VERBS


# --- Texts that quote other people without marking it ----------------------------------------------------------------
# "Reference in new issue" and "Create issue from discussion" make the person who clicks the author of the whole text.
# https://docs.github.com/en/issues/tracking-your-work-with-issues/using-issues/creating-an-issue

_ORIGIN: Final = re.compile(
    r"(?<![A-Za-z])Originally posted by (?:@|\*\*)|<div type=['\"]discussions-op-text", re.IGNORECASE
)


def is_repost(text: str) -> bool:
    """Return whether a text says that somebody posted it, or a part of it, elsewhere before."""
    return _ORIGIN.search(text) is not None
