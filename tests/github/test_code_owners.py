"""Who owns what a plan may change: read from the first CODEOWNERS there is, people and teams; nobody where it fails."""

import pytest

from bot.core.approval import Reason
from bot.core.configuration import Approve, Configuration
from bot.core.turn import Actor
from bot.github.client import GitHubClient
from bot.github.pace import WritePace
from bot.github.permissions import Roles, owner_ids
from bot.github.tokens import StaticToken
from bot.testing.github.credentials import personal_token
from tests.github.conftest import HOME, Ground
from tests.github.shown import Shown

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


# Approvers who are one through a team: who is looked up, and what a look-up that fails means


@pytest.mark.req("A3")
@pytest.mark.parametrize(
    ("login", "status", "reasons"),
    (
        ("will", 502, [Reason.LOOKUP_FAILED]),
        ("will", 403, [Reason.TEAM_UNKNOWN, Reason.NOBODY]),
        ("will", 422, [Reason.TEAM_UNKNOWN, Reason.NOBODY]),
        ("will", 404, [Reason.ROLE_TOO_LOW, Reason.NOBODY]),
        ("mia", 502, []),
        ("mia", 403, []),
    ),
)
async def test_unreadable_team_spoils_no_word_of_who_has_the_role(
    ground: Ground, login: str, status: int, reasons: list[Reason]
) -> None:
    """It spoils nobody's word whose role suffices; of the others, what GitHub refuses to tell is told to the person,
    and what it fails to tell is looked up again."""
    shown = await Shown.on(ground)
    shown.dialogue.configuration = Configuration(approve=Approve(teams=["acme/core"]))
    ground.github.faults.fail("GET */memberships/*", status, times=99)
    ground.person(login).react(shown.comment, "+1")
    assert await shown.reasons() == reasons


@pytest.mark.req("A3", "E2")
async def test_teams_are_looked_up_once_and_only_for_who_decides(ground: Ground) -> None:
    shown = await Shown.on(ground)
    shown.dialogue.configuration = Configuration(approve=Approve(teams=["acme/core"]))
    for body in ("@plangate, who can approve this?", "> @plangate approve", "@plangate approve", "@plangate approve"):
        ground.person("tom" if "who" in body or ">" in body else "will").comment(HOME, shown.plan.thread, body)
    ground.person("rea").react(shown.comment, "+1")
    await shown.look()
    asked = [name.rpartition("/")[2] for name in ground.asked("GET /orgs/")]
    assert sorted(asked) == ["rea", "will"]
