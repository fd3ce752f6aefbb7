"""The set-up of the Action on machines that are not GitHub's own: what it changes there, and what does not stop it."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

SCRIPT: Final = Path(__file__).parents[2] / ".github/action.sh"
OPEN: Final = "sysctl -q -w kernel.apparmor_restrict_unprivileged_userns=0"
INSTALL: Final = "apt-get install -y -qq --no-install-recommends bubblewrap ripgrep"


def machine(folder: Path, **programs: str) -> tuple[list[str], str]:
    """Set up on a machine with these programs and no Python, where it ends; what it did as root, and what it said."""
    for name in ("bash", "mktemp", "env"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    for name, body in {"id": "echo 1000", **programs}.items():
        (folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (folder / name).chmod(0o755)
    variables = {"PATH": str(folder), "RUNNER_TEMP": str(folder), "ACTION": str(SCRIPT.parents[1])}
    done = subprocess.run(["/bin/bash", SCRIPT], env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, "Python 3.11 or newer is needed" in done.stderr) == (2, True), done.stderr
    told = folder / "as_root"
    return told.read_text().splitlines() if told.exists() else [], done.stderr


ROOT: Final = 'shift; echo "$@" >> "${0%/*}/as_root"'
NO_ROOT: Final = f"{ROOT}; exit 1"
RESTRICTED: Final = "echo 1"


@pytest.mark.parametrize(("bwrap", "done"), (("exit 0", []), ("exit 1", [OPEN])), ids=["works", "denied"])
def test_the_machine_is_opened_only_where_the_sandbox_needs_it(tmp_path: Path, bwrap: str, done: list[str]) -> None:
    """Where bubblewrap has a profile of its own, the restriction stays."""
    as_root, said = machine(tmp_path, sysctl=RESTRICTED, sudo=ROOT, bwrap=bwrap, rg="")
    assert as_root == done
    assert "::warning" not in said


def test_what_the_machine_refuses_is_said_and_passed_over(tmp_path: Path) -> None:
    """Without the right to install or change anything the set-up goes on: the program tells what is missing."""
    as_root, said = machine(tmp_path, sysctl=RESTRICTED, sudo=NO_ROOT)
    assert [line.removeprefix("env DEBIAN_FRONTEND=noninteractive ") for line in as_root[1:]] == [INSTALL, OPEN]
    assert said.count("::warning title=Plangate::this failed: ") == 3


def test_another_distribution(tmp_path: Path) -> None:
    """Neither sudo nor apt-get nor sysctl: the same."""
    as_root, said = machine(tmp_path)
    assert as_root == []
    assert said.count("::warning title=Plangate::this failed: ") == 2
