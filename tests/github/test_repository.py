"""Facts of a repository, tokens, roles: each from the place that GitHub documents."""

import json
import re
from functools import partial
from itertools import takewhile
from pathlib import Path

import jwt
import pytest

from bot.core.decision_evidence import ConfigurationChange
from bot.core.errors import Misconfigured, Refused
from bot.core.names import RepositoryId
from bot.core.turn import Actor, ActorKind, Role
from bot.github.app import APP_EVENTS, WantedApp
from bot.github.client import GitHubClient
from bot.github.deliveries import EVENTS as HEARD
from bot.github.pace import WritePace
from bot.github.permissions import Roles
from bot.github.repository import (
    Address,
    app_bot,
    file,
    installation_on,
    repository,
    repository_by_name,
    run_is_over,
    token_bot,
)
from bot.github.responses import Missing
from bot.github.tasks import newest_change
from bot.github.tokens import AppJwt, AppTokens, StaticToken
from bot.testing.github import credentials
from tests.github.conftest import HOME, ROLES, Ground
from tests.github.script import Reply, scripted


async def test_repository_is_read_by_one_request(ground: Ground) -> None:
    await ground.client.get("/rate_limit")
    before = len(ground.github.requests)
    found = await repository(ground.client, ground.address)
    assert len(ground.github.requests) - before == 1
    assert (found.id, found.address, found.default_branch, found.head) == (
        ground.repository,
        ground.address,
        "main",
        ground.head,
    )
    assert found.address.clone_url("https://ghe.example/") == "https://ghe.example/acme/pocket.git"
    with pytest.raises(Missing):
        await repository(ground.client, Address("acme", "nothing"))


def test_address_needs_exactly_one_owner_and_one_name() -> None:
    assert Address.parse("acme/pocket", where="--repo") == Address("acme", "pocket")
    for text in ("", "acme", "acme/", "/pocket", "acme/pocket/more"):
        with pytest.raises(Misconfigured, match=r"not a repository: .* \(--repo\): write OWNER/REPO"):
            Address.parse(text, where="--repo")


async def test_file_of_a_commit_comes_whole_or_is_none_or_refused(ground: Ground) -> None:
    client, at = ground.client, ground.address
    assert await file(client, at, "src/a.py", "main") == b"a = 1\n"
    assert await file(client, at, "src/none.py", "main") is None
    assert await file(client, at, "src", "main") is None
    small = (await repository_by_name(client, at)).kilobytes
    ground.person("ada").push(HOME, {"large.bin": b"x" * 1_100_000})
    with pytest.raises(Refused, match="larger"):
        await file(client, at, "large.bin", "main")
    assert small < (await repository_by_name(client, at)).kilobytes


async def test_run_is_over_only_if_github_says_so(ground: Ground) -> None:
    world = ground.github.world
    run = world.start_run(HOME, "schedule")
    urls = (ground.github.api_url, ground.github.graphql_url)

    def client(**permissions: str) -> GitHubClient:
        token = credentials.job_token(world, world.repository(HOME), permissions).value
        return GitHubClient(*urls, StaticToken(lambda: token), ground.clock, WritePace(ground.clock))

    ask = partial(run_is_over, client(actions="read"), ground.address)
    assert not await ask(str(run.id))
    world.end_run(run.id, "cancelled")
    assert await ask(str(run.id))
    assert await ask("1")
    assert not await run_is_over(client(contents="write"), ground.address, str(run.id))


async def test_app_machine_account_and_job_find_their_own_account(ground: Ground) -> None:
    assert await app_bot(ground.app, ground.client) == ground.bot
    world, urls = ground.github.world, (ground.github.api_url, ground.github.graphql_url)
    machine = credentials.personal_token(world, "machine").value
    client = GitHubClient(*urls, StaticToken(lambda: machine), ground.clock, WritePace(ground.clock))
    found = await token_bot(client)
    assert (found.login, found.kind) == ("machine", ActorKind.USER)
    job = credentials.job_token(world, world.repository(HOME)).value
    found = await token_bot(GitHubClient(*urls, StaticToken(lambda: job), ground.clock, WritePace(ground.clock)))
    assert (found.login, found.kind) == ("github-actions[bot]", ActorKind.BOT)


@pytest.mark.req("W4")
async def test_token_is_scoped_to_one_repository_and_renewed_five_minutes_early(ground: Ground) -> None:
    """One token serves many requests; five minutes before it ends another is made; it reaches one repository."""
    ground.github.world.add_repository("acme/other", {"a": "b"}, private=True)
    for _ in range(3):
        await ground.client.get(ground.address.path)
    assert len(ground.asked("POST /app/installations")) == 1
    with pytest.raises(Missing):
        await ground.client.get("/repos/acme/other")
    ground.clock.advance(56 * 60)
    await ground.client.get(ground.address.path)
    assert len(ground.asked("POST /app/installations")) == 2


async def test_revoked_token_is_replaced_after_a_401(ground: Ground) -> None:
    await ground.client.get(ground.address.path)
    ground.github.world.tokens.clear()
    await ground.client.get(ground.address.path)
    assert len(ground.asked("POST /app/installations")) == 2


