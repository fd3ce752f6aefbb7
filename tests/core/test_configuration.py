"""The configuration: whom its lists of people name, what it refuses, and what operators and tasks change of it."""

import math

import pytest

from bot.config.environment import configuration
from bot.core.approval import Policy
from bot.core.configuration import Ask, Budget, Configuration, MaintenanceTask, PullRequestPart
from bot.core.errors import Misconfigured
from bot.core.turn import Actor, ActorKind, Role
from tests.rows import every_row

ROLES = list(Role)[:-1]
ANN = Actor(7, "Ann")


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
    assert Ask(users=[8], bots=[9]).may_ask(actor, role) is may


@pytest.mark.req("A3")
@pytest.mark.parametrize(
    ("roles", "lowest"),
    (("[triage]", Role.TRIAGE), ("[admin, write]", Role.WRITE), ("[maintain]", Role.MAINTAIN), ("[]", Role.NOBODY)),
)
def test_the_lowest_role_of_a_list_and_all_above_it_may_ask(roles: str, lowest: Role) -> None:
    """An admin is not locked out by a list that names triage; an empty one leaves it to those who are named."""
    keys = configuration(f"ask:\n  roles: {roles}\n  users: [8, cleo]\n")
    ask = keys.ask
    assert [role for role in (None, *ROLES) if ask.may_ask(ANN, role)] == [role for role in ROLES if role >= lowest]
    assert ask.may_ask(Actor(8, "bea"), Role.NONE)
    assert not ask.may_ask(Actor(9, "cleo"), Role.NONE)


@pytest.mark.req("A3")
@pytest.mark.parametrize(
    ("roles", "lowest"), (("[write]", Role.WRITE), ("[admin, maintain]", Role.MAINTAIN), ("[]", Role.NOBODY))
)
def test_the_lowest_role_of_a_list_approves(roles: str, lowest: Role) -> None:
    approve = configuration(f"approve:\n  roles: {roles}\n  four_eyes: true\n").approve
    assert approve.policy(9) == Policy(lowest, four_eyes=True, bot=9)


@every_row(
    ("text", "said"),
    (
        ("ask: yes", "ask: must hold keys, each on a line of its own (f:1:1): see docs/settings.md"),
        ("approve:\n  teams: o/core", "approve.teams: must be a list, such as [a, b] (f:2:3)"),
        ("approve:\n  teams: [core]", "approve.teams.0: has characters that such a name cannot have (f:2:11)"),
        ("approve:\n  users: ['a b']", "approve.users.0: must be a login, or the numeric id of an account (f:2:11)"),
        ("ask:\n  users: [true]", "ask.users.0: must be a login, or the numeric id of an account (f:2:11)"),
        ("models:\n  main: 5", "models.main: must be text; put it in quotes (f:2:3)"),
        ("pull_request:\n  draft: maybe", "pull_request.draft: must be true or false (f:2:3)"),
        ("budget:\n  session_usd: .inf", "budget.session_usd: must be a finite number (f:2:3)"),
        ("agents:\n  explore:\n    minuts: 3", "unknown key 'agents.explore.minuts' (f:3:5): did you mean"),
        ("agents:\n  review:\n    calls: 3", "unknown key 'agents.review' (f:2:3)"),
        ("agents:\n  code:\n    calls: 0", "agents.code.calls: must be greater than or equal to 1 (f:3:5)"),
        ("compaction:\n  at_tokens: 1000", "compaction.at_tokens: must be greater than or equal to 20000 (f:2:3)"),
        ("sandbox:\n  hosts: ['http://x']", "sandbox.hosts.0: not a host: 'http://x'"),
        ("tools:\n  deny: [WebFetch, 'Bash(rm']", "tools.deny.1: not a tool rule: 'Bash(rm'"),
    ),
)
def test_a_mistake_is_told_in_the_words_of_the_file(text: str, said: str) -> None:
    with pytest.raises(Misconfigured) as told:
        configuration(text, "f")
    assert str(told.value).startswith(said)


def test_people_and_teams_may_be_written_as_they_are_called() -> None:
    """The @ that people write before a name is no part of it; an account may be named by its number."""
    given = configuration(
        "approve:\n  users: ['@ana', ben-x, app_shortcode, 7]\n  teams: ['@octo/core', octo/my.team]\n"
    )
    assert given.approve.users == ["ana", "ben-x", "app_shortcode", 7]
    assert given.approve.teams == ["octo/core", "octo/my.team"]


def test_a_chosen_model_leaves_light_calls_as_they_are() -> None:
    keys = configuration("models:\n  main: m\n  subagent: s\n  light: l\n")
    given = [keys.with_overrides(None, model, None).models for model in (None, "x")]
    assert [(models.main, models.subagent, models.light) for models in given] == [("m", "s", "l"), ("x", "x", "l")]


@pytest.mark.parametrize(
    ("most", "session", "thread"), ((None, 5, 10), (2.0, 2.0, 10), (30.0, 30.0, 30.0)), ids=("none", "less", "more")
)
def test_an_operators_budget_is_that_of_a_session_and_never_above_that_of_the_thread(
    most: float | None, session: float, thread: float
) -> None:
    keys = Configuration().with_overrides("@other", None, most)
    assert (keys.mention, keys.budget.session_usd, keys.budget.thread_usd) == ("@other", session, thread)


def test_a_person_at_a_terminal_gives_no_commands_and_shares_no_budget() -> None:
    keys = Configuration(budget=Budget(repository_day_usd=1)).for_terminal()
    assert (keys.mention, keys.budget.repository_day_usd) == ("", math.inf)


def test_a_task_has_its_own_budget_and_its_labels_beside_the_others() -> None:
    cheap = MaintenanceTask(name="cheap", schedule="daily", prompt="x", budget_usd=0.5, labels=["pins", "bot"])
    plain = MaintenanceTask(name="plain", schedule="daily", prompt="x")
    keys = Configuration(pull_request=PullRequestPart(labels=["bot"]), maintenance=[cheap, plain])
    assert keys.for_task("cheap").budget.session_usd == 0.5
    assert keys.for_task("cheap").pull_request.labels == ["bot", "pins"]
    assert keys.for_task("plain") == keys.for_task("removed") == keys


def test_reviewers_are_those_listed_or_the_approvers_or_nobody() -> None:
    given = [PullRequestPart(reviewers=reviewers) for reviewers in ("approver", "none", ["zoe"])]
    assert [part.reviewer_logins(["ada"]) for part in given] == [("ada",), (), ("zoe",)]


def test_logins_become_the_numbers_of_their_accounts() -> None:
    keys = configuration("ask: {users: [Ann, 8]}\napprove: {users: [bea, gone]}\n")
    pinned = keys.with_ids({"ann": 7, "bea": 9, "gone": None})
    assert (pinned.ask.users, pinned.approve.users) == ([7, 8], [9, "gone"])


def test_further_globs_of_path_classes() -> None:
    keys = configuration("paths: {classes: {docs: [a, b], tests: [c]}}\n")
    assert keys.paths.further == (("docs", "a"), ("docs", "b"), ("tests", "c"))


def test_a_task_knows_where_its_keys_are_in_the_file() -> None:
    (task,) = configuration("maintenance:\n  - name: t\n    schedule: daily\n    prompt: x\n").maintenance
    assert task.place_of("prompt") == "line 4, column 5 of the configuration"
    assert task.place_of("recipe") == "maintenance"
