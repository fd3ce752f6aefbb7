"""Which roles a configuration lets in, to ask and to approve."""

import pytest

from bot.compose.parts import policy_of, work_settings
from bot.config.environment import configuration
from bot.core.actor import Actor, Role

ROLES = list(Role)[:-1]
ANN = Actor(7, "Ann")


@pytest.mark.req("A3")
@pytest.mark.parametrize(
    ("roles", "lowest"),
    (("[triage]", Role.TRIAGE), ("[admin, write]", Role.WRITE), ("[maintain]", Role.MAINTAIN), ("[]", Role.NOBODY)),
)
def test_the_lowest_role_of_a_list_and_all_above_it_may_ask(roles: str, lowest: Role) -> None:
    """An admin is not locked out by a list that names triage; an empty one leaves it to those who are named."""
    keys = configuration(f"ask:\n  roles: {roles}\n  users: [Bea]\n")
    orders = work_settings(keys)
    assert [role for role in (None, *ROLES) if orders.may_ask(ANN, role)] == [role for role in ROLES if role >= lowest]
    assert orders.may_ask(Actor(8, "bea"), Role.NONE)


@pytest.mark.req("A3")
@pytest.mark.parametrize(
    ("roles", "lowest"), (("[write]", Role.WRITE), ("[admin, maintain]", Role.MAINTAIN), ("[]", Role.NOBODY))
)
def test_the_lowest_role_of_a_list_approves(roles: str, lowest: Role) -> None:
    """Approving reads its list as asking does."""
    assert policy_of(configuration(f"approve:\n  roles: {roles}\n"), 0).role is lowest
