"""What others put in the way of the Action: their repository, and earlier steps of the job (PR4)."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bot.testing.sample import REQUEST, make
from tests.action.ground import API_KEY, staged
from tests.action.jobs import ROOT, loaded

WORKFLOW = """\
on: issues
jobs:
  work:
    runs-on: ubuntu-24.04
    steps:
      - env:
          EVIL: ${{ github.workspace }}
        run: |
          for name in PYTHONPATH PYTHONHOME PYTHONUSERBASE; do echo "$name=$EVIL" >> "$GITHUB_ENV"; done
          echo "PYTHONSTARTUP=$EVIL/sitecustomize.py" >> "$GITHUB_ENV"
          echo "BASH_ENV=$EVIL/evil.sh" >> "$GITHUB_ENV"
          echo "LD_AUDIT=$EVIL/evil.so" >> "$GITHUB_ENV"
          echo "LD_LIBRARY_PATH=$EVIL/lib" >> "$GITHUB_ENV"
          echo "GIT_CONFIG_GLOBAL=$EVIL/gitconfig" >> "$GITHUB_ENV"
          echo "UV_CONFIG_FILE=$EVIL/uv.toml" >> "$GITHUB_ENV"
          echo "HOME=$EVIL" >> "$GITHUB_ENV"
          echo "SSL_CERT_FILE=$EVIL/ca.pem" >> "$GITHUB_ENV"
          echo "$EVIL/programs" >> "$GITHUB_PATH"
      - uses: plangate/plangate@v1
        with:
          anthropic_api_key: ${{ secrets.ANTHROPIC_API_KEY }}
"""


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """Make a repository whose every planted file says in the folder that is given that it was run."""
    repository, marks = make(tmp_path / "repository"), tmp_path / "marks"
    marks.mkdir()
    mark = f"import pathlib; pathlib.Path({str(marks)!r}, __name__.replace('.', '-')).touch()\n"
    modules = (
        "bot/__init__",
        "bot/cli",
        "anthropic",
        "sitecustomize",
        "usercustomize",
        "json/__init__",
        "pip/__main__",
    )
    for module in modules:
        path = repository / f"{module}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(mark)
    (repository / "evil.sh").write_text(f"touch {marks}/bash\n")
    (repository / "programs").mkdir()
    for name in ("bash", "bwrap", "curl", "git", "mktemp", "python3", "rg", "sh", "tar", "uv"):
        (repository / "programs" / name).write_text(f"#!/bin/sh\n: > {marks}/program-{name}\nexit 1\n")
        (repository / "programs" / name).chmod(0o755)
    (repository / ".gitconfig").write_text(f"[core]\n\tfsmonitor = touch {marks}/git-of-home\n")
    (repository / "ca.pem").write_text("no certificate\n")
    (repository / "lib").mkdir()
    (repository / "lib" / "libc.so.6").write_text("whoever loads this does not start")
    (repository / "gitconfig").write_text(f"[core]\n\tfsmonitor = touch {marks}/git\n")
    (repository / "uv.toml").write_text('index-url = "http://127.0.0.1:9/evil"\n')
    (repository / "pyproject.toml").write_text('[build-system]\nrequires = []\nbuild-backend = "sitecustomize"\n')
    for command in (["add", "."], ["-c", "user.name=e", "-c", "user.email=e@e", "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=repository, check=True)
    subprocess.run([sys.executable, "-c", "import bot"], cwd=repository, check=True)
    (marks / "bot").unlink()  # a program that is less careful would have left this
    return marks


@pytest.mark.long
@pytest.mark.req("PR4", "PR1")
@pytest.mark.timeout(180)
def test_nothing_of_the_repository_runs(marks: Path, tmp_path: Path) -> None:
    """Planted modules, configuration and variables leave no mark; the mention becomes a plan, and nothing else."""
    workflow = tmp_path / "workflow.yml"
    workflow.write_text(WORKFLOW)
    with staged(tmp_path) as stage:
        issue = stage.ask("Shipping", f"@plangate {REQUEST}")
        log = stage.run("issues", {"action": "opened", "issue": {"number": issue.number}}, workflow)
        assert not list(marks.iterdir()), log
        assert "::set-output:: stage=awaiting_approval" in log, log
        assert ["plan mode" in comment.text.body for comment in stage.comments(issue)] == [True]
        assert API_KEY not in log
        assert stage.token not in log


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
