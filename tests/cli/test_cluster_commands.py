"""The commands of a service with its queue in PostgreSQL. What they do: tests/stories/github/test_cluster.py."""

from pathlib import Path

import pytest

from tests import forks
from tests.stories.ground import bare


@pytest.mark.parametrize("command", ("worker", "migrate"))
def test_without_a_database(tmp_path: Path, command: str) -> None:
    """Refused with the variable to set: files have one process."""
    ended = forks.plangate().run(command, env=bare(tmp_path))
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "no database (PLANGATE_DATABASE_URL): set it" in ended.stderr


@pytest.mark.parametrize("number", ("0", "-1", "many"))
def test_a_worker_has_at_least_one_of_each(tmp_path: Path, number: str) -> None:
    """Of sessions and looks."""
    ended = forks.plangate().run("worker", f"--sessions={number}", env=bare(tmp_path))
    assert (ended.returncode, "not a positive whole number" in ended.stderr) == (2, True)
