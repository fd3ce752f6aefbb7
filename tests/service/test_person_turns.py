"""Turns of people, posted with their own tokens on the simulated GitHub."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bot.compose.github import HostSetup
from bot.config.settings import GitHubSettings, Secret, Settings
from bot.core.errors import Transient
from bot.core.markdown.visible import mentions
from bot.service.person_turns import (
    DENIAL_SECONDS,
    MOST_BAD_TOKENS,
    MOST_REFUSALS,
    PersonTurns,
    TurnFault,
    TurnLedger,
    TurnOrder,
    TurnRefused,
)
from bot.testing.github.credentials import install, personal_token
from bot.testing.github.person import Person
from bot.testing.github.simulated_github import SimulatedGitHub
from tests.service.ground import HandClock
from tests.stories.github.clocks import QuickClock

HOME, ELSEWHERE = "acme/shop", "zoe/secret"
PEOPLE = {"ada": "admin", "wen": "write", "rea": "read"}


@pytest.fixture
def github(tmp_path: Path) -> Iterator[SimulatedGitHub]:
    """A private repository with people of some roles; zoe has one of her own, where the App is not installed."""
    with SimulatedGitHub(tmp_path / "github", clock=QuickClock()) as github:
        world = github.world
        world.add_user("acme", "Organization")
        for login in (*PEOPLE, "zoe"):
            world.add_user(login)
        world.add_repository(HOME, {"README.md": "# Shop\n"}, private=True)
        world.add_repository(ELSEWHERE, {"README.md": "# Mine\n"}, private=True)
        for login, role in PEOPLE.items():
            world.set_role(HOME, login, role)
        install(world, github.app, "acme")
        Person(world, world.user("ada").id).open_issue(HOME, "Broken", "It is broken.")
        yield github


@pytest.fixture
async def turns(github: SimulatedGitHub, tmp_path: Path) -> AsyncIterator[PersonTurns]:
    given = Settings(
        data_dir=tmp_path / "data",
        api_key=Secret("sk-none"),
        github=GitHubSettings(
            api_url=github.api_url,
            graphql_url=github.graphql_url,
            server_url=github.server_url,
            app_id=str(github.app.id),
            private_key=Secret(github.app.pem),
            write_pause=0,
        ),
    )
    async with HostSetup(given, clock=QuickClock()) as host:
        yield PersonTurns(host, TurnLedger(tmp_path / "turns"), host.clock)


def order(github: SimulatedGitHub, login: str, text: str = "Please look.", **other: str) -> TurnOrder:
    given = {"repository": HOME, "key": "k1", "token": personal_token(github.world, login).value} | other
    return TurnOrder(given["repository"], 1, text, given["key"], given["token"])


def comments(github: SimulatedGitHub) -> list[tuple[str, str]]:
    world = github.world
    return [(world.users[each.author].login, each.text.body) for each in world.comments.values()]


async def fault_of(turns: PersonTurns, given: TurnOrder) -> TurnFault:
    with pytest.raises(TurnRefused) as error:
        await turns.post(given)
    return error.value.fault


async def test_a_turn_is_the_persons_own_comment(github: SimulatedGitHub, turns: PersonTurns) -> None:
    """The person is its author, and the bot is addressed; a text that mentions it stays as it is."""
    posted = await turns.post(order(github, "wen"))
    await turns.post(order(github, "wen", "Hey @plangate, go on.", key="k2"))
    await turns.post(order(github, "wen", "/plangate status", key="k3"))
    texts = ["@plangate Please look.", "Hey @plangate, go on.", "/plangate status"]
    assert comments(github) == [("wen", text) for text in texts]
    assert posted.author == "wen"
    assert posted.url.startswith(f"{github.server_url}/{HOME}/issues/1#issuecomment-")


@pytest.mark.parametrize(
    "text",
    (
        "please ask @plangate-ops about this",
        "write to me@plangate.example",
        "`@plangate` is the name; do it",
        "> @plangate said so\n\nfix it",
    ),
)
async def test_a_name_that_addresses_nobody(github: SimulatedGitHub, turns: PersonTurns, text: str) -> None:
    """A text that has the bot's name where a check of the thread hears no mention is addressed to it as well."""
    assert not mentions(text, "@plangate")
    await turns.post(order(github, "wen", text))
    assert comments(github) == [("wen", f"@plangate {text}")]
    assert mentions(comments(github)[0][1], "@plangate")


