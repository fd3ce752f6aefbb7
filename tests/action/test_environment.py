"""What earlier steps of a job wrote to GITHUB_ENV and GITHUB_PATH, against what the action starts and reads (PR4)."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.action.jobs import ROOT, loaded

STEPS = loaded(ROOT / "action.yml")["runs"]["steps"]


def sourced(workspace: Path, **variables: str) -> dict[str, str]:
    """Return the environment of what a step starts."""
    script = f'. "{ROOT}/.github/environment.sh"; /usr/bin/env -0'
    given = {"PATH": os.environ["PATH"], "GITHUB_WORKSPACE": str(workspace), **variables}
    command = ["/bin/bash", "--noprofile", "--norc", "-p", "-euo", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=workspace, env=given, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return dict(line.split("=", 1) for line in done.stdout.split("\0") if line)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Make a checkout that holds a folder of programs, a certificate, and a link to a folder outside."""
    (tmp_path / "workspace/bin").mkdir(parents=True)
    (tmp_path / "workspace/ca.pem").touch()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/ca.pem").touch()
    (tmp_path / "outside/link").symlink_to(tmp_path / "workspace/bin")
    return tmp_path / "workspace"


@pytest.mark.req("PR4")
@pytest.mark.parametrize(
    "folder", ("{at}/bin", "{at}", "bin", ".", "", "{at}/../workspace/bin", "{at}/../outside/link")
)
def test_no_program_of_a_checkout(workspace: Path, folder: str) -> None:
    """Whatever GITHUB_PATH was given, however it is spelled: a folder of the checkout is not searched."""
    mine = f"/nowhere:{workspace.parent}/outside:{os.environ['PATH']}"
    path = f"{folder.format(at=workspace)}:{mine}"
    assert sourced(workspace, PATH=path)["PATH"] == mine


@pytest.mark.req("PR4")
def test_no_setting_or_certificate_of_a_checkout(workspace: Path) -> None:
    """Folders of settings and certificates stay where they lie elsewhere, as on runners behind a company's proxy."""
    settings = {"HOME", "XDG_CONFIG_HOME", "PIP_CONFIG_FILE"}
    names = settings | {"PIP_CERT", "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"}
    for place in (
        f"{workspace}/ca.pem",
        "ca.pem",
        f"{workspace}/bin",
        f"{workspace}/../workspace/ca.pem",
        str(workspace),
    ):
        assert not names & set(sourced(workspace, **dict.fromkeys(names, place))), place
    kept = dict.fromkeys(names, f"{workspace.parent}/outside/ca.pem") | {"HTTPS_PROXY": "http://proxy.example:3128"}
    assert kept.items() <= sourced(workspace, **kept).items()


def test_a_workspace_that_is_not_there(workspace: Path) -> None:
    """Nothing can lie in it, so everything stays, and the step goes on."""
    assert sourced(workspace, GITHUB_WORKSPACE=f"{workspace}/none")["PATH"] == os.environ["PATH"]
    assert sourced(workspace, GITHUB_WORKSPACE="/")["PATH"] == os.environ["PATH"]


@pytest.mark.req("PR4")
def test_no_program_is_steered(workspace: Path) -> None:
    """Variables by which Python, git, OpenSSL, Perl, apt, pip, uv, and tar would load or run something."""
    theirs = (
        "PYTHONPATH GIT_SSH_COMMAND OPENSSL_CONF PERL5OPT DPKG_ROOT APT_CONFIG PIP_TARGET UV_CONFIG_FILE TAR_OPTIONS"
    )
    assert not set(theirs.split()) & set(sourced(workspace, **dict.fromkeys(theirs.split(), "/x")))


def test_each_step_reads_it_first() -> None:
    """Before any program, from the folder that the runner names, by a shell that is not looked for."""
    for step in STEPS:
        first = step["run"].splitlines()[0]
        assert re.fullmatch(r'\. "\$GITHUB_ACTION_PATH/\.github/(environment|action)\.sh"', first), step["name"]
        assert step["shell"].startswith("/bin/bash --noprofile --norc -p ")
    text = (ROOT / ".github/action.sh").read_text()
    commands = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert commands[:2] == ["set -euo pipefail", '. "$GITHUB_ACTION_PATH/.github/environment.sh"']
    assert "github.action_path }}" not in (ROOT / "action.yml").read_text()
