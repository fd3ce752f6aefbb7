"""What a configuration makes of the parts that every face needs: the tool gate, roles, models, and limits."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from bot.agent.subagents.types import LIMITS
from bot.cli.main import main
from bot.compose.parts import configured_model, gate_of, work_settings
from bot.config.environment import configuration
from bot.config.repository_file import Configuration
from bot.core.errors import Misconfigured
from bot.core.exchange import CLEAR_AT
from bot.core.turn import Actor, Role
from tests.agent.ground import Silent

ROLES = list(Role)[:-1]
ANN = Actor(7, "Ann")
ACTION: Final = Path(__file__).parents[2] / "action.yml"


@pytest.mark.req("P1")
def test_bypass_needs_the_sandbox() -> None:
    """bypassPermissions without a sandbox is refused, with the key and the cure; with one it stands."""
    keys = configuration("execution: {mode: bypassPermissions}")
    assert gate_of(keys, sandboxed=True).sandboxed
    with pytest.raises(Misconfigured, match=r"bypassPermissions needs the sandbox.*execution\.mode.*acceptEdits"):
        gate_of(keys, sandboxed=False)


@pytest.mark.req("K3", "P4a")
@pytest.mark.parametrize(
    ("plan", "rehearsed"), (({}, {"make test"}), ({"commands": []}, set()), ({"commands": ["make it"]}, {"make it"}))
)
def test_commands_for_planning(plan: dict[str, list[str]], rehearsed: set[str]) -> None:
    """A planner may run what the file says; where it says nothing, the commands that verify work. Without a sandbox it
    may run none, and its reminder names none."""
    keys = Configuration.model_validate({"plan": plan, "execution": {"verify": ["make test"]}})
    assert gate_of(keys, sandboxed=True).rehearsed == rehearsed
    assert gate_of(keys, sandboxed=False).rehearsed == set()


def test_repairs() -> None:
    """Failing checks go back twice, or as often as the file says; 0 is never."""
    for given, repairs in (({}, 2), ({"repairs": 0}, 0), ({"repairs": 5}, 5)):
        keys = Configuration.model_validate({"execution": given})
        assert work_settings(keys).repairs == repairs


@pytest.mark.req("A3")
@pytest.mark.parametrize(
    ("roles", "lowest"),
    (("[triage]", Role.TRIAGE), ("[admin, write]", Role.WRITE), ("[maintain]", Role.MAINTAIN), ("[]", Role.NOBODY)),
)
def test_the_lowest_role_of_a_list_and_all_above_it_may_ask(roles: str, lowest: Role) -> None:
    """An admin is not locked out by a list that names triage; an empty one leaves it to those who are named."""
    keys = configuration(f"ask:\n  roles: {roles}\n  users: [8, cleo]\n")
    orders = keys.ask.askers()
    assert [role for role in (None, *ROLES) if orders.may_ask(ANN, role)] == [role for role in ROLES if role >= lowest]
    assert orders.may_ask(Actor(8, "bea"), Role.NONE)
    assert not orders.may_ask(Actor(9, "cleo"), Role.NONE)


@pytest.mark.req("A3")
@pytest.mark.parametrize(
    ("roles", "lowest"), (("[write]", Role.WRITE), ("[admin, maintain]", Role.MAINTAIN), ("[]", Role.NOBODY))
)
def test_the_lowest_role_of_a_list_approves(roles: str, lowest: Role) -> None:
    """Approving reads its list as asking does."""
    assert configuration(f"approve:\n  roles: {roles}\n").approve.policy(0).role is lowest


def test_a_chosen_model_does_what_its_descriptions_say(capsys: pytest.CaptureFixture[str]) -> None:
    """It outranks two keys and no other; the command line's help and the Action's input name just these."""
    keys = configuration("models:\n  main: m\n  subagent: s\n  light: l\n")
    given = [work_settings(keys, model=model) for model in (None, "x")]
    assert [(orders.model, orders.subagents.model, orders.light_model) for orders in given] == [
        ("m", "s", "l"),
        ("x", "x", "l"),
    ]
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    _, described = ACTION.read_text().split("  model:\n")
    for said in (capsys.readouterr().out, described.split("\n", 1)[0]):
        assert "instead of models.main and models.subagent;" in " ".join(said.split())


@pytest.mark.req("S9")
def test_limits_of_each_type() -> None:
    """A key changes its own type and limit alone; a file that says nothing leaves the limits that the agents have."""
    assert work_settings(configuration("")).subagents.limits == LIMITS
    keys = configuration(
        "agents:\n  explore:\n    calls: 80\n  plan:\n    minutes: 1.5\n  code:\n    reads: 7\n    tokens: 9000\n"
    )
    assert work_settings(keys).subagents.limits == {
        "explore": replace(LIMITS["explore"], tool_calls=80),
        "plan": replace(LIMITS["plan"], seconds=90),
        "code": replace(LIMITS["code"], file_reads=7, context_tokens=9_000),
    }


@pytest.mark.req("C2")
def test_when_old_results_are_cleared() -> None:
    """The size is that of the file."""
    assert configured_model(configuration(""), Silent()).clear_at == CLEAR_AT
    assert configured_model(configuration("compaction:\n  clear_at_tokens: 50000\n"), Silent()).clear_at == 50_000
