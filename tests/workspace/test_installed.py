"""Which tools a session is told of."""

from pathlib import Path

import pytest

from bot.workspace.installed import installed_tools

pytestmark = pytest.mark.req("K11")


def test_the_tools_of_a_sandbox() -> None:
    """git and Python are there with their versions, as commands find them; what is missing is not named."""
    told = dict(tool.partition(" ")[::2] for tool in installed_tools().split(", "))
    assert all(told[name][0].isdigit() for name in ("git", "python3"))
    assert "pnpm" not in told


def test_a_machine_without_a_sandbox(tmp_path: Path) -> None:
    """A mount that is missing: nothing is known, and nothing fails; the session says what is wrong."""
    assert installed_tools((str(tmp_path / "missing"),)) == ""
    assert "git " in installed_tools(unsafe=True)
