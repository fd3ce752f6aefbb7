"""What planning really reads of a repository where every outside word is marked, held against the list of entrances."""

from typing import Any, Final

import pytest

from bot.core.brief import Entrance, EntranceTrust
from bot.core.gate import Stage
from bot.testing.model.reply import call
from tests.stories.github.ground import FIXED, HOME, Story
from tests.stories.github.test_maintenance import DAY, run_pass, stand
from tests.stories.github.test_reading import LOG, fail_job

pytestmark = [pytest.mark.long, pytest.mark.req("A9", "MT6")]

MARKED: Final = {
    "TITLE-BY-RITA": Entrance.THREAD,
    "BODY-BY-RITA": Entrance.GITHUB,
    "COMMENT-BY-RITA": Entrance.THREAD,
    "REMARK-BY-RITA": Entrance.GITHUB,
    "LABEL-OF-RITA": Entrance.GITHUB,
    "BRANCH-BY-RITA": Entrance.THREAD,
    "FAILED": Entrance.GITHUB,
    "MERGED-FILE": Entrance.FILES,
    "MERGED-NAME": Entrance.PLACE,
    "MERGED-SUBJECT": Entrance.PLACE,
    "MERGED-MEMORY": Entrance.MEMORY,
}
"""The words in the repository, and by what entrance each may come."""


def mark_everything(story: Story) -> int:
    """Have strangers and merged commits leave their words wherever they can, and return the number of rita's issue."""
    assert b"FAILED" in LOG
    files = {"MERGED-NAME.txt": "MERGED-FILE\n", "CLAUDE.md": "MERGED-MEMORY\n"}
    story.person("ada").push(HOME, files, message="MERGED-SUBJECT")
    issue = story.opens("rita", "BODY-BY-RITA", "TITLE-BY-RITA").number
    story.world.add_label(story.world.repository(HOME), "LABEL-OF-RITA")
    story.person("ada").label(HOME, issue, "LABEL-OF-RITA")
    story.says("rita", "REMARK-BY-RITA", issue)
    story.says("rita", "COMMENT-BY-RITA", 1)
    story.person("ada").push(HOME, {"x": "y"}, branch="BRANCH-BY-RITA")
    fail_job(story)
    return issue


def read_words(story: Story, heard: int) -> set[str]:
    """Return the marked words in what the planner was shown since so many requests."""
    shown = "".join(text for request in story.model.heard[heard:] for text in request.texts())
    shown += "".join(result.text for request in story.model.heard[heard:] for result in request.results)
    return {word for word in MARKED if word in shown}


async def test_a_plan_that_nobody_reads_is_made_from_the_projects_own_words(story: Story) -> None:
    """The planner of a standing occurrence is shown what was merged, and nothing that a stranger wrote."""
    await stand(story)
    mark_everything(story)
    heard = len(story.model.heard)
    story.clock.advance(DAY)
    await run_pass(story)
    words = read_words(story, heard)
    assert {MARKED[word].trust for word in words} == {EntranceTrust.PROJECT}
    assert {"MERGED-NAME", "MERGED-SUBJECT", "MERGED-MEMORY"} <= words
    assert len(story.pulls()) == 2


@pytest.mark.parametrize(
    ("what", "words"),
    (
        ("issue", {"TITLE-BY-RITA", "BODY-BY-RITA", "LABEL-OF-RITA"}),
        ("comments", {"REMARK-BY-RITA"}),
        ("checks", {"FAILED"}),
        ("own comments", {"COMMENT-BY-RITA"}),
    ),
)
async def test_a_plan_whose_planner_read_strangers_waits_for_people(story: Story, what: str, words: set[str]) -> None:
    """Whatever the planner reads on GitHub: each word comes by a listed entrance that is not the project's."""
    await stand(story)
    issue, heard = mark_everything(story), len(story.model.heard)
    commit = story.world.bare(story.world.repository(HOME)).refs()["refs/heads/main"]
    options: dict[str, dict[str, Any]] = {
        "checks": {"what": "checks", "commit": commit},
        "own comments": {"what": "comments", "number": 1},
    }
    asked = options.get(what, {"what": what, "number": issue})
    story.model.before = (call("GitHubRead", **asked), call("Read", file_path=FIXED))
    story.clock.advance(DAY)
    await run_pass(story)
    read = {word for word in read_words(story, heard) if MARKED[word].trust is not EntranceTrust.PROJECT}
    assert read == words
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
