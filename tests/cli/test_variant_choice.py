"""Which variant of the workflows `plangate init` writes, and what it says about that."""

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bot.cli.init import Ask, Choice, InitOptions, choose_variant, remaining_steps, write
from bot.cli.main import main
from bot.cli.workflow_variant import SWEEP, WORKFLOW, Variant, installed_version
from bot.compose.release import ProjectRemote, parse_origin
from bot.config.environment import settings_of_person
from bot.core.errors import Misconfigured, Transient
from bot.testing.github.credentials import personal_token
from bot.testing.github.simulated_github import SimulatedGitHub
from tests.rows import every_row

HOME = "acme/pocket"
NOTHING = InitOptions()
RELEASE = f"v{installed_version()}"


@pytest.fixture
def github(tmp_path: Path) -> Iterator[SimulatedGitHub]:
    with SimulatedGitHub(tmp_path / "github") as simulated:
        simulated.world.add_user("acme", "Organization")
        simulated.world.add_repository(HOME, {"README.md": "# Pocket\n"})
        simulated.world.set_role(HOME, "ada", "admin")
        yield simulated


def project(folder: Path, origin: str = "") -> Path:
    """Make a git repository with that remote."""
    made = folder / "project"
    subprocess.run(["git", "init", "-q", str(made)], check=True)
    if origin:
        subprocess.run(["git", "-C", str(made), "remote", "add", "origin", origin], check=True)
    return made


def chosen(
    folder: Path, options: InitOptions = NOTHING, ask: Ask | None = None, *, variables: Mapping[str, str] | None = None
) -> Choice:
    environment = {"HOME": str(folder), **(variables or {})}
    return choose_variant(folder, options, settings_of_person(environment), ask)


def on(github: SimulatedGitHub, login: str = "ada") -> dict[str, str]:
    """The variables of a person at that GitHub, with a token as `gh` has it."""
    token = personal_token(github.world, login, scopes=("repo", "user")).value
    return {"GITHUB_API_URL": github.api_url, "GITHUB_SERVER_URL": github.server_url, "GH_TOKEN": token}


@pytest.mark.parametrize(
    ("private", "plan", "place"),
    ((False, "free", "environment"), (True, "free", "repository"), (True, "team", "environment")),
)
def test_github_tells_whether_there_are_environments(
    tmp_path: Path, github: SimulatedGitHub, private: bool, plan: str, place: str
) -> None:
    """Private repositories on the Free plan have none; the risk of the other place is said."""
    github.world.change_repository(HOME, private=private)
    github.world.plans[github.world.user("acme").id] = plan
    choice = chosen(project(tmp_path, f"{github.server_url}/{HOME}.git"), variables=on(github))
    assert choice.variant.key_place == place
    assert ("whoever can push a branch" in " ".join(choice.reasons)) == (place == "repository")


def test_a_token_is_shown_to_its_own_server_alone(tmp_path: Path, github: SimulatedGitHub) -> None:
    """A project whose remote names another server does not learn the token, and its server is not asked."""
    with SimulatedGitHub(tmp_path / "other") as other:
        other.world.add_repository(HOME, {"README.md": "# Pocket\n"})
        choice = chosen(project(tmp_path, f"{other.server_url}/{HOME}.git"), variables=on(github))
        assert other.requests == github.requests == ()
    assert choice.variant.key_place == "environment"


def release(github: SimulatedGitHub) -> str:
    """Publish the release of this version with an annotated tag, and return its commit."""
    made = github.world.add_repository("plangate/plangate", {"action.yml": "name: Plangate\n"})
    bare = github.world.bare(made)
    commit = bare.refs()["refs/heads/main"]
    by = github.world.signature(made.owner).variables()
    bare.run("tag", "-a", "-m", "Release", RELEASE, commit, environment=by)
    bare.run("tag", "v9", commit)
    return commit


def test_an_organization_that_wants_commits(tmp_path: Path, github: SimulatedGitHub) -> None:
    """Where actions must be pinned, the commit of this version's release is named, not the id of its tag."""
    commit = release(github)
    github.world.set_settings(HOME, pinned=True)
    folder = project(tmp_path, f"{github.server_url}/{HOME}.git")
    choice = chosen(folder, variables=on(github))
    assert (choice.variant.tag, choice.variant.commit) == (RELEASE, commit)
    list(write(folder, choice.variant))
    assert f"uses: plangate/plangate@{commit} # {RELEASE}\n" in (folder / WORKFLOW).read_text()
    github.world.set_settings(HOME, pinned=False)
    assert (
        chosen(folder, variables=on(github)).variant.commit == commit
    )  # what is there stays, where nobody says otherwise
    assert chosen(folder, InitOptions(pin="v9"), variables=on(github)).variant.tag == "v9"


