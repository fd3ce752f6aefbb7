"""Replies by mail: which part of a text that reached GitHub by mail its author surely wrote (A6).

Mail clients put the original text under the reply, mostly without a mark, and GitHub stores both as the words of the
person who replied. GitHub shows such a text as plain text. No sign is common to all clients, so only the first line is
surely the author's, and some clients go on in that line: ``Stop.Ann LeeOn Jan 30, 2023, at 1:52 AM, Bo Ray wrote:``.

Rules
- Only a first line that begins with the mention, or with a greeting and the mention, addresses the bot. Whatever
  follows counts as other people's words.
- A command that the client's own words follow without a space is that command alone.
- A new verb does not count by mail until it is listed in VERBS.
"""

import re
from typing import Final

from bot.core.codepoints import with_visible_codepoints
from bot.core.command import Command, UnknownCommand, Verb, text_to_bot

VERBS: Final = frozenset({Verb.REJECT, Verb.REVISE, Verb.STOP, Verb.STATUS, Verb.HELP})
"""The commands that count by mail: they ask, reject, or stop."""
NOTE: Final = (
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
    """Return whether a command counts if it was sent by mail."""
    return isinstance(command, Command) and command.verb in VERBS
