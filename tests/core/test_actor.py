"""Who is meant by a list of people in the configuration."""

import pytest

from bot.core.turn import Actor, ActorKind, Askers, Role


@pytest.mark.req("A2", "A7")
@pytest.mark.parametrize(
    ("people", "meant"),
    (((), False), (("ann",), False), (("ben",), False), ((7,), True), ((8, "7"), False), ((8, "ANN"), False)),
)
def test_among(people: tuple[str | int, ...], meant: bool) -> None:
    """An account is named by its number alone; digits in quotes are a login."""
    assert Actor(7, "ann").is_listed_in(people) is meant


@pytest.mark.parametrize(
    ("actor", "role", "may"),
    (
        (Actor(7, "ada"), Role.WRITE, True),
        (Actor(7, "ada"), Role.READ, False),
        (Actor(7, "ada"), None, False),
        (Actor(8, "bo"), None, True),
        (Actor(9, "helper[bot]", ActorKind.BOT), None, True),
        (Actor(8, "other[bot]", ActorKind.BOT), Role.ADMIN, False),
    ),
)
def test_who_may_ask_is_decided_by_role_or_id_and_for_bots_by_id_alone(
    actor: Actor, role: Role | None, may: bool
) -> None:
    assert Askers(users=frozenset({8}), bots=frozenset({9})).may_ask(actor, role) is may
