"""The demo tells the whole way by itself, and ends well only if the branch proves it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("plangate")


@pytest.mark.parametrize("times", (pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.soak)))
def test_the_demo_plays_the_story_as_often_as_one_wants(tmp_path: Path, times: int) -> None:
    """Headless it needs no key and no terminal: exit 0, a plan, sub-agents, a branch whose tests pass; then again."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    command = [str(PROGRAM), "demo", "--headless", "--face", "local", "--dir", str(tmp_path / "kept")]
    for n in range(1, times + 1):
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        told = [
            "Somebody asks",
            "⧉ explore-1 completed",
            "plan mode: plan 1",
            "⧉ code-3 completed",
            "✓ The failing test",
        ]
        places = [done.stdout.index(part) for part in told]
        assert places == sorted(places)
        assert "on main: exit code 1" in done.stdout
        sample = tmp_path / "kept" / f"sample-{n}"
        listed = subprocess.run(
            ["git", "-C", str(sample), "branch", "--list", "plangate/*"], capture_output=True, text=True, check=True
        )
        assert len(listed.stdout.split()) == 1
