"""The quoted thread: what the planner is shown of other people's text, and what was removed from it.

Anybody can write on a thread, so the size of each source decides what fits before any of it is parsed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bot.core.actor import Actor
from bot.core.markdown.visible import visible_title
from bot.github.readings import Readings
from bot.github.threads import Said, Thread

CONTEXT_LIMIT: Final = 30_000
"""Maximum characters of other people's text that a planner is shown, and that are parsed for it."""
LEFT_OUT: Final = "> (What does not fit is left out here.)"


@dataclass(frozen=True, slots=True)
class ThreadQuotes:
    """Quotes one thread for a bot with that name."""

    thread: Thread
    readings: Readings
    mention: str
    limit: int = CONTEXT_LIMIT

    def text(self) -> str:
        """Return everything that was said as people see it, quoted and attributed; the newest if not all fits."""
        entries = [entry or LEFT_OUT for _, entry in self._entries()]
        kept = [entry for at, entry in enumerate(entries) if entry != LEFT_OUT or entries[at - 1 : at] != [LEFT_OUT]]
        return "\n\n".join([f"> Title: {visible_title(self.thread.title).text}", *kept])

    def hidden_fragments(self, bot: Actor, *, but: str) -> tuple[str, ...]:
        """Return the invisible fragments of what is quoted, except the bot's and those of the item `but`."""
        quoted = [said for said, entry in self._entries() if entry]
        others = [said for said in quoted if said.actor.id != bot.id and said.key != but]
        about = self.thread.opened.actor.id != bot.id and but != self.thread.opened.key
        title = visible_title(self.thread.title).removed if about else ()
        return (*title, *(fragment for said in others for part in said.parts for fragment in self._hidden_parts(part)))

    def _entries(self) -> list[tuple[Said, str]]:
        """Return everything that was said, oldest first, each with its quotation, or "" if the quotation does not
        fit."""
        return list(self._newest_first())[::-1]

    def _newest_first(self) -> Iterator[tuple[Said, str]]:
        room = self.limit
        for said in reversed(self.thread.everything()):
            source = sum(map(len, said.parts))
            entry = self._quote(said) if source <= room else ""
            fits = len(entry) <= room
            if entry:  # a text that was parsed but does not fit uses up room as well
                room -= max(source, len(entry) if fits else 0) + 2
            yield said, entry if fits else ""

    def _quote(self, said: Said) -> str:
        body = "\n\n".join(self.readings.read(part, self.mention).shown.text for part in said.parts)
        head = f"@{said.actor.login} at {said.at:%Y-%m-%d %H:%M} UTC{', edited' if said.edited else ''}:"
        return "\n".join(f"> {line}".rstrip() for line in (head, *body.split("\n")))

    def _hidden_parts(self, part: str) -> tuple[str, ...]:
        return self.readings.read(part, self.mention).shown.removed
