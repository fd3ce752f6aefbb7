"""The real action.yml on a repository that tries to be imported: it does its work, and nothing of them runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from bot.testing.sample import REQUEST, make
from tests.action.ground import API_KEY, staged

pytestmark = pytest.mark.long

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
