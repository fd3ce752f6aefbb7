"""What `plangate doctor --repo` finds in one repository, with the cure of each thing and the address of its page."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.cli.doctor import repository_findings
from bot.cli.workflow_variant import SHIPPED, SWEEP, WORKFLOW, Variant, workflow_text
from bot.compose.checkup import Finding
from bot.config.environment import settings_of_person
from bot.core.errors import Misconfigured
from bot.github.tasks import OPEN_LABEL
from bot.testing.github import credentials
from bot.testing.github.entities import EnvironmentSettings, RulesetSettings
from bot.testing.github.person import Person
from bot.testing.github.simulated_github import SimulatedGitHub

HOME = "acme/pocket"
HELD = {"plangate": EnvironmentSettings(frozenset({"ANTHROPIC_API_KEY"}), limited=True)}


@pytest.fixture
def github(tmp_path: Path) -> Iterator[SimulatedGitHub]:
    """A repository where all is as it should be; ada administers it."""
    with SimulatedGitHub(tmp_path / "github") as simulated:
        world = simulated.world
        world.add_user("acme", "Organization")
        world.add_repository(HOME, {name: workflow_text(name=name) for name in SHIPPED})
        world.set_role(HOME, "ada", "admin")
        for name in SHIPPED:
            world.add_workflow(HOME, name.rpartition("/")[2])
        for label in (OPEN_LABEL, "plangate"):
            world.add_label(world.repository(HOME), label)
        world.set_settings(HOME, actions_open_pulls=True, environments=HELD)
        yield simulated


async def checked(
    github: SimulatedGitHub, login: str = "ada", *, fix: bool = False, given: dict[str, str] | None = None
) -> list[Finding]:
    token = credentials.personal_token(github.world, login, scopes=("repo", "user")).value
    where = {"GITHUB_API_URL": github.api_url, "GITHUB_SERVER_URL": github.server_url, "HOME": "/nowhere"}
    where["PLANGATE_WRITE_PAUSE_SECONDS"] = "0"
    return await repository_findings(settings_of_person(where | (given or {"GH_TOKEN": token})), HOME, fix=fix)


def failures(found: list[Finding]) -> list[str]:
    return [each.what for each in found if not each.good and not each.optional]


def attention(found: list[Finding]) -> list[str]:
    return [each.what for each in found if not each.good and each.optional]


async def test_a_repository_that_is_set_up(github: SimulatedGitHub) -> None:
    """One line for each thing, all good."""
    found = await checked(github)
    assert (failures(found), attention(found)) == ([], [])
    assert [each.what.partition(": ")[0] for each in found] == [
        "repository",
        "minutes",
        "Actions",
        "pull requests of Actions",
        "environment plangate",
        "secret ANTHROPIC_API_KEY",
        "rules for branches plangate/**",
        "refs/plangate",
        "people in the configuration",
        "label plangate: open".partition(": ")[0],
        "label plangate",
        "workflow plangate.yml",
        "workflow plangate-sweep.yml",
        "workflow",
    ]


WRONG: dict[str, tuple[dict[str, object], str, str]] = {
    "Actions are off": ({"actions": False}, "Actions: disabled", "settings/actions"),
    "actions must be pinned": ({"pinned": True}, "Actions: must be named by the full id of a commit", "--pin"),
    "no pull requests": ({"actions_open_pulls": False}, "pull requests of Actions: not allowed", "settings/actions"),
    "no environment": ({"environments": {}}, "environment plangate: not there", "settings/environments"),
    "a reviewed environment": (
        {"environments": {"plangate": replace(HELD["plangate"], reviewed=True)}},
        "environment plangate: holds every job back",
        "settings/environments",
    ),
    "no secret": (
        {"environments": {"plangate": EnvironmentSettings(limited=True)}, "secrets": frozenset({"ANTHROPIC_API_KEY"})},
        "secret ANTHROPIC_API_KEY: not there",
        "settings/environments",
    ),
    "branches that nobody may create": (
        {"rulesets": (RulesetSettings("all", ("creation", "pull_request")),)},
        "rules for branches plangate/**: refuse creating them, pushing to them without a pull request",
        "/rules",
    ),
    "signed commits": (
        {"rulesets": (RulesetSettings("all", ("required_signatures",)),)},
        "rules for branches plangate/**: refuse pushing unsigned commits",
        "/rules",
    ),
}


@pytest.mark.parametrize("name", WRONG)
async def test_what_keeps_the_bot_from_working(github: SimulatedGitHub, name: str) -> None:
    """Each is a failure of its own, with the page where it is changed."""
    settings, said, page = WRONG[name]
    github.world.set_settings(HOME, **settings)
    found = await checked(github)
    (failure,) = failures(found)
    assert failure.startswith(said)
    (cure,) = (each.cure for each in found if each.what == failure)
    assert page in cure
    assert f"{github.server_url}/{HOME}" in cure


async def test_what_needs_attention(github: SimulatedGitHub) -> None:
    """What may be meant so, or may not matter, is told, and is no failure."""
    world = github.world
    world.set_settings(
        HOME,
        allowed_actions="selected",
        environments={"plangate": replace(HELD["plangate"], limited=False)},
        rulesets=(
            RulesetSettings("sizes", target="push"),
            RulesetSettings("old", ("creation",), enforcement="disabled"),
            RulesetSettings("releases", ("creation",), prefix="release/"),
        ),
    )
    world.labels[world.repository(HOME).id].pop(OPEN_LABEL)
    found = await checked(github)
    assert failures(found) == []
    starts = ("Actions: only some", "environment plangate: whoever can push", "refs/plangate: rulesets", "label")
    assert all(map(str.startswith, attention(found), starts))
    assert "sizes (of acme/pocket)" in attention(found)[2]
    assert "label plangate: open: made" in [each.what for each in await checked(github, fix=True)]
    assert len(attention(await checked(github))) == 3


@pytest.mark.req("A7")
async def test_names_without_an_account_or_a_role_are_told(github: SimulatedGitHub) -> None:
    """A stranger can register the first; numeric ids and people with a role are fine, and a mistake in the file is
    told as such."""
    world = github.world
    world.set_role(HOME, "rea", "write")
    world.add_user("visitor")
    text = "ask:\n  users: [Rea, 12345, nobody-at-all]\napprove:\n  users: [Visitor, nobody-at-all, ada]\n"
    Person(world, world.user("ada").id).push(HOME, {".github/plangate.yml": text})
    (told,) = attention(found := await checked(github))
    assert told == "people in the configuration: nobody has the login nobody-at-all, Visitor has no role here"
    (cure,) = (each.cure for each in found if each.what == told)
    assert "list numeric ids" in cure
    assert cure.endswith(f"{github.server_url}/{HOME}/blob/main/.github/plangate.yml")
    Person(world, world.user("ada").id).push(HOME, {".github/plangate.yml": "ask:\n  users: [true]\n"})
    assert "people in the configuration: ask.users.0: must be a login" in failures(await checked(github))[0]


async def test_a_token_that_sees_little(github: SimulatedGitHub) -> None:
    """Each setting that it may not see is named as that: neither good nor bad."""
    github.world.set_role(HOME, "rea", "read")
    found = await checked(github, "rea")
    assert failures(found) == []
    assert [what.partition(": ")[0] for what in attention(found)] == [
        "Actions",
        "pull requests of Actions",
        "its secrets",
    ]
    assert all("this token cannot see it" in what for what in attention(found))


async def test_an_app_sees_what_it_was_granted(github: SimulatedGitHub) -> None:
    """The token that it gets is for one repository, and holds no more than what is read here."""
    credentials.install(github.world, github.app, "acme")
    app = {"PLANGATE_APP_ID": str(github.app.id), "PLANGATE_PRIVATE_KEY": github.app.pem}
    found = await checked(github, given=app)
    assert failures(found) == []
    assert len(attention(found)) == 3
    made = [each for each in github.requests if each.path.endswith("/access_tokens")][-1]
    assert str(github.world.repository(HOME).id).encode() in made.body
    assert b"pull_requests" not in made.body


async def test_an_app_that_may_nearly_nothing(github: SimulatedGitHub) -> None:
    """No check ends the others: whatever it may not see is named."""
    made = credentials.install(github.world, github.app, "acme")
    github.world.installations[made.id] = replace(made, permissions={"metadata": "read"})
    app = {"PLANGATE_APP_ID": str(github.app.id), "PLANGATE_PRIVATE_KEY": github.app.pem}
    found = await checked(github, given=app)
    assert failures(found) == []
    hidden = [what.partition(": this token cannot see it")[0] for what in attention(found)]
    assert hidden == [
        *("Actions", "pull requests of Actions", "environment plangate", "people in the configuration"),
        *("label plangate: open", "label plangate"),
        *("workflow plangate.yml", "workflow plangate-sweep.yml", "the files of the workflows"),
    ]


async def test_a_private_repository_on_the_free_plan(github: SimulatedGitHub) -> None:
    """It has no environments; a workflow with a secret of the repository is judged by that one."""
    world = github.world
    world.plans[world.user("acme").id] = "free"
    world.change_repository(HOME, private=True)
    world.set_settings(HOME, environments={})
    found = await checked(github)
    assert failures(found) == ["environment plangate: private repositories have none on the Free plan"]
    assert attention(found)[0].startswith("minutes: 2,000 a month")
    variant = Variant(key_place="repository")
    github.world.person("ada").push(HOME, {name: workflow_text(variant, name) for name in SHIPPED})
    assert failures(await checked(github)) == ["secret ANTHROPIC_API_KEY: not there"]
    world.set_settings(HOME, shared_secrets=frozenset({"ANTHROPIC_API_KEY"}))
    assert failures(await checked(github)) == []


async def test_the_workflows_on_the_default_branch(github: SimulatedGitHub) -> None:
    """Whether they are there, started by GitHub, and of this version; a sweep that is off waits for nothing."""
    world = github.world
    number = world.repository(HOME).id
    world.workflows[number, "plangate-sweep.yml"] = "disabled_manually"
    assert failures(await checked(github)) == []
    world.workflows[number, "plangate.yml"] = "disabled_inactivity"
    assert failures(await checked(github)) == ["workflow plangate.yml: disabled_inactivity"]
    del world.workflows[number, "plangate.yml"]
    edited = workflow_text().replace("checks: read", "checks: none").replace("checks: write", "checks: none")
    world.person("ada").push(HOME, {WORKFLOW: edited, SWEEP: None})
    (lacking,) = failures(await checked(github))
    assert lacking.endswith(f"edited since; missing or different keys: jobs.listen.permissions.checks, "
                            f"jobs.work.permissions.checks, {SWEEP}")  # fmt: skip
    world.person("ada").push(HOME, {WORKFLOW: None})
    del world.workflows[number, "plangate.yml"]
    missing = ["workflow plangate.yml: GitHub knows none", f"{WORKFLOW}: not on the default branch"]
    assert failures(await checked(github)) == missing
    world.person("ada").push(HOME, {WORKFLOW: "a: ["})
    assert failures(await checked(github))[-1].startswith(f"{WORKFLOW}: not YAML")


async def test_a_repository_that_is_not_there(github: SimulatedGitHub) -> None:
    """A name that is none is wrong usage; one that GitHub does not show is told as that."""
    given = settings_of_person({"GITHUB_API_URL": github.api_url, "GH_TOKEN": "ghp_x", "HOME": "/nowhere"})
    for name in ("pocket", "/pocket", "acme/pocket/x"):
        with pytest.raises(Misconfigured, match="OWNER/REPO"):
            await repository_findings(given, name, fix=False)
    github.world.change_repository(HOME, private=True)
    with pytest.raises(Misconfigured, match=r"shows this token no such repository .*: check its name"):
        await checked(github, "stranger")
    with pytest.raises(Misconfigured, match="no credentials"):
        await repository_findings(settings_of_person({"HOME": "/nowhere"}), HOME, fix=False)
