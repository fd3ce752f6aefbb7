"""Pictures that people attached, as content blocks of a session's first message (K9).

Where a text has a picture, people's words have "(picture)". The pictures follow the words, in the same order.
"""

from collections.abc import Sequence

from bot.agent.history.escaping import as_data
from bot.core.picture import Picture
from bot.core.transcript import Json


def picture_blocks(pictures: Sequence[Picture]) -> list[Json]:
    """Return a line for each picture, and the picture itself or why it is not shown."""
    blocks: list[Json] = []
    for number, picture in enumerate(pictures, start=1):
        alt = f", alternative text: {picture.alt}" if picture.alt else ""
        shown = ":" if picture.image else f" (picture, not shown: {picture.why})"
        blocks.append({"type": "text", "text": as_data(f"Picture {number}, {picture.label}{alt}{shown}")})
        blocks += [picture.image] if picture.image else []
    return blocks
