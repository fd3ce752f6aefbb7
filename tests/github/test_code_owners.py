"""Who owns what a plan may change: read from the first CODEOWNERS there is, people and teams; nobody where it fails."""

import pytest

from bot.core.turn import Actor
from bot.github.client import GitHubClient
from bot.github.pace import WritePace
from bot.github.permissions import Roles, owner_ids
from bot.github.tokens import StaticToken
from bot.testing.github.credentials import personal_token
from tests.github.conftest import HOME, Ground

SCOPE = ("src/a.py",)


def everybody(ground: Ground) -> dict[str, Actor]:
    """Return some people who said yes."""
    return {login: Actor(ground.github.world.user(login).id, login) for login in ("ada", "mia", "will")}


async def found(ground: Ground, client: GitHubClient, *scope: str) -> list[str]:
    """Return the logins of those who own a scope."""
    people = everybody(ground)
    ids = await owner_ids(Roles(client, ground.address), "main", scope or SCOPE, people.values())
    return [login for login, actor in people.items() if actor.id in ids]


@pytest.mark.req("G4")
async def test_first_codeowners_file_counts_and_logins_ignore_case(ground: Ground) -> None:
    """.github/ comes before the top, and the top before docs/; logins are compared as GitHub compares them."""
    assert await found(ground, ground.client) == []
    for place, owner in (("docs/", "@will"), ("", "@Mia"), (".github/", "@ada @mia")):
        ground.person("ada").push(HOME, {f"{place}CODEOWNERS": f"* {owner}\n"})
        assert await found(ground, ground.client) == owner.lower().replace("@", "").split()


@pytest.mark.req("A3", "G4")
async def test_team_member_owns_and_nobody_does_while_the_team_cannot_be_read(ground: Ground) -> None:
    world = ground.github.world
    world.teams[world.user("acme").id, "core"] = frozenset({world.user("mia").id})
    ground.person("ada").push(HOME, {"CODEOWNERS": "* @acme/core\n"})
    urls, token = (ground.github.api_url, ground.github.graphql_url), personal_token(world, "ada")
    client = GitHubClient(*urls, StaticToken(lambda: token.value), ground.clock, WritePace(ground.clock))
    assert await found(ground, client) == ["mia"]
    ground.github.faults.fail("GET */memberships/*", 500, times=99)
    assert await found(ground, client) == []
    ground.person("ada").push(HOME, {"CODEOWNERS": "* @ada\n"})
    assert await found(ground, client) == ["ada"]
    ground.github.faults.fail("GET */contents/*", 500, times=99)
    assert await found(ground, client) == []


@pytest.mark.req("G4")
async def test_a_wildcard_rule_leaves_a_file_its_owner_but_not_a_folder(ground: Ground) -> None:
    rules = "* @ada\n*.sql @mia\n"
    ground.person("ada").push(HOME, {"CODEOWNERS": rules, "src/a.py": "1\n", "src/socket.io/b.sql": "2\n"})
    assert await found(ground, ground.client, "src/a.py") == ["ada"]
    assert await found(ground, ground.client, "src/socket.io") == []
    assert await found(ground, ground.client, "src/a.py", "src/new") == []
