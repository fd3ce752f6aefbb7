"""What doctor finds about GitHub and about the database, each with its cure."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from bot.cli.doctor import _database
from bot.compose.checkup import SCOPE, UNASSIGNABLE, USEFUL_SCOPES, Finding, check_github
from bot.config.settings import GitHubSettings, Secret, Settings
from bot.core.errors import Misconfigured, Refused
from bot.service.connections import READING_MEMBERS, READING_RUNS, WORKING, missing_permissions
from bot.store.postgres.database import Database
from bot.store.postgres.migrations import migrate
from bot.testing.github import credentials
from bot.testing.github.simulated_github import SimulatedGitHub
from tests.postgres import Server, running_server

HOME = "acme/pocket"


@pytest.fixture
def github(tmp_path: Path) -> Iterator[SimulatedGitHub]:
    with SimulatedGitHub(tmp_path) as simulated:
        simulated.world.add_user("acme", "Organization")
        simulated.world.add_repository(HOME, {"README.md": "# Pocket\n"})
        yield simulated


async def checked(github: SimulatedGitHub, hook: str = "h00k", *, fix: bool = False, **given: str) -> list[Finding]:
    """What is found with these credentials."""
    known = {name: Secret(text) for name, text in given.items() if name != "app_id"}
    reached = GitHubSettings(github.api_url, github.graphql_url, github.server_url, webhook_secret=Secret(hook))
    where = replace(reached, app_id=given.get("app_id", ""), **known)  # type: ignore[arg-type]  # by name
    return list(await check_github(Settings(github=where), fix=fix))


async def as_app(github: SimulatedGitHub, hook: str = "h00k") -> list[Finding]:
    return await checked(github, hook, app_id=str(github.app.id), private_key=github.app.pem)


async def as_account(github: SimulatedGitHub, login: str) -> list[Finding]:
    return await checked(github, token=credentials.personal_token(github.world, login).value)


def bad(found: list[Finding]) -> list[str]:
    return [each.what for each in found if each.cure and not each.optional]


async def test_an_app_that_has_all_it_needs(github: SimulatedGitHub) -> None:
    """Its name, each installation, and the secret; nothing to fix."""
    credentials.install(github.world, github.app, "acme")
    found = await as_app(github)
    assert bad(found) == []
    assert [each.what for each in found] == [
        "GitHub: the App plangate",
        f"GitHub: on acme the App has the permissions it needs; {UNASSIGNABLE}",
        "GitHub: no label plangate in acme/pocket",
        "webhook secret: set",
    ]


@pytest.mark.req("W4")
async def test_permissions_that_were_not_granted(github: SimulatedGitHub) -> None:
    """Each one that is missing or too low is named, with the page where it is given."""
    made = credentials.install(github.world, github.app, "acme")
    low = {"metadata": "read", "contents": "read", "issues": "write"}
    github.world.installations[made.id] = replace(made, permissions=low)
    found = await as_app(github)
    assert bad(found) == ["GitHub: on acme the App lacks contents: write, pull_requests: write"]
    assert f"{github.server_url}/" in found[1].cure


@pytest.mark.req("RC6")
async def test_an_app_that_creates_no_check_runs(github: SimulatedGitHub) -> None:
    """It works as ever; what it lacks is named with the page where it is given, and is no failure."""
    made = credentials.install(github.world, github.app, "acme")
    github.world.installations[made.id] = replace(made, permissions={**made.permissions, "checks": "read"})
    found = await as_app(github)
    (lacks,) = [each for each in found if "Plan approved" in each.what]
    assert "lacks checks: write" in lacks.what
    assert (lacks.optional, f"{github.server_url}/" in lacks.cure) == (True, True)


async def test_a_suspended_installation_and_none(github: SimulatedGitHub) -> None:
    """Both say where to fix it."""
    assert bad(await as_app(github)) == ["GitHub: the App is installed nowhere"]
    credentials.suspend(github.world, credentials.install(github.world, github.app, "acme"))
    assert bad(await as_app(github)) == ["GitHub: on acme the App is suspended"]


async def test_without_a_webhook_secret(github: SimulatedGitHub) -> None:
    """The variable is named."""
    credentials.install(github.world, github.app, "acme")
    found = await as_app(github, hook="")
    assert bad(found) == ["webhook secret: not set"]
    assert "PLANGATE_WEBHOOK_SECRET" in found[-1].cure


async def test_a_machine_account(github: SimulatedGitHub) -> None:
    """One that was given a role and owns nothing is fine."""
    github.world.set_role(HOME, "acme-bot", "write")
    found = await as_account(github, "acme-bot")
    assert bad(found) == []
    assert [each.what for each in found] == [
        "GitHub: the account acme-bot",
        "GitHub: without the scope read:org teams cannot be looked up (approve.teams, CODEOWNERS)",
        "GitHub: acme-bot can push to 1 repositories, and be assigned to their issues",
        "GitHub: no label plangate in acme/pocket",
        "webhook secret: set",
    ]


@pytest.mark.parametrize(
    ("scopes", "told"),
    (
        ((), ["GitHub: the token lacks the scope repo"]),
        (("workflow", "read:org"), ["GitHub: the token lacks the scope repo"]),
        (("repo", "workflow", "read:org"), []),
    ),
)
async def test_the_scopes_of_a_classic_token(github: SimulatedGitHub, scopes: tuple[str, ...], told: list[str]) -> None:
    """The one that it needs is demanded, others are offered; a token that has all is told nothing."""
    github.world.set_role(HOME, "acme-bot", "write")
    token = credentials.personal_token(github.world, "acme-bot", scopes=scopes).value
    found = await checked(github, token=token)
    assert [each.what for each in found if "scope" in each.what] == told
    assert bad(found)[: len(told)] == told


@pytest.mark.parametrize("app", (True, False))
async def test_the_label(github: SimulatedGitHub, *, app: bool) -> None:
    """Where there is none that is said, with how to make it; `doctor --fix` makes it, once."""
    github.world.set_role(HOME, "acme-bot", "write")
    credentials.install(github.world, github.app, "acme")
    token = credentials.personal_token(github.world, "acme-bot").value

    async def look(*, fix: bool = False) -> list[Finding]:
        if app:
            return await checked(github, fix=fix, app_id=str(github.app.id), private_key=github.app.pem)
        return await checked(github, fix=fix, token=token)

    (told,) = (each for each in await look() if "label plangate in" in each.what)
    assert told.optional
    assert "plangate doctor --fix" in told.cure
    assert "plangate" not in github.world.labels[github.world.repository(HOME).id]
    for _ in range(2):
        found = await look(fix=True)
        assert "GitHub: the label plangate is there" in [each.what for each in found]
    assert "plangate" in github.world.labels[github.world.repository(HOME).id]
    made = [logged for logged in github.requests if logged.name == f"POST /repos/{HOME}/labels"]
    assert len(made) == 1


def test_the_table_of_tokens() -> None:
    """What the documentation lists for each kind of token is what is looked at."""
    rows = (Path(__file__).parents[2] / "docs" / "tokens.md").read_text().splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if row.startswith("|")]
    app, classic = ([row[column] for row in cells] for column in (1, 4))
    for name, level in {**WORKING, **READING_RUNS, **READING_MEMBERS}.items():
        assert any(cell.startswith(f"{name}: {level}") for cell in app), name
    for scope in (SCOPE, *USEFUL_SCOPES):
        assert any(f"`{scope}`" in cell for cell in classic), scope


@pytest.mark.parametrize("role", ("read", None))
async def test_an_account_that_can_push_nowhere(github: SimulatedGitHub, role: str | None) -> None:
    """A role that only reads is not enough."""
    github.world.add_user("acme-bot")
    if role:
        github.world.set_role(HOME, "acme-bot", role)
    assert bad(await as_account(github, "acme-bot")) == ["GitHub: acme-bot can push nowhere"]


async def test_a_persons_own_account(github: SimulatedGitHub) -> None:
    """Whoever owns what would be worked on is refused, with the reason: the bot does not hear its own account."""
    github.world.set_role(HOME, "ada", "write")
    github.world.add_repository("ada/notes", {"README.md": "# Notes\n"})
    found = await as_account(github, "ada")
    assert bad(found) == ["GitHub: ada is a person's own account: it owns ada/notes"]
    assert "never hears" in found[0].cure


def signing(github: SimulatedGitHub, key: Path | None = None, **credentials: str) -> Settings:
    """The settings of an account or App that serves a repository whose rules want signed commits."""
    github.world.change_repository(HOME, signed=True)
    given = GitHubSettings(github.api_url, github.graphql_url, github.server_url, webhook_secret=Secret("h00k"))
    known = {name: Secret(text) if name != "app_id" else text for name, text in credentials.items()}
    return Settings(github=replace(given, **known), signing_key=key)  # type: ignore[arg-type]  # by name


@pytest.mark.req("G3")
async def test_rules_that_want_signed_commits(github: SimulatedGitHub, tmp_path: Path) -> None:
    """An account needs a signing key and is told so; with one that is what signs."""
    github.world.set_role(HOME, "acme-bot", "write")
    token = credentials.personal_token(github.world, "acme-bot").value
    (told,) = (each for each in await check_github(signing(github, token=token)) if "signed commits" in each.what)
    assert told.what == "GitHub: acme/pocket requires signed commits"
    assert "PLANGATE_SIGNING_KEY_PATH" in told.cure
    found = await check_github(signing(github, tmp_path / "key", token=token))
    assert [each.what for each in found if "signed commits" in each.what] == [f"{told.what}: they are signed"]


@pytest.mark.req("G3")
async def test_an_app_cannot_sign(github: SimulatedGitHub, tmp_path: Path) -> None:
    """GitHub takes no signing key of an App: the cure is another one."""
    credentials.install(github.world, github.app, "acme")
    app = {"app_id": str(github.app.id), "private_key": github.app.pem}
    (told,) = (
        each for each in await check_github(signing(github, tmp_path / "key", **app)) if "signed commits" in each.what
    )
    assert told.what == "GitHub: acme/pocket requires signed commits, and an App has no signing key"
    assert "let the App bypass its ruleset" in told.cure


async def test_credentials_that_github_does_not_take(github: SimulatedGitHub) -> None:
    """A wrong token and a text that is no key are told as what they are."""
    with pytest.raises(Refused, match="refused the token"):
        await checked(github, token="ghp_nonsense")
    with pytest.raises(Misconfigured, match="private key"):
        await checked(github, app_id="1", private_key="nonsense")


async def test_an_app_without_its_key_and_no_credentials(github: SimulatedGitHub) -> None:
    """Half of an App is a mistake; no credentials at all are none, and nothing is asked."""
    assert bad(await checked(github, app_id="1")) == ["GitHub: an App without its key"]
    assert await checked(github) == []
    assert github.requests == ()


@pytest.mark.parametrize("name", sorted(WORKING))
def test_every_needed_permission_is_looked_at(name: str) -> None:
    """More than is needed is enough; one that is missing, or of a word that nobody knows, is not."""
    assert missing_permissions({**WORKING, name: "admin"}) == ()
    assert missing_permissions({each: level for each, level in WORKING.items() if each != name}) == (
        f"{name}: {WORKING[name]}",
    )
    assert missing_permissions({**WORKING, name: "whatever"}) == (f"{name}: {WORKING[name]}",)


OWNER = "nobody"
OURS = sorted(each.name for each in (resources.files("bot.store.postgres") / "sql").iterdir())


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Server]:
    """A server of which the doctor has nothing to say: it syncs what it commits."""
    shared = None if worker_id == "master" else tmp_path_factory.getbasetemp().parent
    with running_server(is_durable=True, shared=shared) as server:
        yield server


def found(url: str) -> list[Finding]:
    """Return what the doctor finds about a database."""
    return list(_database(Settings(database=Secret(url))))


def faults(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(each.what, each.cure) for each in findings if not each.good]


async def execute(url: str, *statements: str, migrated: bool = True) -> None:
    """Migrate a database, and run some statements in it."""
    async with Database(url).open() as database:
        if migrated:
            await migrate(database)
        for each in statements:
            await database.rows(each)


def test_none_is_set() -> None:
    """Then there is nothing to say."""
    assert found("") == []


async def test_all_is_well(database_url: str) -> None:
    """The server, its database, and the account are named; the password is not."""
    await execute(database_url)
    server, tables = await in_thread(database_url)
    assert server.good
    assert server.what.endswith(f"database {database_url.rpartition('/')[2]}, account {OWNER}")
    assert (tables.good, tables.what) == (True, "database: has the tables of this release, with all privileges")


async def test_before_migrate(database_url: str) -> None:
    """An empty database, or one of the release before."""
    ((what, cure),) = faults(await in_thread(database_url))
    needed = [name for name in OURS if "_post_" not in name]
    assert (what, cure) == (f"database: lacks {', '.join(needed)}", "run plangate migrate")
    newest = needed[-1]
    await execute(database_url, f"DELETE FROM plangate_migrations WHERE name = '{newest}'")  # noqa: S608
    assert faults(await in_thread(database_url)) == [(f"database: lacks {newest}", "run plangate migrate")]


async def test_after_a_newer_migrate(database_url: str) -> None:
    """Newer migrations do no harm; what waits for old workers is no failure."""
    late = next(name for name in OURS if "_post_" in name)
    statements = ("INSERT INTO plangate_migrations VALUES ('9999_next.sql')",)
    delete = f"DELETE FROM plangate_migrations WHERE name = '{late}'"  # noqa: S608
    await execute(database_url, *statements, delete)
    findings = await in_thread(database_url)
    assert [(each.what, each.optional) for each in findings if not each.good] == [(f"database: {late} waits", True)]


async def test_an_account_without_privileges(postgres: Server, database_url: str) -> None:
    """What it lacks is named, before anything fails because of it."""
    name = database_url.rpartition("/")[2]
    url = database_url.replace(f"{OWNER}@", f"guest_{name}@")
    await execute(database_url, f"CREATE ROLE guest_{name} LOGIN", migrated=False)
    ((what, cure),) = faults(await in_thread(url))
    assert what == f"database: the account guest_{name} may not create tables"
    assert cure == f"as the owner of the database: GRANT CREATE ON SCHEMA public TO guest_{name}"
    await execute(database_url, f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest_{name}")
    ((what, cure),) = faults(await in_thread(url))
    assert what.startswith(f"database: the account guest_{name} lacks DELETE on plangate_bookings, INSERT on")
    assert f"run plangate migrate as guest_{name}, or GRANT" in cure
    everything = "GRANT ALL ON ALL {} IN SCHEMA public TO guest_" + name
    await execute(database_url, everything.format("TABLES"), everything.format("SEQUENCES"))
    assert faults(await in_thread(url)) == []


@pytest.mark.parametrize(
    ("url", "reason"),
    (
        ("postgresql://somebody:hidden@127.0.0.1:9/away", "Connection refused"),
        ("postgresql://nobody:hidden@127.0.0.1:{port}/none", 'database "none" does not exist'),
        ("postgresql://stranger:hidden@127.0.0.1:{port}/postgres", 'role "stranger" does not exist'),
        ("postgresql://somebody:hidden@no-such-host.invalid/away", "no-such-host.invalid"),
    ),
)
async def test_no_connection(postgres: Server, url: str, reason: str) -> None:
    """The server's own reason, or the system's, without the password, and what to check."""
    (only,) = await in_thread(url.format(port=postgres.port))
    assert (only.good, only.exit_code) == (False, 5)
    assert reason in only.what
    assert "PLANGATE_DATABASE_URL" in only.cure
    assert "hidden" not in only.what + only.cure


def test_not_a_url() -> None:
    """Refused with what to write."""
    pytest.importorskip("psycopg")
    (only,) = found("somewhere")
    assert (only.what, only.exit_code) == ("database: not the URL of a PostgreSQL database", 2)
    assert only.cure == "write postgresql://user:password@host/database"


async def in_thread(url: str) -> list[Finding]:
    """Return what the doctor finds, which runs an event loop of its own."""
    return await asyncio.to_thread(found, url)
