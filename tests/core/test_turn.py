"""A turn: one thing that a person said."""

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime

import pytest

from bot.core.turn import Actor, Turn


def test_turn_cannot_be_changed() -> None:
    """What a person said stays what was said."""
    turn = Turn("comment-5", Actor(1, "ana"), "Fix it.", datetime(2026, 11, 20, tzinfo=UTC))
    with pytest.raises(FrozenInstanceError):
        turn.text = "Break it."  # type: ignore[misc]
    assert turn.text == "Fix it."
