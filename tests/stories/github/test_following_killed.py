"""A follow-up that is cut off around its push: one commit on the branch, told once, never called somebody's."""

import random
from collections.abc import Callable

import pytest

from bot.core import marker
from bot.core.errors import Transient
from bot.core.gate import Stage
from bot.core.thread.state import fold_entries
from bot.testing.github.code_changes import LineNote
from bot.testing.github.faults import Fault, Plan
from tests.stories.github.deaths import Boundary, Death, Life, Mortal
from tests.stories.github.ground import HOME, Hub, Model, Story
from tests.stories.github.moments import PUSH, READY
from tests.stories.github.runner import journal_of
from tests.stories.ground import until

FEATURE = "feature/AB#1-(x)+ü`@maya`"
pytestmark = [pytest.mark.long, pytest.mark.req("E1", "E3", "PR2", "PR3")]
PULLS = f"GET /repos/{HOME}/pulls"


def reviewed(hub: Hub, number: int, path: str) -> None:
    """Ask, in a review of a pull request, for what the model does next."""
    hub.person("maya").review(
        HOME, number, "@plangate note it in the changelog.", notes=[LineNote(path, 1, "Because of this.")]
    )


def somebodys(hub: Hub) -> tuple[int, str]:
    """Return somebody's pull request of a branch of the repository, and the branch."""
    hub.person("will").push(HOME, {"NEW.md": "New.\n"}, branch=FEATURE)
    return hub.person("will").open_pull(HOME, "Ships free", head=FEATURE).number, FEATURE


def of_the_bot(hub: Mortal) -> tuple[int, str]:
    """Return the bot's own pull request, and its branch."""
    Life(hub, random.Random(0)).lived()
    (branch,) = hub.branches()
    return hub.pulls()[0].number, branch


def commits(hub: Hub, branch: str, base: str) -> list[str]:
    """List what was committed to a branch since a commit."""
    bare = hub.world.bare(hub.world.repository(HOME))
    return bare.text("rev-list", f"{base}..refs/heads/{branch}").split()


def head(hub: Hub, branch: str) -> str:
    return hub.world.bare(hub.world.repository(HOME)).refs()[f"refs/heads/{branch}"]


def once(hub: Hub, number: int, branch: str, base: str) -> None:
    """Hold one commit with the work, one closing word, and one reply in the review's thread."""
    (commit,) = commits(hub, branch, base)
    assert "ship free" in hub.file(branch, "CHANGELOG.md")
    assert [READY in text for text in hub.said("tell", number)] == [True], hub.said("tell", number)
    replies = [note for note in hub.world.review_comments_of(hub.issue(number)) if note.author == hub.bot]
    assert [marker.without(note.text.body) for note in replies] == [f"Addressed in {commit}."]
    assert len(hub.plans(number)) == 1


def approved(hub: Mortal, number: int, path: str) -> None:
    """Have a follow-up planned and approved."""
    hub.model.turn_to_the_changelog()
    reviewed(hub, number, path)
    hub.start(number).join()
    hub.reacts("maya", "+1", *hub.plans(number))


@pytest.mark.parametrize(
    ("mortal", "whose", "done"),
    (
        ("service", of_the_bot, True),
        ("action", somebodys, True),
        ("action", somebodys, False),
        *(pytest.param("service", whose, False, marks=pytest.mark.soak) for whose in (of_the_bot, somebodys)),
        pytest.param("service", somebodys, True, marks=pytest.mark.soak),
        *(pytest.param("action", of_the_bot, done, marks=pytest.mark.soak) for done in (False, True)),
    ),
    indirect=["mortal"],
)
def test_killed_at_the_push(mortal: Mortal, whose: Callable[[Mortal], tuple[int, str]], done: bool) -> None:
    """Kill -9 just before and just after the push: the next look ends it, whatever the disk still holds."""
    number, branch = whose(mortal)
    base = head(mortal, branch)
    approved(mortal, number, "NEW.md" if whose is somebodys else "parcel/shipping.py")
    faults = mortal.github.faults
    struck = faults.struck
    faults.add(Death(Boundary("branch", f"refs/heads/{branch}", 0), done).plan())
    dying = mortal.start(number)
    until(lambda: faults.struck > struck and len(commits(mortal, branch, base)) == done, "the push")
    assert dying.is_alive()
    dying.kill()
    dying.join()
    mortal.start(number).join()
    once(mortal, number, branch, base)
    journal = journal_of(mortal, mortal.settings("reading"), number)
    assert fold_entries(journal).stage is Stage.IN_REVIEW
    assert [entry.kind for entry in journal].count("executed") == 1


async def at_the_push(story: Story, model: Model) -> str:
    """Have work on somebody's pull request approved, and cut off once it is pushed, and give what it began on."""
    number, branch = somebodys(story)
    base = head(story, branch)
    model.turn_to_the_changelog()
    reviewed(story, number, "NEW.md")
    await story.rests(number)
    story.reacts("maya", "+1", story.plan)
    listing = Plan(PULLS, Fault("status", 500), times=12)
    story.github.faults.add(Plan(PUSH, Fault("delay"), containing=f"refs/heads/{FEATURE}", then=(listing,)))
    return base


@pytest.mark.soak
async def test_pulls_cannot_be_listed(story: Story, model: Model) -> None:
    """`GET /pulls` fails again and again after the push: once it answers, the work is handed in."""
    base = await at_the_push(story, model)
    assert (await story.persists()).stage is Stage.IN_REVIEW
    assert story.github.faults.remaining_strikes == 0
    once(story, 1, FEATURE, base)


@pytest.mark.soak
async def test_taken_back_once_it_is_pushed(story: Story, model: Model) -> None:
    """An approval that is taken back after the push changes nothing: what is on the branch is said to be there."""
    base = await at_the_push(story, model)
    with pytest.raises(Transient):
        await story.rests(1)
    assert len(commits(story, FEATURE, base)) == 1
    story.reacts("maya", "-1", story.plan)
    assert (await story.persists()).stage is Stage.IN_REVIEW
    once(story, 1, FEATURE, base)


async def test_stopped_once_it_is_pushed(story: Story, model: Model) -> None:
    """Stopped after the push and taken up again: nothing is done twice, and what is there is handed in."""
    base = await at_the_push(story, model)
    with pytest.raises(Transient):
        await story.rests(1)
    worked = model.worked
    story.says("maya", "@plangate stop")
    assert (await story.persists()).stage is Stage.STOPPED
    story.says("maya", "@plangate retry")
    assert (await story.persists()).stage is Stage.IN_REVIEW
    assert model.worked == worked
    assert len(commits(story, FEATURE, base)) == 1
    assert READY in story.said("tell")[-1]


async def test_somebody_pushes_on_top(story: Story, model: Model) -> None:
    """What others push on top of it is a drift as ever: nothing is pushed over it, nothing a second time."""
    base = await at_the_push(story, model)
    with pytest.raises(Transient):
        await story.rests(1)
    story.person("will").push(HOME, {"CHANGELOG.md": "Mine.\n"}, branch=FEATURE)
    assert (await story.persists()).stage is Stage.STALE
    assert len(commits(story, FEATURE, base)) == 2
    assert story.file(FEATURE, "CHANGELOG.md") == "Mine.\n"
