"""Who is meant by a list of people in the configuration."""

import pytest

from bot.core.turn import Actor


@pytest.mark.req("A2", "A7")
@pytest.mark.parametrize(
    ("people", "meant"),
    (((), False), (("ann",), False), (("ben",), False), ((7,), True), ((8, "7"), False), ((8, "ANN"), False)),
)
def test_among(people: tuple[str | int, ...], meant: bool) -> None:
    """An account is named by its number alone; digits in quotes are a login."""
    assert Actor(7, "ann").is_listed_in(people) is meant
