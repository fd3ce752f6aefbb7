"""A table in one test says as much about a failure as one test a row."""

import inspect

import pytest

from tests.rows import every_row


def test_every_row_that_fails_is_told() -> None:
    """It goes on after a failure; each error names its row."""

    @every_row("number", range(4))
    def hold_even(number: int) -> None:
        assert number % 2 == 0

    with pytest.raises(ExceptionGroup, match="rows that fail") as raised:
        hold_even()
    assert [error.__notes__ for error in raised.value.exceptions] == [["row: {'number': 1}"], ["row: {'number': 3}"]]


def test_what_should_have_been_raised_is_missed() -> None:
    """pytest's own failures are no Exceptions, and count as well."""

    @every_row("text", ("1", "one"))
    def refuse(text: str) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            int(text)

    with pytest.raises(BaseExceptionGroup) as raised:
        refuse()
    assert [error.__notes__ for error in raised.value.exceptions] == [["row: {'text': '1'}"]]


def test_tables_are_multiplied_beside_fixtures() -> None:
    """Two tables make every pair, and pytest is asked for the other parameters alone."""
    seen = []

    @every_row(("one", "two"), ((1, 2), (3, 4)))
    @every_row("letter", "ab")
    def note(one: int, two: int, letter: str, tmp_path: str) -> None:
        seen.append((one, two, letter, tmp_path))

    assert [*inspect.signature(note).parameters] == ["tmp_path"]
    note(tmp_path="here")
    assert seen == [(1, 2, "a", "here"), (1, 2, "b", "here"), (3, 4, "a", "here"), (3, 4, "b", "here")]


async def test_coroutines_are_awaited() -> None:
    """A row of a coroutine function fails where it is awaited."""

    @every_row("number", (1, 2))
    async def hold_one(number: int) -> None:
        assert number == 1

    waiting = hold_one()
    assert waiting is not None
    with pytest.raises(ExceptionGroup) as raised:
        await waiting
    assert [error.__notes__ for error in raised.value.exceptions] == [["row: {'number': 2}"]]