async def test_a_key_posts_once(github: SimulatedGitHub, turns: PersonTurns) -> None:
    """The same key posts once for a person; another person's key is another one; it never stands for another text."""
    first = await turns.post(order(github, "wen"))
    assert await turns.post(order(github, "wen")) == first
    assert await fault_of(turns, order(github, "wen", "Something else.")) is TurnFault.KEY_REUSED
    await turns.post(order(github, "ada"))
    assert [login for login, _ in comments(github)] == ["wen", "ada"]


@pytest.mark.req("E1")
async def test_an_answer_that_was_lost(github: SimulatedGitHub, turns: PersonTurns) -> None:
    """The comment was made, but nobody heard so: the same key finds it instead of posting it again."""
    github.faults.fail("POST /repos/*/issues/1/comments", 502, done=True)
    with pytest.raises(Transient):
        await turns.post(order(github, "wen"))
    assert len(comments(github)) == 1
    posted = await turns.post(order(github, "wen"))
    assert len(comments(github)) == 1
    assert posted.url


async def test_two_at_once(github: SimulatedGitHub, turns: PersonTurns) -> None:
    """While a turn is being posted, its key is held."""
    person = github.world.user("wen").id
    repository = github.world.repository(HOME).id
    with turns.ledger.hold(f"{person}/{repository}/1/k1"):
        assert await fault_of(turns, order(github, "wen")) is TurnFault.IN_PROGRESS
    assert (await turns.post(order(github, "wen"))).author == "wen"


@pytest.mark.req("W5")
async def test_who_may_not_see_a_repository_learns_nothing(github: SimulatedGitHub, turns: PersonTurns) -> None:
    """Hidden, unserved, and unknown repositories have one answer."""
    found = []
    for name in (HOME, "acme/nothing", ELSEWHERE):
        with pytest.raises(TurnRefused) as error:
            await turns.post(order(github, "zoe", repository=name))
        found.append((error.value.fault, error.value.what, error.value.fix))
    assert len(set(found)) == 1
    assert found[0][0] is TurnFault.NOT_VISIBLE
    assert comments(github) == []


async def test_who_may_only_read_does_not_ask(github: SimulatedGitHub, turns: PersonTurns) -> None:
    """They see the repository, so they are told why nothing is posted."""
    assert await fault_of(turns, order(github, "rea")) is TurnFault.NOT_ALLOWED
    assert comments(github) == []


@pytest.mark.parametrize("token", ("", "x", "ghs_0123456789abcdef", "ghr_0123456789abcdef", "ghp_0123456789 abc"))
async def test_other_tokens_are_not_even_tried(github: SimulatedGitHub, turns: PersonTurns, token: str) -> None:
    """What cannot be a person's token is refused without asking GitHub."""
    before = len(github.requests)
    assert await fault_of(turns, order(github, "wen", token=token)) is TurnFault.NOT_SIGNED_IN
    assert len(github.requests) == before


async def test_too_many_bad_tokens(github: SimulatedGitHub, turns: PersonTurns) -> None:
    """After some refused tokens, only those that were good before are tried: nobody makes GitHub bar us."""
    good = order(github, "wen")
    await turns.post(good)
    bad = order(github, "wen", token="ghp_" + "0" * 36, key="k2")
    for _ in range(MOST_BAD_TOKENS):
        assert await fault_of(turns, bad) is TurnFault.NOT_SIGNED_IN
    before = len(github.requests)
    assert await fault_of(turns, bad) is TurnFault.TOO_MANY
    assert await fault_of(turns, order(github, "ada")) is TurnFault.TOO_MANY
    assert len(github.requests) == before
    assert (await turns.post(good)).author == "wen"


