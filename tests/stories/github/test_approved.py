"""Every way to say yes: each of them, and nothing else, leads to one pull request."""

import pytest

from bot.core.gate import Stage
from tests.stories.github.ground import FIXED, HOME, Model, Story, long, soak


def approves_by_hand(story: Story, way: str) -> None:
    match way:
        case "digest":
            story.says("maya", f"@plangate approve {story.digest[:12]}")
        case "slash":
            story.says("maya", "/plangate approve")
        case _:
            story.reacts("maya", way)


@pytest.mark.long
@pytest.mark.req("A1", "A5")
async def test_locked(story: Story) -> None:
    """In a locked thread no reaction counts, one from before the lock neither: that is told once, and a command that
    names the digest counts."""
    await story.planned()
    story.reacts("maya", "+1")
    story.person("ada").lock(HOME, 1)
    for _ in range(2):
        assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    (notice,) = story.said("waits")
    assert "`@maya`: the thread is locked: to approve, comment `approve` with the digest" in notice
    story.says("maya", f"@plangate approve {story.digest[:12]}")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


@pytest.mark.long
@pytest.mark.req("G4")
async def test_two_for_high_risk(story: Story, model: Model) -> None:
    """A plan of tier high needs two people, where there are two: one ticks, one reacts."""
    model.scope = (FIXED, "CLAUDE.md")
    await story.planned()
    story.person("maya").tick(story.plan.id)
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert story.nothing_done()
    assert "another approval is needed" in story.said("waits")[0]
    story.reacts("ada", "rocket")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    (pull,) = story.pulls()
    assert "Approved by `maya`, `ada`" in pull.text.body
    assert "Approve workflows to run" not in pull.text.body  # an App's pull requests start workflows by themselves


@pytest.mark.long
@pytest.mark.req("G4")
async def test_a_code_owner_is_enough_for_high_risk(story: Story, model: Model) -> None:
    """A plan of tier high needs one person who owns all of its files; somebody who owns a part is not enough."""
    story.person("ada").push(HOME, {".github/CODEOWNERS": "* @ada\n/parcel/ @maya @ada\n"})
    model.scope = (FIXED, "CLAUDE.md")
    await story.planned()
    story.reacts("maya", "+1")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    story.person("maya").unreact(story.plan, "+1")
    story.reacts("ada", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    assert "Approved by `ada` (a code owner of everything that may change" in story.pulls()[0].text.body


@pytest.mark.req("PR1", "PR2")
@pytest.mark.parametrize("way", (long("digest"), soak("slash")))
async def test_approved(story: Story, way: str) -> None:
    """A maintainer's yes by a comment leads to one branch and one pull request, as a reaction in test_receipts.py."""
    await wait_for_approval(story)
    approves_by_hand(story, way)
    await check_pull_request(story, "by comment")


async def wait_for_approval(story: Story) -> None:
    """Let somebody ask, and look twice: nothing begins before somebody approves."""
    await story.planned()
    await story.rests()
    assert story.nothing_done()
    assert story.model.worked == 0


async def check_pull_request(story: Story, how: str) -> None:
    """Let the bot see the one approval, and check all that it makes of it."""
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    (pull,) = story.pulls()
    (branch,) = story.branches()
    assert pull.pull is not None
    assert pull.pull.head_ref == branch
    assert "total >= FREE_FROM" in story.file(branch)
    people = story.world.bare(story.world.repository(HOME)).text("log", "-1", "--format=%ae %ce%n%(trailers)", branch)
    address, will = f"{story.bot}+plangate[bot]@users.noreply.127.0.0.1", story.world.user("will")
    assert people.split("\n")[0] == f"{address} {address}"
    assert f"Co-authored-by: will <{will.id}+will@users.noreply.127.0.0.1>" in people
    assert "- Requested by `will`.\n- Approved by `maya` as plan 1 (" in pull.text.body
    assert f" UTC, {how}.\n- Model: `claude-opus-5-5`. Cost: $" in pull.text.body
    assert pull.text.body.rstrip().endswith("Closes #1")
    assert story.said("tell") == [f"Pull request #{pull.number} is ready for review."]
    assert (len(story.plans()), len(story.said("progress")), len(story.said("waits"))) == (1, 1, 0)