def test_a_release_that_cannot_be_found(tmp_path: Path, github: SimulatedGitHub) -> None:
    """One that does not exist is told with those that do; without a connection, that is said with what to do."""
    release(github)
    folder, server = project(tmp_path), github.server_url
    with pytest.raises(Misconfigured, match=f"no release v7.*--pin TAG .*{RELEASE}, v9"):
        chosen(folder, InitOptions(pin="v7", server=server))
    with pytest.raises(Transient, match="the release cannot be looked up") as caught:
        chosen(folder, InitOptions(pin="", server="http://127.0.0.1:9"))
    assert "do without a pin" in caught.value.fix
    assert not (folder / ".github").exists()


def test_another_server(tmp_path: Path) -> None:
    """The remote names it: keys that older servers do not know are left out, and the steps lead to its pages."""
    folder = project(tmp_path, "git@git.acme.example:acme/pocket.git")
    choice = chosen(folder)
    assert (choice.variant.server, choice.variant.runner) == ("https://git.acme.example", "self-hosted")
    list(write(folder, choice.variant))
    assert "queue" not in (folder / WORKFLOW).read_text()
    assert "GH_HOST: git.acme.example\n" in (folder / WORKFLOW).read_text()
    steps = remaining_steps(choice)
    assert all(f"{number}. " in steps[number - 1] for number in (1, 2, 3))
    assert "https://git.acme.example/acme/pocket/settings/environments/new" in steps[0]
    assert "GitHub Connect" in steps[3]
    server = "https://git.acme.example"
    assert f"GITHUB_SERVER_URL={server} GITHUB_API_URL={server}/api/v3 plangate doctor --repo acme/pocket" in steps[4]
    again = chosen(folder, InitOptions(runner="big"))
    assert (again.variant.server, again.variant.runner) == ("https://git.acme.example", "big")


@every_row(
    ("url", "found"),
    (
        ("https://user:token@github.com/o/r.git", ProjectRemote("https://github.com", "o/r")),
        ("git@github.com:o/r.git", ProjectRemote("https://github.com", "o/r")),
        ("git@github.com-work:o/r", ProjectRemote("https://github.com", "o/r")),
        ("ssh://git@ssh.github.com:443/o/r.git", ProjectRemote("https://github.com", "o/r")),
        ("ssh://git@git.acme.example/o/r/", ProjectRemote("https://git.acme.example", "o/r")),
        ("https://git.acme.example:8443/o/r", ProjectRemote("https://git.acme.example:8443", "o/r")),
        ("/srv/git/r.git", None),
        ("file:///srv/r", None),
        ("", None),
    ),
)
def test_where_a_remote_is(url: str, found: ProjectRemote | None) -> None:
    """Every form that git takes, without the credentials in it."""
    assert parse_origin(url) == found


@pytest.mark.parametrize(("yes", "place"), ((True, "repository"), (False, "environment")))
def test_a_person_is_asked_what_nobody_else_tells(tmp_path: Path, yes: bool, place: str) -> None:
    """Two questions without a token; none about what the command line says or what is there already."""
    asked: list[str] = []

    def ask(question: str) -> bool:
        asked.append(question)
        return yes and "Free plan" in question

    folder = project(tmp_path)
    choice = chosen(folder, ask=ask)
    assert (choice.variant.key_place, len(asked)) == (place, 2)
    list(write(folder, choice.variant))
    again = chosen(folder, InitOptions(account="acme-helper"), ask)
    assert (again.variant, len(asked)) == (Variant(account="acme-helper", key_place=place), 2)
    assert "PLANGATE_TOKEN, a token of acme-helper" in remaining_steps(again)[1]


@pytest.mark.parametrize(
    ("flag", "value"), (("--account", "a'b"), ("--server", "git.acme"), ("--runner", "a b"), ("--pin", "v1 # x"))
)
def test_what_cannot_stand_in_a_workflow(
    tmp_path: Path, flag: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written into YAML that is not a plain word."""
    folder = project(tmp_path)
    assert main(["init", str(folder), flag, value]) == 2
    assert flag in capsys.readouterr().err
    assert not (folder / SWEEP).exists()
