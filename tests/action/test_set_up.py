"""What the Action changes on a machine before its first work in a sandbox, and what does not stop it."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

SCRIPTS: Final = Path(__file__).parents[2] / ".github"
OPEN: Final = "sysctl -q -w kernel.apparmor_restrict_unprivileged_userns=0"


def machine(folder: Path, script: str = "sandbox.sh", **programs: str) -> subprocess.CompletedProcess[str]:
    """Run a script on a machine with these programs."""
    for name in ("bash", "mktemp", "env"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    for name, body in {"id": "echo 1000", **programs}.items():
        (folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (folder / name).chmod(0o755)
    variables = {"PATH": str(folder), "RUNNER_TEMP": str(folder), "GITHUB_ACTION_PATH": str(SCRIPTS.parent)}
    command = ["/bin/bash", str(SCRIPTS / script)]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def as_root(folder: Path) -> list[str]:
    """List what was done as root."""
    told = folder / "as_root"
    return told.read_text().splitlines() if told.exists() else []


ROOT: Final = 'shift; echo "$@" >> "${0%/*}/as_root"'
RESTRICTED: Final = "echo 1"


@pytest.mark.parametrize(("bwrap", "done"), (("exit 0", []), ("exit 1", [OPEN])), ids=["works", "denied"])
def test_the_machine_is_opened_only_where_the_sandbox_needs_it(tmp_path: Path, bwrap: str, done: list[str]) -> None:
    """Where bubblewrap has a profile of its own, the restriction stays; where all is there, nothing is installed."""
    said = machine(tmp_path, sysctl=RESTRICTED, sudo=ROOT, bwrap=bwrap, rg="").stderr
    assert (as_root(tmp_path), said) == (done, "")


def test_installing_has_limits(tmp_path: Path) -> None:
    """A mirror that stalls holds nobody: each request, and all of it together, has an end."""
    machine(tmp_path, sudo=ROOT)
    (install,) = as_root(tmp_path)
    assert install.startswith("timeout -k 5 60 bash -c ")
    assert install.count("apt-get ") == install.count("Acquire::http::Timeout=10 ") == 3
    assert install.count("Acquire::Retries=1") == 3
    assert install.count("bubblewrap ripgrep") == 2


@pytest.mark.parametrize(("fails", "asked"), ((0, ["install"]), (1, ["install", "update", "install"])))
def test_package_lists_are_fetched_only_if_the_machines_are_too_old(
    tmp_path: Path, fails: int, asked: list[str]
) -> None:
    """Fetching the lists takes longer than all the rest; where a package is not found without them, they are."""
    lists = f'echo "$1" >> {tmp_path}/asked; [ -e {tmp_path}/lists ] || [ {fails} = 0 ] || [ "$1" = update ]'
    said = machine(
        tmp_path,
        sudo='shift; exec "$@"',
        timeout='shift 3; exec "$@"',
        **{"apt-get": f"{lists} || exit 100; : > {tmp_path}/lists"},
    ).stderr
    assert ((tmp_path / "asked").read_text().split(), said) == (asked, "")


def test_what_the_machine_refuses_is_said_and_passed_over(tmp_path: Path) -> None:
    """Without the right to install or change anything, each is one true line, and the work begins all the same."""
    done = machine(tmp_path, sysctl=RESTRICTED, sudo=f"{ROOT}; echo 'E: no mirror' >&2; exit 1", bwrap="exit 1")
    assert [line.partition(" ")[0] for line in as_root(tmp_path)] == ["timeout", "sysctl"]
    assert done.stderr.splitlines() == [
        "not installed: ripgrep (apt-get failed, or took more than 60 seconds): E: no mirror",
        "user namespaces stay restricted: sysctl kernel.apparmor_restrict_unprivileged_userns=0 failed",
    ]


def test_another_distribution(tmp_path: Path) -> None:
    """Neither sudo nor apt-get nor sysctl: the same."""
    (said,) = machine(tmp_path).stderr.splitlines()
    assert said.startswith("not installed: bubblewrap ripgrep (apt-get failed")
    assert as_root(tmp_path) == []


def test_the_set_up_itself_installs_nothing(tmp_path: Path) -> None:
    """A job that only reads does nothing as root."""
    done = machine(tmp_path, "action.sh", sysctl=RESTRICTED, sudo=ROOT)
    assert (done.returncode, "Python 3.11 or newer is needed" in done.stderr) == (2, True), done.stderr
    assert as_root(tmp_path) == []
