"""The journal's typed entries: `decode_event` reads the body of a stored one, and `core.codec.encode` writes it.

A key that this version does not know is kept in `unknown`, and an entry of an unknown kind is an `Unknown`: nothing
that a newer version wrote is lost.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final, TypeAlias, get_args

from bot.core.codec import MissingKeys, decode
from bot.core.errors import Broken, Refused
from bot.core.moves import Entry, MoveEvent
from bot.core.notes import Note, Unknown
from bot.core.transcript import Json

JournalEvent: TypeAlias = MoveEvent | Note
"""Every kind of journal entry; `kind` names it."""

_CLASSES: Final[dict[str, type[Any]]] = {cls.kind: cls for cls in get_args(JournalEvent) if cls is not Unknown}


def decode_event(kind: str, body: Json) -> JournalEvent:
    """Return the typed entry of a stored body; `Unknown` if its kind, or the format of its plan, is newer.

    Raises Broken if a key is missing that every version wrote, or has a value that no version wrote.
    """
    record = _CLASSES.get(kind)
    try:
        event: JournalEvent = decode(record, body) if record is not None else decode(Unknown, body, kind=kind)
        return event
    except Refused:  # a plan of another format: its entry still tells what it cost
        return decode(Unknown, body, kind=kind)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, MissingKeys) and error.record is record:
            raise Broken(f"a journal entry that is {kind} lacks {', '.join(error.keys)}") from None
        raise Broken(f"a journal entry that is {kind} has a value that this version cannot read") from error


def decode_entries(entries: Iterable[Entry]) -> Iterator[tuple[datetime, JournalEvent]]:
    """Return the typed entries of a stored journal, each with the time when it was journaled."""
    return ((entry.at, decode_event(entry.kind, entry.body)) for entry in entries)
