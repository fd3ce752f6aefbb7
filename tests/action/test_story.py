"""The workflow that everybody copies, run by `act`: mention, plan, a maintainer's reaction, pull request."""

import time
from pathlib import Path

import pytest

from bot.testing.sample import REQUEST, make
from bot.testing.story import NAMED
from tests.action.ground import ROOT, staged


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_from_mention_to_pull_request(tmp_path: Path) -> None:
    """The comment starts a plan and no more; the 👍 is found by the sweep, which the first job switched on,
    and ends in one pull request; then the sweep sleeps again."""
    make(tmp_path / "repository")
    workflow = tmp_path / "plangate.yml"
    sweep = tmp_path / "plangate-sweep.yml"
    for path, shipped in ((workflow, "workflow.yml"), (sweep, "sweep.yml")):
        text = (ROOT / "bot/cli" / shipped).read_text()
        # act knows neither `queue` nor `deployment` yet.
        path.write_text(text.replace("      queue: max\n", "").replace(", deployment: false", ""))
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