@pytest.mark.req("W1b")
async def test_the_installation_is_asked_about_a_refused_person_once_a_minute(
    github: SimulatedGitHub, turns: PersonTurns
) -> None:
    limited = PersonTurns(turns.host, turns.ledger, clock := HandClock())
    for _ in range(3):
        assert await fault_of(limited, order(github, "rea")) is TurnFault.NOT_ALLOWED
    assert asked_of_the_installation(github) == 1
    clock.turn(DENIAL_SECONDS)
    assert await fault_of(limited, order(github, "rea")) is TurnFault.NOT_ALLOWED
    assert asked_of_the_installation(github) == 2


@pytest.mark.long
@pytest.mark.req("W1b")
async def test_refused_turns_of_one_person_ask_the_installation_a_few_times(
    github: SimulatedGitHub, turns: PersonTurns
) -> None:
    """One after the other, many at once, and minute by minute. Who may speak is not affected."""
    limited = PersonTurns(turns.host, turns.ledger, clock := HandClock())
    github.world.add_repository("acme/open", {"README.md": "# Open\n"})
    refused, allowed = order(github, "rea"), order(github, "wen")
    await limited.post(allowed)
    assert await fault_of(limited, refused) is TurnFault.NOT_ALLOWED
    clock.turn(DENIAL_SECONDS)
    found = await asyncio.gather(*(fault_of(limited, refused) for _ in range(MOST_REFUSALS)))
    assert set(found) <= {TurnFault.NOT_ALLOWED, TurnFault.TOO_MANY}
    for _ in range(MOST_REFUSALS - 2):
        clock.turn(DENIAL_SECONDS)
        assert await fault_of(limited, refused) in {TurnFault.NOT_ALLOWED, TurnFault.TOO_MANY}
    assert await fault_of(limited, order(github, "rea", repository="acme/open")) is TurnFault.TOO_MANY
    assert asked_of_the_installation(github) == 1 + MOST_REFUSALS
    assert (await limited.post(allowed)).author == "wen"


@pytest.mark.long
@pytest.mark.req("W1b")
async def test_questions_without_an_answer_are_limited_for_who_was_never_allowed(
    github: SimulatedGitHub, turns: PersonTurns
) -> None:
    """While GitHub fails for the installation, a stranger does not make it ask without end. Who may speak tries on."""
    limited = PersonTurns(turns.host, turns.ledger, HandClock())
    await limited.post(order(github, "wen"))
    github.faults.fail("GET /repos/*/installation", 502, times=10_000)
    for _ in range(MOST_REFUSALS):
        for login in ("rea", "wen"):
            with pytest.raises(Transient):
                await limited.post(order(github, login, key="k2"))
    asked = asked_of_the_installation(github)
    assert await fault_of(limited, order(github, "rea")) is TurnFault.TOO_MANY
    assert asked_of_the_installation(github) == asked
    github.faults.clear()
    assert (await limited.post(order(github, "wen", key="k2"))).author == "wen"


@pytest.mark.req("W1b")
async def test_who_sees_no_repository_asks_nothing_of_the_installation(
    github: SimulatedGitHub, turns: PersonTurns
) -> None:
    assert await fault_of(turns, order(github, "zoe")) is TurnFault.NOT_VISIBLE
    assert asked_of_the_installation(github) == 0


def asked_of_the_installation(github: SimulatedGitHub) -> int:
    """Count how often the service asked what somebody may do in a repository."""
    return sum(each.path.endswith("/installation") for each in github.requests)


async def test_a_missing_issue(github: SimulatedGitHub, turns: PersonTurns) -> None:
    """An issue that does not exist is as hidden as any."""
    given = order(github, "wen")
    there_is_none = TurnOrder(given.repository, 99, given.text, given.key, given.token)
    assert await fault_of(turns, there_is_none) is TurnFault.NOT_VISIBLE


def test_a_half_written_record(tmp_path: Path) -> None:
    """It counts as never begun: the comment is only posted after the record is on disk."""
    ledger = TurnLedger(tmp_path)
    with ledger.hold("here") as record:
        assert record is not None
        record.finish("https://x/1")
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:10])
    with ledger.hold("here") as record:
        assert record is not None
        assert (record.digest, record.began, record.url) == ("", None, "")
