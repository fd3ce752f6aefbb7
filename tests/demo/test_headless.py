"""The demo tells the whole way by itself, and ends well only if the branch proves it."""

import os
import subprocess
from pathlib import Path

import pytest

from tests import forks


@pytest.mark.soak  # .ci/run plays each story by itself
def test_the_demo_plays_the_story_as_often_as_one_wants(tmp_path: Path) -> None:
    """Headless it needs no key and no terminal: exit 0, a plan, sub-agents, a branch whose tests pass; then again."""
    for n in (1, 2):
        done = play(tmp_path, "--face", "local")
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


@pytest.mark.soak  # the same
@pytest.mark.req("MT10")
def test_the_demo_of_a_scheduled_task(tmp_path: Path) -> None:
    """From the schedule over tracking issue, plan, and 👍 to a pull request whose tests pass."""
    done = play(tmp_path, "--story", "maintenance", "--face", "action")
    assert done.returncode == 0, done.stdout + done.stderr
    told = [
        "schedule: daily",
        "Yesterday the bot opened #1: Scheduled task: tests",
        "Today the task is due",
        "### Findings",
        "maya (maintain) reacts with 👍: this counts",
        "Pull request #2 is ready for review.",
        "✓ The failing test",
    ]
    places = [done.stdout.index(part) for part in told]
    assert places == sorted(places)


def test_the_demo_without_github_has_no_scheduled_task(tmp_path: Path) -> None:
    """It is told with what to do instead."""
    done = play(tmp_path, "--story", "maintenance", "--face", "local")
    assert done.returncode == 2
    assert "only GitHub has scheduled tasks (--story): use --face service or action" in done.stderr


def play(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Play the demo by itself, without a key and without a terminal."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    command = ["demo", "--headless", "--dir", str(folder / "kept"), *options]
    return forks.plangate().run(*command, env=env, timeout=600)
