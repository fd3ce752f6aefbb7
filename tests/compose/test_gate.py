"""The tool gate as a configuration makes it."""

import pytest

from bot.compose.parts import gate_of, work_settings
from bot.config.environment import configuration
from bot.config.repository_file import Configuration
from bot.core.errors import Misconfigured


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
