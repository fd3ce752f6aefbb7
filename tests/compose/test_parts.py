"""What a configuration makes of the parts that every face needs: the tool gate, roles, models, and limits."""

from pathlib import Path
from typing import Final

import pytest

from bot.cli.main import main
from bot.compose.parts import configured_model, gate_of
from bot.config.environment import configuration
from bot.core.configuration import Configuration
from bot.core.errors import Misconfigured
from bot.core.exchange import CLEAR_AT
from tests.agent.ground import Silent

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


def test_a_chosen_model_does_what_its_descriptions_say(capsys: pytest.CaptureFixture[str]) -> None:
    """The command line's help and the Action's input name just the keys that it outranks."""
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    _, described = ACTION.read_text().split("  model:\n")
    for said in (capsys.readouterr().out, described.split("\n", 1)[0]):
        assert "instead of models.main and models.subagent;" in " ".join(said.split())


@pytest.mark.req("C2")
def test_when_old_results_are_cleared() -> None:
    """The size is that of the file."""
    assert configured_model(configuration(""), Silent()).clear_at == CLEAR_AT
    assert configured_model(configuration("compaction:\n  clear_at_tokens: 50000\n"), Silent()).clear_at == 50_000
