"""What the pull request carries, what the journal tells of it, and what the Action's outputs say."""

from hashlib import sha256
from pathlib import Path

import pytest

from bot.action.report import outputs
from bot.config.action_inputs import action
from bot.core.gate import Stage
from bot.testing.model.reply import Fault, Reply, call, say
from bot.testing.sample import NAMED, TITLE
from tests.stories.github.ground import FIX, HOME, Story, soak

pytestmark = pytest.mark.long

PATH = ".github/plangate.yml"


async def published(story: Story, keys: str) -> tuple[list[str], list[str]]:
    """Let a plan be approved and carried out; the labels of its pull request, and who was asked to review it."""
    if keys:
        story.person("ada").push(HOME, {PATH: f"pull_request:\n  {keys}\n"})
    await story.planned()
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    (issue,) = story.pulls()
    assert issue.pull is not None
    return sorted(issue.labels), sorted(story.world.users[each].login for each in issue.pull.requested_reviewers)


@pytest.mark.parametrize(
    ("keys", "labels", "reviewers"),
    (
        ("", [], ["maya"]),
        soak("reviewers: none", [], []),
        ("reviewers: [ada, will]", [], ["ada", "will"]),
        soak("labels: [by bot, shipping]", ["by bot", "shipping"], ["maya"]),
    ),  # every day: tests/github/test_pulls.py
    ids=("approver", "none", "named", "labelled"),
)
async def test_labels_and_reviewers(story: Story, keys: str, labels: list[str], reviewers: list[str]) -> None:
    """As configured; where nothing is, whoever approved the plan is asked to review the work."""
    assert await published(story, keys) == (labels, reviewers)
    assert story.said("tell")[0].endswith("is ready for review.")


@pytest.mark.soak
async def test_a_reviewer_who_may_not_is_no_failure(story: Story) -> None:
    """The pull request is there all the same, and the thread is told who could not be asked, and why."""
    story.world.add_user("passer-by")
    assert await published(story, "reviewers: [passer-by]") == ([], [])
    assert "\n- `reviewer passer-by: " in story.said("tell")[0]


async def test_a_draft(story: Story) -> None:
    """A draft is announced as one: nobody is told that it is ready."""
    assert await published(story, "draft: true") == ([], ["maya"])
    (said,) = story.said("tell")
    pull = story.pulls()[0].pull
    assert pull is not None
    assert (said.endswith("is open as a draft."), pull.draft) == (True, True)


@pytest.mark.req("PR6", "PR4")
async def test_commands_of_the_agent(story: Story) -> None:
    """What it ran by itself stands there with exit codes: the last run of each command, and nothing that only reads."""
    secret = story.github.app.webhook_secret
    ran = ("ls", "make nothing", f"touch /tmp/{secret}", "make nothing")
    story.model.work = (*(call("Bash", command=line) for line in ran), *FIX)
    await published(story, "")
    (pull,) = story.pulls()
    assert "| main | `make nothing` | 2 |\n" in pull.text.body
    assert pull.text.body.count("| main | ") == 2
    assert secret not in pull.text.body
    (done,) = [entry.body for entry in await story.entries() if entry.kind == "executed"]
    shown = [each.text for each in story.model.works[-1].all_results if each.text.endswith("exit code 2")]
    digest = sha256(shown[-1].encode()).hexdigest()
    assert [row["output_sha256"] for row in done["commands"] if row["command"] == "make nothing"] == [digest]


EVIL = "Closes #1, hi @will [skip ci]\u200b"


@pytest.mark.req("M11", "X2")
@pytest.mark.parametrize(
    ("light", "title"),
    (
        (say(NAMED), NAMED),
        (Fault.status(400), TITLE),
        soak(say("One\nTwo"), TITLE),
        (say(EVIL), "Closes `#1`, hi @will (skip ci)‹U+200B›"),
    ),
    ids=("a title", "no answer", "no title", "evil"),
)
async def test_its_title(story: Story, light: Reply | Fault, title: str) -> None:
    """A small model names what was done, where it does; the thread's title stands in for it. The branch is the
    thread's either way, and neither title nor commit acts on anything."""
    story.model.light = light
    await published(story, "")
    (pull,) = story.pulls()
    assert pull.title == title
    assert pull.pull is not None
    assert pull.pull.head_ref == "plangate/1-orders-of-exactly-50-pay-for-shipping"
    bare = story.world.bare(story.world.repository(HOME))
    subject = bare.run("show", "--no-patch", "--format=%s", pull.pull.head_sha).decode().strip()
    assert subject == title.replace("@will", "`@will`")
    assert [request.texts()[0].startswith(f"Asked for: {TITLE}\n") for request in story.model.lightly] == [True]


async def test_the_outputs_name_the_plan_comment(story: Story, tmp_path: Path) -> None:
    """The Action links to the comment that shows the plan, not only to its thread."""
    await story.planned()
    environ = {
        "GITHUB_EVENT_NAME": "issues",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_REPOSITORY": HOME,
        "INPUT_ANTHROPIC_API_KEY": "key",
    }
    said = outputs(action(environ), story.address(), story.records[1])
    assert said["plan_comment_url"] == f"{story.github.server_url}/{HOME}/issues/1#issuecomment-{story.plan.id}"
