"""Which jobs each event starts, as `act` evaluates the workflow that everybody copies."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.action.ground import ACT, ROOT

BOT = {"type": "Bot", "login": "github-actions[bot]"}
Begun = Callable[..., list[str]]


@pytest.fixture
def begun(tmp_path: Path) -> Begun:
    """Give what tells which jobs an event starts, in their order; their steps are left out."""
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(tmp_path))
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "remote", "add", "origin", "https://github.com/o/r.git"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "begin"], check=True)
    workflow = YAML(typ="safe").load((ROOT / "bot/cli/workflow.yml").read_text())
    for job in workflow["jobs"].values():
        job["steps"] = [{"run": "true"}]
        del job["concurrency"]  # act does not know `queue` yet
    (tmp_path / "workflow.yml").write_text(json.dumps(workflow))

    def asking(event: str, **payload: Any) -> list[str]:
        repository = {"full_name": "o/r", "default_branch": "main"}
        payload = {"repository": repository, "sender": {"type": "User"}} | payload
        (tmp_path / "event.json").write_text(json.dumps(payload))
        done = subprocess.run(
            [ACT, event, "-n", "--json", "-W", "workflow.yml", "-e", "event.json", "-P", "ubuntu-24.04=-self-hosted"],
            cwd=tmp_path,
            env=os.environ | {"HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return [line["jobID"] for line in lines if line.get("jobResult") == "success"]

    return asking


def pull(head: str = "o/r") -> dict[str, Any]:
    return {"number": 4, "head": {"repo": {"full_name": head}}}


@pytest.mark.parametrize(
    "event",
    (
        "pull_request",
        *(pytest.param(f"pull_request_review{each}", marks=pytest.mark.long) for each in ("", "_comment")),
    ),
)
def test_a_pull_request_is_heard(begun: Begun, event: str) -> None:
    """The job that may read no secret hands the thread on; the run that a bot so starts listens, and looks at it."""
    assert begun(event, pull_request=pull()) == ["hand_on"]
    assert begun("workflow_dispatch", inputs={"thread": "4"}, sender=BOT) == ["listen", "work"]


@pytest.mark.parametrize(
    ("body", "heard"),
    (
        ("Wait, that is the wrong file.\r\n\r\n@plangate stop", True),
        pytest.param("\n /Plangate stop", True, marks=pytest.mark.long),
        pytest.param("Stop!", False, marks=pytest.mark.long),
    ),
)
def test_words_are_heard_beside_the_work(begun: Begun, body: str, heard: bool) -> None:
    """A mention on any line is taken in by a job that waits for no other: it may say stop."""
    said = begun("issue_comment", action="created", issue={"number": 3}, comment={"body": body})
    assert said == [*(["listen"] if heard else []), "work"]


@pytest.mark.long
def test_closing_is_heard_beside_the_work(begun: Begun) -> None:
    """Closing an issue stops the work at once; of a pull request, it is handed on and listened to as well."""
    assert begun("issues", action="closed", issue={"number": 3}) == ["listen", "work"]
    assert begun("pull_request", action="closed", pull_request=pull()) == ["hand_on"]


def test_what_needs_no_other_run(begun: Begun) -> None:
    """An issue, words, the schedule and a person's own start are worked on at once, a bot's words are not."""
    assert begun("issues", action="opened", issue={"number": 3}) == ["work"]
    assert begun("issue_comment", action="edited", issue={"number": 3}, comment={"body": "- [x] a"}) == ["work"]
    assert begun("schedule", sender=None) == ["work"]
    assert begun("workflow_dispatch", inputs=None) == ["work"]
    assert begun("issue_comment", action="created", comment={"body": "@plangate"}, sender=BOT) == []


def test_a_fork_hands_nothing_on(begun: Begun) -> None:
    """Its token could not: the schedule finds what was said there."""
    assert begun("pull_request", pull_request=pull("fork/r")) == []
