"""A whole release of this tree: built, tagged, and used by a job that reaches no registry."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

import pytest

from bot.testing.sample import NAMED, REQUEST, make
from tests.action.ground import ROOT, copy_workflow, staged
from tests.action.test_archive import Quiet

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
VERSION: Final = "1.7.0"


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Run a command that must succeed, and return what it prints."""
    environment = os.environ | variables
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Serve a folder as GitHub serves the files of releases."""
    (tmp_path / "served").mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "served"))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def files(address: str, tmp_path: Path) -> Path:
    """Build and tag a release. Its tree is then in the folder `release`, its files are served and returned."""
    source = tmp_path / "source"
    run("git", "clone", "-q", "--no-hardlinks", ROOT, source, cwd=tmp_path)
    for name in run("git", "ls-files", "--modified", "--others", "--exclude-standard", cwd=ROOT).split():
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    project, changes = source / "pyproject.toml", source / "CHANGELOG.md"
    project.write_text(re.sub(r'^version = ".*"$', f'version = "{VERSION}"', project.read_text(), flags=re.MULTILINE))
    changes.write_text(changes.read_text().replace("## Unreleased", f"## {VERSION}", 1))
    python = source / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    run("git", "add", "--all", cwd=source)
    run("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x", cwd=source)
    release = source / ".github/release.sh"
    built = tmp_path / f"served/plangate/plangate/releases/download/v{VERSION}"
    run("bash", release, "check", cwd=source)
    run("bash", release, "build", built, cwd=source)
    run("bash", source / ".github/archive.sh", built, cwd=source)
    run("bash", release, "tag", built, cwd=source, GITHUB_SERVER_URL=address, GITHUB_REPOSITORY="plangate/plangate")
    (tmp_path / "release").mkdir()
    run("git", "archive", "--output", tmp_path / "release.tar", f"v{VERSION}", cwd=source)
    run("tar", "--extract", "--file", tmp_path / "release.tar", "--directory", tmp_path / "release", cwd=source)
    return built


def test_a_release(files: Path, tmp_path: Path) -> None:
    """Its wheel installs offline beside its archive, and a job of the shipped workflows goes the whole way on it."""
    run("sha256sum", "--check", "--quiet", "SHA256SUMS", cwd=files)
    assert (files / f"plangate-{VERSION}.tar.gz").exists()
    _installs(files, tmp_path / "installed")
    make(tmp_path / "repository")
    workflow = copy_workflow("workflow.yml", tmp_path / "plangate.yml")
    sweep = copy_workflow("sweep.yml", tmp_path / "plangate-sweep.yml")
    for path in (workflow, sweep):  # pip and uv find nothing
        nowhere = "env: { PIP_NO_INDEX: '1', PIP_FIND_LINKS: '', UV_OFFLINE: '1', UV_NO_CACHE: '1' }"
        path.write_text(f"{path.read_text()}\n{nowhere}\n")
    with staged(tmp_path) as stage:
        issue = stage.ask("Shipping", f"@plangate {REQUEST}")
        sender = {"id": issue.author, "login": "ann", "type": "User"}
        opened = {"number": issue.number, "title": "Shipping", "body": f"@plangate {REQUEST}"}
        log = stage.run("issues", {"action": "opened", "issue": opened, "sender": sender}, workflow)
        assert "::set-output:: stage=awaiting_approval" in log, log
        (plan,) = [each for each in stage.comments(issue) if "plan mode" in each.text.body]
        time.sleep(1.1)  # a tick counts only when it is strictly younger than the plan, at GitHub's whole seconds
        stage.github.world.person("ann").tick(plan.id)
        log = stage.run("schedule", {"schedule": "7 */3 * * *"}, sweep)
        assert "::set-output:: stage=in_review" in log, log
        assert stage.github.world.issue("o/r", issue.number + 1).title == NAMED


def _installs(files: Path, venv: Path) -> None:
    """Install the wheel into an environment that has the archive's packages, and ask it for its version."""
    run(sys.executable, "-m", "venv", venv, cwd=files)
    (archive,) = files.glob("plangate-packages-*.tar.gz")
    (packages,) = venv.glob("lib/*/site-packages")
    with tarfile.open(archive) as archived:
        archived.extractall(venv, filter="data")
    for each in (venv / "packages").iterdir():
        each.rename(packages / each.name)
    (wheel,) = files.glob("*.whl")
    run(venv / "bin/pip", "install", "--quiet", "--no-index", wheel, cwd=venv)
    assert run(venv / "bin/plangate", "version", cwd=venv) == f"plangate {VERSION}\n"