async def test_app_jwt_lasts_at_most_ten_minutes(ground: Ground) -> None:
    """The JWT is issued a minute back and ends within ten minutes, by RS256; a key that is none says so."""
    app = ground.github.app
    token = await AppJwt(str(app.id), lambda: app.pem, ground.clock).token()
    options = {"verify_exp": False, "verify_iat": False}
    claims = jwt.decode(token, app.public_keys[0], algorithms=["RS256"], options=options)  # type: ignore[arg-type]
    now = ground.clock.now().timestamp()
    assert (claims["iat"], claims["iss"]) == (int(now) - 60, str(app.id))
    assert claims["exp"] <= now + 600
    with pytest.raises(Misconfigured, match="private key"):
        await AppJwt("1", lambda: "no key", ground.clock).token()


@pytest.mark.req("PR4")
async def test_no_token_or_key_stands_in_a_printed_object(ground: Ground) -> None:
    await ground.client.get(ground.address.path)
    tokens = ground.client.credentials
    assert isinstance(tokens, AppTokens)
    assert await tokens.token() not in repr(tokens)
    assert "PRIVATE" not in repr(tokens)
    assert "secret" not in repr(StaticToken(lambda: "secret"))


async def test_installation_of_a_repository_is_found(ground: Ground) -> None:
    (installed,) = ground.github.world.installations
    assert (await installation_on(ground.app, ground.address)).id == installed


@pytest.mark.req("A3")
async def test_roles_are_told_apart_and_looked_up_once_per_check(ground: Ground) -> None:
    roles = Roles(ground.client, ground.address)
    people = {login: person(ground, login) for login in (*ROLES, "stranger")}
    found = {login: await roles.of(actor) for login, actor in people.items()}
    assert found == {
        "ada": Role.ADMIN,
        "mia": Role.MAINTAIN,
        "will": Role.WRITE,
        "tom": Role.TRIAGE,
        "rea": Role.READ,
        "stranger": Role.READ,
    }
    before = len(ground.github.requests)
    await roles.of(people["mia"])
    assert len(ground.github.requests) == before


@pytest.mark.req("A2", "A3")
async def test_another_account_of_that_name_has_no_known_role(ground: Ground) -> None:
    """Logins are given away again: the number must be the one that was asked for."""
    roles = Roles(ground.client, ground.address)
    assert await roles.of(Actor(1, "ada")) is None
    assert await roles.of(Actor(2, "nobody-at-all")) is Role.NONE
    assert await roles.of(Actor(0, "ghost", ActorKind.GONE)) is Role.NONE


RIGHTS = ("pull", "triage", "push", "maintain", "admin")


@pytest.mark.req("A3")
@pytest.mark.parametrize(
    ("permission", "rights", "role"),
    (
        ("write", 4, Role.MAINTAIN),
        ("write", 3, Role.WRITE),
        ("read", 2, Role.TRIAGE),
        ("read", 1, Role.READ),
        ("admin", 5, Role.ADMIN),
        ("write", 0, Role.WRITE),
        ("write", 5, Role.WRITE),
        ("read", 4, Role.READ),
        ("none", 5, Role.NONE),
        ("owner", 5, None),
    ),
)
async def test_custom_role_is_worth_what_it_builds_on(permission: str, rights: int, role: Role | None) -> None:
    flags = {right: RIGHTS.index(right) < rights for right in RIGHTS}
    user = {"id": 7, "login": "kim", "permissions": flags, "role_name": "release manager"}
    answer = Reply(200, {"permission": permission, "role_name": "release manager", "user": user})
    with scripted(answer) as (client, _, _clock):
        assert await Roles(client, Address("acme", "pocket")).of(Actor(7, "kim")) is role


@pytest.mark.req("PR1")
async def test_people_with_the_role_or_a_higher_one_may(ground: Ground) -> None:
    roles = Roles(ground.client, ground.address)
    everybody, maintainers = await roles.accounts_with_role(Role.READ), await roles.accounts_with_role(Role.MAINTAIN)
    lower = {person(ground, login).id for login in ("will", "tom", "rea")}
    assert everybody is not None
    assert maintainers == everybody - lower
    assert lower < everybody
    ground.github.faults.fail("GET */collaborators*", 500, times=99)
    assert await roles.accounts_with_role(Role.ADMIN) is None


@pytest.mark.req("PR1")
async def test_people_who_may_by_name(ground: Ground) -> None:
    """Who is named by number may as well, a login is nobody's; where a team is named, not all are known."""
    plain = await Roles(ground.client, ground.address).accounts_with_role(Role.MAINTAIN)
    named = await Roles(ground.client, ground.address, users=(person(ground, "rea").id,)).accounts_with_role(
        Role.MAINTAIN
    )
    assert plain is not None
    assert named == plain | {person(ground, "rea").id}
    assert await Roles(ground.client, ground.address, users=("rea",)).accounts_with_role(Role.MAINTAIN) == plain
    assert await Roles(ground.client, ground.address, teams=("octo/core",)).accounts_with_role(Role.MAINTAIN) is None


