"""How to send a history again of which the service refuses one block for good (L9, M3, M9).

A refusal is read by what it points at (`messages.N.content.M`) and by the type of block that it names, never by its
sentence: thinking is left out, a picture becomes a note. A view only ever leaves out more, so a refusal is final if
nothing that it could be about is left.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from bot.agent.history.cutting import images, messages_since_answer, picture_digest
from bot.agent.model.failures import CallFailure
from bot.core.exchange import HistoryView
from bot.core.transcript import THINKING, Json
from bot.ports import Replay

_THINKING: Final = re.compile(r"\b(?:redacted_)?thinking\b")
_THINKING_BLOCK: Final = re.compile(rf"{_THINKING.pattern}\W{{1,2}}blocks?\b")
_PICTURE: Final = re.compile(r"\b(?:image|picture)s?\b", re.IGNORECASE)


def view_without_refused(
    failure: CallFailure, view: HistoryView, sent: Sequence[Json], *, drops: bool
) -> HistoryView | None:
    """Return the view that leaves out what a refusal is about; None if it is about something else, or nothing is left.

    `sent` are the messages as the service got them. `drops` says whether it can drop thinking by itself.
    """
    if not failure.is_lasting:
        return None
    blocks = _blocks_at(failure.place, sent)
    named = _THINKING if failure.place else _THINKING_BLOCK
    if named.search(failure.text) or any(block.get("type") in THINKING for block in blocks):
        replay = Replay.MATCHING if drops and view.thinking is Replay.WHOLE else Replay.NONE
        return replace(view, thinking=replay) if replay is not view.thinking else None
    if not (_PICTURE.search(failure.text) or any(block.get("type") == "image" for block in blocks)):
        return None
    # The service often does not say which picture: then it is one of those that it has not accepted before.
    for messages in ([{"content": blocks}], messages_since_answer(sent), sent):
        if pictures := {picture_digest(image) for image in images(messages)}:
            return replace(view, left_out=view.left_out | pictures)
    return None


def _blocks_at(place: Sequence[int], sent: Sequence[Json]) -> list[Json]:
    """Return the block at a place in a request; none if there is none."""
    blocks: list[Json] = list(sent[place[0] : place[0] + 1]) if place else []
    for at in place[1:]:
        content = blocks[0].get("content") if blocks else None
        blocks = content[at : at + 1] if isinstance(content, list) else []
    return blocks
