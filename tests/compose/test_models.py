"""Which model does what: as configured, and where one is chosen for a run."""

from pathlib import Path
from typing import Final

import pytest

from bot.cli.main import main
from bot.compose.parts import work_settings
from bot.config.environment import configuration

ACTION: Final = Path(__file__).parents[2] / "action.yml"


def test_a_chosen_model_does_what_its_descriptions_say(capsys: pytest.CaptureFixture[str]) -> None:
    """It outranks two keys and no other; the command line's help and the Action's input name just these."""
    keys = configuration("models:\n  main: m\n  subagent: s\n  light: l\n")
    given = [work_settings(keys, model=model) for model in (None, "x")]
    assert [(orders.model, orders.subagent_model, orders.light_model) for orders in given] == [
        ("m", "s", "l"),
        ("x", "x", "l"),
    ]
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    _, described = ACTION.read_text().split("  model:\n")
    for said in (capsys.readouterr().out, described.split("\n", 1)[0]):
        assert "instead of models.main and models.subagent;" in " ".join(said.split())
