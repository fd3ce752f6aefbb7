"""A job without the model's key: the thread is told once what is missing, and the job fails with the same sentence."""

import io
import json
from pathlib import Path

import pytest

from bot.action.main import run
from bot.clock import SystemClock
from bot.testing.github.credentials import job_token
from bot.testing.github.simulated_github import SimulatedGitHub

SAID = "I can't start here: no key for the model (anthropic_api_key): pass the repository's secret."


@pytest.mark.long
@pytest.mark.req("CL1", "PR3")
def test_missing_key_is_told_once_on_the_thread(tmp_path: Path) -> None:
    with SimulatedGitHub(tmp_path / "github", clock=SystemClock()) as github:
        world = github.world
        home = world.add_repository("o/r", {"a.py": "a = 1\n"})
        world.set_role("o/r", "ann", "maintain")
        number = world.person("ann").open_issue("o/r", "Fix it", "@plangate fix it").number
        (tmp_path / "event.json").write_text(json.dumps({"inputs": {"thread": str(number)}}))
        environ = {
            "GITHUB_EVENT_NAME": "workflow_dispatch",
            "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
            "GITHUB_REPOSITORY": "o/r",
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
            "GITHUB_API_URL": github.api_url,
            "GITHUB_GRAPHQL_URL": github.graphql_url,
            "GITHUB_SERVER_URL": github.server_url,
            "INPUT_GITHUB_TOKEN": job_token(world, home).value,
            "PLANGATE_DATA_DIR": str(tmp_path / "data"),
            "PLANGATE_WRITE_PAUSE_SECONDS": "0",
            "HOME": str(tmp_path),
        }
        assert [run(io.StringIO(), environ) for _ in range(2)] == [2, 2]
        (told,) = world.comments_of(world.issue("o/r", number))
        assert told.text.body.startswith(SAID)
        assert "no key for the model" in (tmp_path / "summary").read_text()
        assert not [name for name in world.bare(home).refs() if name.startswith("refs/plangate/")]