@pytest.mark.req("A2")
async def test_people_named_by_number(ground: Ground) -> None:
    """A number is one account's, whatever it is called; whoever takes a login over that was given up is not meant."""
    rea = person(ground, "rea")
    roles = Roles(ground.client, ground.address, users=(rea.id,))
    assert await roles.is_listed(Actor(rea.id, "rea-by-another-name")) is True
    assert await roles.is_listed(Actor(rea.id + 1, "rea")) is False
    plain = await Roles(ground.client, ground.address).accounts_with_role(Role.MAINTAIN)
    assert plain is not None
    assert await roles.accounts_with_role(Role.MAINTAIN) == plain | {rea.id}


def person(ground: Ground, login: str) -> Actor:
    return Actor(ground.github.world.user(login).id, login)


def test_token_is_scoped_to_the_number_of_a_renamed_repository(ground: Ground) -> None:
    tokens = ground.client.credentials
    assert isinstance(tokens, AppTokens)
    assert tokens.repository == RepositoryId(ground.repository)


# Who brought in the newest version of the configuration: the person behind a standing approval (MT6)


PATH = ".github/plangate.yml"


async def newest(ground: Ground) -> ConfigurationChange | None:
    return await newest_change(ground.client, ground.address, PATH)


@pytest.mark.req("MT6", "RC1")
async def test_version_is_of_who_merged_its_pull_request_else_of_who_committed_it(ground: Ground) -> None:
    """Who merged its pull request, whoever wrote it; where there was none, who committed it. Other files do not count.

    Three requests find it.
    """
    assert await newest(ground) is None
    pushed = ground.person("ada").push(HOME, {PATH: "language: English\n"})
    found = await newest(ground)
    assert found is not None
    assert (found.commit, found.actor.login) == (pushed, "ada")
    pushed = ground.person("will").push(HOME, {PATH: "language: German\n"}, branch="german")
    pull = ground.person("will").open_pull(HOME, "German", head="german")
    found = await newest(ground)
    assert found is not None
    assert found.actor.login == "ada"  # it is only proposed
    ground.person("ada").merge(HOME, pull.number)
    ground.person("mia").push(HOME, {"README.md": "More.\n"})
    before = len(ground.github.requests)
    found = await newest(ground)
    assert found is not None
    assert (found.commit, found.actor.login) == (pushed, "ada")
    assert len(ground.github.requests) == before + 3


@pytest.mark.req("MT6", "RC1")
async def test_merge_to_another_branch_brings_nothing_in(ground: Ground) -> None:
    person = ground.person
    person("will").push(HOME, {PATH: "language: English\n"}, branch="topic")
    person("ada").push(HOME, {"README.md": "More.\n"}, branch="dev")
    collected = person("will").open_pull(HOME, "Collect", head="topic", base="dev")
    person("will").merge(HOME, collected.number)
    proposed = person("mia").open_pull(HOME, "Propose", head="dev")
    person("ada").merge(HOME, proposed.number)
    found = await newest(ground)
    assert found is not None
    assert found.actor.login == "ada"


# What an App asks for is what the documentation says that it needs


DOCS = Path(__file__).parents[2] / "docs"
NAMES = "contents|issues|pull_requests|metadata|actions|checks|members"


@pytest.mark.req("W4a")
def test_app_asks_for_the_permissions_that_the_docs_name() -> None:
    """The column of the App in docs/tokens.md: the strongest level that any row names."""
    lines = (DOCS / "tokens.md").read_text().splitlines()
    first_table = takewhile(bool, lines[lines.index(next(line for line in lines if line.startswith("| "))) :])
    rows = [row.split("|")[2] for row in first_table]
    told = [pair for row in rows for pair in re.findall(rf"\b({NAMES}): (read|write)", row)]
    documented = {name: "write" if (name, "write") in told else "read" for name, _ in told}
    assert WantedApp("a", "acme", "https://a/webhooks/github").permissions == documented
    of_a_person = WantedApp("a", "", "https://a/webhooks/github").permissions
    assert of_a_person == {name: level for name, level in documented.items() if name != "members"}


def test_app_asks_for_no_event_that_wakes_nobody() -> None:
    assert set(APP_EVENTS) < HEARD


def test_form_goes_to_the_own_server_for_a_person_or_an_organization() -> None:
    wanted = WantedApp("a", "acme", "https://a/webhooks/github")
    assert wanted.form_url("https://ghes", "s&1") == "https://ghes/organizations/acme/settings/apps/new?state=s%261"
    assert (
        WantedApp("a", "", wanted.webhook_url).form_url("https://ghes", "s") == "https://ghes/settings/apps/new?state=s"
    )
    manifest = json.loads(wanted.manifest("http://localhost:8000/setup/callback"))
    assert manifest["url"] == "https://a/"
    assert manifest["callback_urls"] == ["https://a/sign-in/callback", "http://localhost:8000/sign-in/callback"]
