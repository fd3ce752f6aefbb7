"""The workflows that everybody copies, run by `act`: mention or schedule, plan, a maintainer's 👍, pull request."""

import time
from pathlib import Path
from typing import Final

import pytest

from bot.testing.sample import FILES, NAMED, REQUEST, make
from tests.action.ground import copy_workflow, staged

TASK: Final = """\
maintenance:
  - name: tests
    schedule: "* * * * *"
    prompt: Some tests fail. Fix the code.
    check: "python3 -m unittest -q > /tmp/log 2>&1 || cat /tmp/log"
"""


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_from_mention_to_pull_request(tmp_path: Path) -> None:
    """The comment starts a plan and no more; the 👍 is found by the sweep, which the first job switched on,
    and ends in one pull request; then the sweep sleeps again."""
    make(tmp_path / "repository")
    workflow = copy_workflow("workflow.yml", tmp_path / "plangate.yml")
    sweep = copy_workflow("sweep.yml", tmp_path / "plangate-sweep.yml")
    with staged(tmp_path) as stage:
        issue = stage.ask("Shipping", "Orders of exactly 50 pay.")
        said = stage.github.world.person("ann").comment("o/r", issue.number, f"@plangate {REQUEST}")
        comment = {"id": said.id, "body": said.text.body, "author_association": "MEMBER"}
        sender = {"id": said.author, "login": "ann", "type": "User"}
        event = {"action": "created", "issue": {"number": issue.number}, "comment": comment, "sender": sender}
        log = stage.run("issue_comment", event, workflow)
        plans = [each for each in stage.comments(issue) if "plan mode" in each.text.body]
        assert len(plans) == 1, log
        assert "Job succeeded" in log
        assert "Job failed" not in log
        assert "Acknowledge" in log
        assert stage.switched == ["active"]  # something waits: the sweep is on
        assert "plangate: open" in stage.github.world.issue("o/r", issue.number).labels

        time.sleep(1.1)  # a reaction counts only when it is strictly younger than the plan, at GitHub's whole seconds
        stage.github.world.person("ann").react(plans[0], "+1")
        log = stage.run("schedule", {"schedule": "7 */3 * * *"}, sweep)
        assert "::set-output:: stage=in_review" in log, log
        assert stage.switched == ["disabled_manually"]  # nothing waits any longer
        assert stage.github.world.issue("o/r", issue.number + 1).title == NAMED


@pytest.mark.soak
@pytest.mark.req("MT1", "MT2", "MT10")
@pytest.mark.timeout(600)
def test_from_schedule_to_pull_request(tmp_path: Path) -> None:
    """The first scheduled run opens the tracking issue, the next one plans what is due by then, and the sweep finds the
    👍. It stays on, because the task is due more than once a day."""
    make(tmp_path / "repository", {**FILES, ".github/plangate.yml": TASK})
    workflow = copy_workflow("workflow.yml", tmp_path / "plangate.yml")
    sweep = copy_workflow("sweep.yml", tmp_path / "plangate-sweep.yml")
    daily = {"schedule": "23 4 * * *"}
    with staged(tmp_path) as stage:
        log = stage.run("schedule", daily, workflow)
        (issue,) = stage.github.world.issues.values()
        assert issue.title == "Scheduled task: tests", log
        assert "plangate: maintenance" in issue.labels
        assert "None yet." in issue.text.body
        assert not stage.model.requests

        time.sleep(60 - time.time() % 60)  # the task is due at each full minute
        log = stage.run("schedule", daily, workflow)
        plans = [each for each in stage.comments(issue) if "plan mode" in each.text.body]
        assert len(plans) == 1, log
        assert "a plan is waiting for approval" in stage.github.world.issue("o/r", issue.number).text.body

        time.sleep(1.1)  # a reaction counts only when it is strictly younger than the plan, at GitHub's whole seconds
        stage.github.world.person("ann").react(plans[0], "+1")
        log = stage.run("schedule", {"schedule": "7 */3 * * *"}, sweep)
        (pull,) = (each for each in stage.github.world.issues.values() if each.pull)
        assert f"Scheduled task `tests`: #{issue.number}" in pull.text.body, log
        assert f"pull request #{pull.number}" in stage.github.world.issue("o/r", issue.number).text.body
        assert stage.switched == ["active"]
        assert "Job failed" not in log
