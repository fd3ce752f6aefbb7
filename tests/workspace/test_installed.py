"""Which tools a session is told of."""

from pathlib import Path

import pytest

from bot.core.errors import Misconfigured
from bot.workspace.sandbox import check_git, installed_tools

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


def git_that_prints(folder: Path, text: str) -> str:
    """Make a program that prints something, whatever it is asked."""
    program = folder / "git"
    program.write_text(f"#!/bin/sh\necho '{text}'\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(("text", "version"), (("git version 2.39.5 (Apple Git-154)", "2.39.5"), ("v3.0", "3.0")))
def test_a_git_that_is_new_enough(text: str, version: str, tmp_path: Path) -> None:
    assert check_git(git_that_prints(tmp_path, text)) == version
    assert check_git()


@pytest.mark.parametrize("text", ("git version 2.38.9", "git version 1.40", "out of order"))
def test_an_older_git_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"too old \(.*/git\): install git 2\.39 or newer"):
        check_git(git_that_prints(tmp_path, text))


def test_a_missing_git_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"does not run.*install git 2\.39 or newer"):
        check_git(str(tmp_path / "git"))
