"""Copies of records: the same as those of `dataclasses.replace`."""

import dataclasses

import pytest

from bot.core.fast_replace import replace
from bot.core.gate import Stage, Thread
from bot.core.thread_state import ThreadState


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """A record that looks at its fields."""

    one: int
    two: int = 2

    def __post_init__(self) -> None:
        assert self.one < self.two


def test_a_copy_is_that_of_dataclasses() -> None:
    """Some fields are others, the rest is the same object, and the record stays as it was."""
    state = ThreadState(position=3, seen=frozenset({"a"}), session_costs={"s": 1.0})
    before = dataclasses.replace(state)
    changes = {"position": 4, "thread": Thread(stage=Stage.DONE), "cost_usd": 2.0}
    for some in ({}, {"position": 4}, changes):
        made = replace(state, **some)
        assert made == dataclasses.replace(state, **some)
        assert (type(made), made is state) == (ThreadState, False)
        assert made.session_costs is state.session_costs
    assert state == before


def test_a_copy_is_frozen() -> None:
    """It cannot be changed, and has no field that the record lacks."""
    made = replace(ThreadState(), position=4)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.position = 5  # type: ignore[misc]
    with pytest.raises(KeyError, match="positoin"):
        replace(made, positoin=4)  # type: ignore[call-arg]


def test_what_a_record_checks_is_never_skipped() -> None:
    """A record that looks at its fields when it is made is not copied."""
    with pytest.raises(TypeError, match="Checked has __post_init__"):
        replace(Checked(1), two=3)
