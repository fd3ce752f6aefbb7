"""No secret of the broker's is readable through any tool, wherever the broker holds it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workspace.canaries import SECRETS
from tests.workspace.ground import Repository

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.req("PR4")
@pytest.mark.parametrize("access", (pytest.param("read", marks=pytest.mark.soak), "write"))
def test_no_secret_is_seen(access: str, repository: Repository, tmp_path: Path) -> None:
    """More than 100 tries of every tool that reads: six secrets, in several kinds of places, none comes out."""
    command = [sys.executable, "-m", "tests.workspace.canaries", str(repository.path), str(tmp_path / "data"), access]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **SECRETS}
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False
    )
    last = done.stdout.splitlines()[-1:] or [done.stderr]
    assert last[0].startswith("ran ")
    assert int(last[0].split()[1].rstrip(";")) > 100
    assert last[0].endswith("still here")
    seen = [name for name, secret in SECRETS.items() if secret in done.stdout or secret[8:24] in done.stdout]
    assert seen == []
    assert (tmp_path / "data/secrets/key").read_text().count("canary") == len(SECRETS)
