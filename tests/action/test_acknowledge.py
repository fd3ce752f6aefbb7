"""👀 before the set-up: for whom, and that the program's own one later changes nothing."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bot.testing.github.credentials import job_token
from bot.testing.github.simulated_github import SimulatedGitHub
from tests.action.expressions import evaluate, holds
from tests.action.jobs import PERSON, ROOT, comment, loaded

STEP = loaded(ROOT / "action.yml")["runs"]["steps"][0]


def test_the_reaction_is_put_once(tmp_path: Path) -> None:
    """The step reacts with what the event names, and nothing that somebody wrote; however often, it is one reaction."""
    with SimulatedGitHub(tmp_path) as github:
        home = github.world.add_repository("o/r", {"a": "a"})
        github.world.add_user("ann")
        number = github.world.person("ann").open_issue("o/r", "t").number
        said = github.world.person("ann").comment("o/r", number, "@plangate $(touch evil) `touch evil`")
        variables = {"TOKEN": job_token(github.world, home, {"issues": "write"}).value, "COMMENT": str(said.id)}
        for _ in range(2):
            variables |= {"GITHUB_API_URL": github.api_url, "GITHUB_REPOSITORY": "o/r", "PATH": os.environ["PATH"]}
            variables |= {"GITHUB_ACTION_PATH": str(ROOT)}
            subprocess.run(["bash", "-e", "-c", STEP["run"]], env=variables, cwd=tmp_path, check=True)
        assert [each.content for each in github.world.reactions.values()] == ["eyes"]
        assert not (tmp_path / "evil").exists()


def test_a_reaction_that_fails_stops_nothing(tmp_path: Path) -> None:
    """Nobody answers: the job goes on."""
    variables = {"TOKEN": "t", "COMMENT": "1", "GITHUB_API_URL": "http://127.0.0.1:9", "GITHUB_REPOSITORY": "o/r"}
    done = subprocess.run(
        ["bash", "-e", "-c", STEP["run"]],
        env=variables | {"PATH": os.environ["PATH"], "GITHUB_ACTION_PATH": str(ROOT)},
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("payload", "inputs", "reacts"),
    (
        (comment("Please, @Plangate"), {}, True),
        (comment("Please, @robot"), {"mention": "@robot"}, True),
        (comment("Please, @plangate"), {"mention": "@robot"}, False),
        (comment("Please"), {}, False),
        (comment("@plangate", action="edited"), {}, False),
        (comment("@plangate"), {"app_id": "12"}, False),
        (comment("@plangate", comment={"body": "@plangate", "user": PERSON, "author_association": "NONE"}), {}, False),
    ),
)
def test_who_gets_it(payload: dict[str, Any], inputs: dict[str, str], reacts: bool) -> None:
    """Members who mention the bot in a new comment; where an App speaks, the reaction is the App's to put."""
    said = {"author_association": "MEMBER"} | payload["comment"]
    github = {"event_name": "issue_comment", "event": payload | {"comment": said}}
    given = {"mention": "", "app_id": ""} | inputs
    assert holds(evaluate(STEP["if"], {"github": github, "inputs": given})) == reacts
