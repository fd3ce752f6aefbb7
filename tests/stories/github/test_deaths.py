"""Kill -9 of the bot on GitHub, at each point and on each face: exactly one of everything (E1, E3, PR2).

Three suites hold what a death must not change, each at the level that shows it:
- tests/workflow/test_crash_matrix.py: verb x write x face, in memory. Every rule of the verbs, every day.
- here: the service and the jobs of the Action at each point that the outside sees, and at every request that changes
  GitHub, which a recorded story finds. What a killed process leaves on disks, in sandboxes, and at GitHub.
- tests/stories/test_interrupted.py: `plangate run`, ended by each signal.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from itertools import product
from typing import Final

import pytest

from bot.compose.github import HostSetup
from bot.core import marker
from bot.core.comment import is_at_work
from bot.core.errors import Conflict, Transient
from bot.core.gate import Stage
from bot.core.thread.state import ThreadState, fold_entries
from bot.testing.github.code_changes import LineNote
from bot.testing.github.faults import Fault, Plan
from bot.testing.model.reply import call, say
from tests.github.effects import BRANCH, JOURNAL, MISHAPS, PUSH
from tests.marks import long, soak
from tests.stories.github.deaths import (
    COMMENTS,
    MOMENTS,
    NO_PLAN_SHOWN,
    PULLS,
    REACTIONS,
    Death,
    Life,
    Mortal,
    disturb,
    record_life,
)
from tests.stories.github.ground import HOME, PATIENCE, Hub, Model, Story
from tests.stories.github.outcome import READY, exactly_one, is_ready
from tests.stories.github.runner import Runs, journal_of
from tests.stories.github.service import Served
from tests.stories.github.tasks import DAY, PATH, SHIPPING, operation, wake_due
from tests.stories.ground import until

FACES: Final = ("service", "action")
ALONE: Final = frozenset({"while the model plans", "while the model works", "after the work is journaled"})
"""Moments at which the program of a job alone is killed, and what it started must notice; else all of it dies."""
OFTEN: Final = {
    ("served", "after the pull request is made"),
    ("runs", "while the model plans"),
    ("runs", "after the pull request is made"),
}
PARTS: Final = 8
"""In how many pieces a campaign over all points is cut, so that they run side by side."""


@pytest.fixture
def face(request: pytest.FixtureRequest) -> Served | Runs:
    """The bot as a service, or as jobs of the Action."""
    made: Served | Runs = request.getfixturevalue(request.param)
    return made


@pytest.mark.timeout(0)
@pytest.mark.req("E1", "E3", "PR2", "PR3")
@pytest.mark.parametrize(
    ("face", "name"),
    [(long if cell in OFTEN else soak)(*cell) for cell in product(("served", "runs"), MOMENTS)],
    indirect=["face"],
)
def test_whatever_starts_after_a_kill_ends_the_story(face: Served | Runs, name: str) -> None:
    has_come = MOMENTS[name].strike(face, face.model)
    face.begin()
    face.opens("will")
    reacted = killed = False
    end = time.monotonic() + 2 * PATIENCE
    while not (killed and is_ready(face)):
        assert time.monotonic() < end, (killed, reacted, face.log())
        face.proceed()
        if not killed and has_come():
            face.die(alone=name in ALONE)
            killed = True
        if not reacted and face.plans():
            face.reacts("maya", "+1")
            reacted = True
        time.sleep(0.001)
    face.rest()
    exactly_one(face)
    assert not any(is_at_work(text) for text in face.said("progress"))
    assert face.github.faults.remaining_strikes == 0


@pytest.mark.timeout(0)
@pytest.mark.req("E1", "E3", "PR2", "PR3")
@pytest.mark.parametrize("mortal", (soak("action"), long("service")), indirect=True)
def test_three_deaths_by_chance_in_one_life_leave_one_of_everything(mortal: Mortal) -> None:
    chance, every = random.Random(0), record_life(mortal)
    assert len(every) > 25
    Life(mortal, chance, [every[n] for n in sorted(chance.sample(range(len(every)), 3))]).live()


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.req("E1", "E3", "PR2", "PR3")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("mortal", FACES, indirect=True)
def test_each_point_of_death_in_a_life_of_its_own(mortal: Mortal, seed: int, part: int) -> None:
    """Chance adds deaths, mishaps, a second process, and how people approve."""
    every = record_life(mortal)
    failed = []
    for death in every[part::PARTS]:
        chance = random.Random(f"{seed} {death}")
        life = Life(mortal, chance, disturb(death, every, chance))
        try:
            life.live()
        except AssertionError as error:
            failed.append(f"seed {seed}, #{life.number}, {life.strikes}: {error}")
            mortal.end()
            mortal.github.faults.clear()
    print(f"seed {seed}, part {part}: {len(every[part::PARTS])} deaths, {len(failed)} failed")  # noqa: T201
    assert failed == []


@pytest.mark.req("E1", "PR2")
@pytest.mark.parametrize("name", [(long if name == "done, then cut" else soak)(name) for name in MISHAPS])
async def test_lost_answers_to_every_kind_of_write_leave_one_of_everything(story: Story, name: str) -> None:
    faults = story.github.faults
    faults.plan(REACTIONS, MISHAPS[name])
    faults.plan(COMMENTS, MISHAPS[name], containing="plan mode")
    faults.plan(COMMENTS, MISHAPS[name], containing=READY)
    faults.plan(PULLS, MISHAPS[name])
    faults.plan(PUSH, MISHAPS[name], containing=BRANCH)
    faults.plan(PUSH, MISHAPS[name], containing=JOURNAL, after=2)
    story.opens("will")
    await story.persists()
    story.reacts("maya", "+1")
    assert (await story.persists()).stage is Stage.IN_REVIEW
    assert faults.remaining_strikes == 0
    exactly_one(story)


# A follow-up that is cut off around its push.

FEATURE: Final = "feature/AB#1-(x)+ü`@maya`"


def somebodys(hub: Hub) -> tuple[int, str]:
    """Return somebody's pull request of a branch of the repository, and the branch."""
    hub.person("will").push(HOME, {"NEW.md": "New.\n"}, branch=FEATURE)
    return hub.person("will").open_pull(HOME, "Ships free", head=FEATURE).number, FEATURE


def of_the_bot(hub: Mortal) -> tuple[int, str]:
    """Return the bot's own pull request, and its branch."""
    Life(hub).live()
    (branch,) = hub.branches()
    return hub.pulls()[0].number, branch


def commits(hub: Hub, branch: str, base: str) -> list[str]:
    """List what was committed to a branch since a commit."""
    bare = hub.world.bare(hub.world.repository(HOME))
    return bare.text("rev-list", f"{base}..refs/heads/{branch}").split()


def head(hub: Hub, branch: str) -> str:
    return hub.world.bare(hub.world.repository(HOME)).refs()[f"refs/heads/{branch}"]


def asks_in_a_review(hub: Hub, number: int, path: str) -> None:
    note = LineNote(path, 1, "Because of this.")
    hub.person("maya").review(HOME, number, "@plangate note it in the changelog.", notes=[note])


def is_there_once(hub: Hub, number: int, branch: str, base: str) -> None:
    """Hold one commit with the work, one closing word, and one reply in the review's thread."""
    (commit,) = commits(hub, branch, base)
    assert "ship free" in hub.file(branch, "CHANGELOG.md")
    assert [READY in text for text in hub.said("tell", number)] == [True], hub.said("tell", number)
    replies = [note for note in hub.world.review_comments_of(hub.issue(number)) if note.author == hub.bot]
    assert [marker.without(note.text.body) for note in replies] == [f"Addressed in {commit}."]
    assert len(hub.plans(number)) == 1


@pytest.mark.req("E1", "E3", "PR2", "PR3")
@pytest.mark.parametrize(
    ("mortal", "whose", "done"),
    [
        (long if each in {("service", of_the_bot, True), ("action", somebodys, False)} else soak)(*each)
        for each in product(FACES, (of_the_bot, somebodys), (True, False))
    ],
    indirect=["mortal"],
)
def test_a_follow_up_that_is_killed_at_its_push_is_pushed_once(
    mortal: Mortal, whose: Callable[[Mortal], tuple[int, str]], done: bool
) -> None:
    number, branch = whose(mortal)
    base = head(mortal, branch)
    mortal.model.turn_to_the_changelog()
    asks_in_a_review(mortal, number, "NEW.md" if whose is somebodys else "parcel/shipping.py")
    mortal.start(number).join()
    mortal.reacts("maya", "+1", *mortal.plans(number))
    death = Death(PUSH, f"refs/heads/{branch}", done=done)
    mortal.die(number, death, shows=lambda: len(commits(mortal, branch, base)) == done)
    is_there_once(mortal, number, branch, base)
    journal = journal_of(mortal, mortal.settings("reading"), number)
    assert fold_entries(journal).stage is Stage.IN_REVIEW
    assert [entry.kind for entry in journal].count("executed") == 1


async def at_the_push(story: Story, model: Model) -> str:
    """Have work on somebody's pull request pushed and cut off then, and return what it began on."""
    number, branch = somebodys(story)
    base = head(story, branch)
    model.turn_to_the_changelog()
    asks_in_a_review(story, number, "NEW.md")
    await story.rests(number)
    story.reacts("maya", "+1", story.plan)
    listing = Plan(f"GET /repos/{HOME}/pulls", Fault("status", 500), times=12)
    story.github.faults.add(Plan(PUSH, Fault("delay"), containing=f"refs/heads/{FEATURE}", then=(listing,)))
    with pytest.raises(Transient):
        await story.rests(1)
    assert len(commits(story, FEATURE, base)) == 1
    return base


@pytest.mark.soak
@pytest.mark.req("E1", "PR2", "PR3")
async def test_an_approval_that_is_taken_back_after_the_push_changes_nothing(story: Story, model: Model) -> None:
    base = await at_the_push(story, model)
    story.reacts("maya", "-1", story.plan)
    assert (await story.persists()).stage is Stage.IN_REVIEW
    assert story.github.faults.remaining_strikes == 0
    is_there_once(story, 1, FEATURE, base)


@pytest.mark.long
@pytest.mark.req("E1", "PR2", "PR3")
async def test_work_that_is_stopped_after_its_push_and_retried_is_not_done_twice(story: Story, model: Model) -> None:
    base = await at_the_push(story, model)
    worked = model.worked
    story.says("maya", "@plangate stop")
    assert (await story.persists()).stage is Stage.STOPPED
    story.says("maya", "@plangate retry")
    assert (await story.persists()).stage is Stage.IN_REVIEW
    assert model.worked == worked
    assert len(commits(story, FEATURE, base)) == 1
    assert READY in story.said("tell")[-1]


@pytest.mark.long
@pytest.mark.req("E1", "PR2", "PR3")
async def test_nothing_is_pushed_over_what_others_push_on_top(story: Story, model: Model) -> None:
    base = await at_the_push(story, model)
    story.person("will").push(HOME, {"CHANGELOG.md": "Mine.\n"}, branch=FEATURE)
    assert (await story.persists()).stage is Stage.STALE
    assert len(commits(story, FEATURE, base)) == 2
    assert story.file(FEATURE, "CHANGELOG.md") == "Mine.\n"


# Operations on issues.

REQUESTS: Final = {
    "add_label": "POST /repos/{}/issues/{}/labels",
    "comment": "POST /repos/{}/issues/{}/comments",
    "remove_label": "DELETE /repos/{}/issues/{}/labels/*",
    "close": "PATCH /repos/{}/issues/{}",
}


def maintain(mortal: Mortal) -> None:
    """Run one pass of a service that dies right afterward, and leaves every check to others."""

    async def run() -> None:
        async with mortal.host("disk", run="") as host:
            await wake_due(host, lambda _: None)

    asyncio.run(run())


def has_happened(mortal: Mortal, target: int, kind: str) -> bool:
    issue = mortal.issue(target)
    shows = {
        "add_label": "stale" in issue.labels,
        "comment": bool(mortal.comments(target)),
        "remove_label": "bug" not in issue.labels,
        "close": issue.state == "closed",
    }
    return shows[kind]


@pytest.mark.req("MT7", "E1", "E3")
@pytest.mark.parametrize("mortal", ("service",), indirect=True)
@pytest.mark.parametrize(
    ("kind", "done"),
    [(long if each == ("comment", True) else soak)(*each) for each in product(REQUESTS, (False, True))],
)
def test_an_operation_at_which_the_bot_is_killed_is_done_once(mortal: Mortal, kind: str, done: bool) -> None:
    """Nothing is done twice, nothing is left out, and the report says that all are done."""
    target = mortal.opens("rita", "It breaks.", title="A").number
    mortal.person("ada").label(HOME, target, "bug")
    mortal.person("ada").push(HOME, {PATH: f"maintenance:\n{SHIPPING}"})
    maintain(mortal)
    texts = {"add_label": "stale", "comment": "Is this still so?", "remove_label": "bug"}
    work = [operation(each, target, texts.get(each, "")) for each in REQUESTS]
    mortal.model.before = (call("exit_plan_mode", plan="Look after it.", operations=work), say("No."))
    mortal.clock.advance(DAY)
    maintain(mortal)
    mortal.start(2).join()
    mortal.reacts("maya", "+1", *mortal.plans(2))
    death = Death(REQUESTS[kind].format(HOME, target), done=done)
    mortal.die(2, death, shows=lambda: has_happened(mortal, target, kind) == done)
    assert all(has_happened(mortal, target, each) for each in REQUESTS)
    assert [each.text.body.partition("\n")[0] for each in mortal.comments(target)] == ["Is this still so?"]
    (told,) = mortal.said("tell", 2)
    assert told.count("| done |") == len(REQUESTS)
    kinds = [entry.kind for entry in journal_of(mortal, mortal.settings("reading"), 2)]
    assert kinds.count("operated") == len(REQUESTS)


# Two jobs, or two services, that find at the same time what a dead one left behind.

ON_BOTH_FACES: Final = pytest.mark.parametrize("mortal", (long("action"), soak("service")), indirect=True)
SLOW: Final = 6.0
"""Seconds for which one job stands still, while another does what it was about to do."""


def check_twice(mortal: Mortal, number: int, *, overtaken: bool = False) -> Sequence[ThreadState | BaseException]:
    """Check a thread as two jobs do that begin together; or as one that stands still where a fault was planned, and
    one that takes the thread over meanwhile."""

    async def check() -> Sequence[ThreadState | BaseException]:
        runs = ("8000001", "8000002") if mortal.action else ("", "")
        jobs: list[HostSetup] = [mortal.host(f"late-{n}", run=run) for n, run in enumerate(runs)]
        async with jobs[0] as first, jobs[1] as second:
            slow = asyncio.ensure_future(first.check_thread(mortal.address(number)))
            if overtaken:
                faults = mortal.github.faults
                await asyncio.to_thread(until, lambda: faults.remaining_strikes == 0, "it stands still")
            return await asyncio.gather(slow, second.check_thread(mortal.address(number)), return_exceptions=True)

    return asyncio.run(check())


def conflicts(found: Sequence[ThreadState | BaseException]) -> int:
    return sum(isinstance(each, Conflict) for each in found)


@ON_BOTH_FACES
@pytest.mark.req("E1", "E4", "PR2")
def test_of_two_that_find_an_untold_pull_request_one_tells_it(mortal: Mortal) -> None:
    life = Life(mortal, strikes=[Death(COMMENTS, READY, done=False)])
    life.live_until_dead()
    assert conflicts(check_twice(mortal, life.number)) == 1
    exactly_one(mortal, life.number)


@ON_BOTH_FACES
@pytest.mark.req("E1", "E4", "PR2")
def test_of_two_that_find_a_plan_that_was_never_shown_one_shows_it(mortal: Mortal) -> None:
    Life(mortal, strikes=[NO_PLAN_SHOWN]).live_until_dead()
    assert conflicts(check_twice(mortal, 1)) == 1
    assert len(mortal.plans()) == 1


@ON_BOTH_FACES
@pytest.mark.req("E1", "E4", "PR2")
def test_a_job_that_stood_still_sees_the_plan_of_another_and_posts_nothing(mortal: Mortal) -> None:
    Life(mortal, strikes=[NO_PLAN_SHOWN]).live_until_dead()
    look_up = f"GET /repos/{HOME}/issues/1/comments"
    mortal.github.faults.plan(look_up, Fault("delay", seconds=SLOW, done=True))
    slow, quick = check_twice(mortal, 1, overtaken=True)
    assert isinstance(slow, Conflict)
    assert isinstance(quick, ThreadState)
    assert len(mortal.plans()) == 1


@ON_BOTH_FACES
@pytest.mark.req("E1", "E4", "PR2")
def test_of_two_plans_that_github_could_not_prevent_the_first_stays(mortal: Mortal) -> None:
    Life(mortal, strikes=[NO_PLAN_SHOWN]).live_until_dead()
    mortal.github.faults.plan(COMMENTS, Fault("delay", seconds=SLOW), containing="plan mode")
    slow, quick = check_twice(mortal, 1, overtaken=True)
    assert isinstance(slow, Conflict)
    assert isinstance(quick, ThreadState)
    (stays,) = mortal.plans()
    assert (stays.minimized, quick.plan.comment) == (None, stays.node_id)
    mortal.reacts("maya", "+1", stays)
    mortal.start(1).join()
    assert len(mortal.pulls()) == 1


@ON_BOTH_FACES
@pytest.mark.req("E1", "E4", "PR2")
def test_of_two_that_see_a_yes_that_does_not_count_one_says_why(mortal: Mortal) -> None:
    """No later check says it again."""
    number = mortal.opens("will").number
    mortal.start(number).join()
    mortal.reacts("rita", "+1", mortal.plans(number)[0])
    assert conflicts(check_twice(mortal, number)) == 1
    marked = len(mortal.github.requests)
    mortal.start(number).join()
    (said,) = mortal.said("waits", number)
    assert "`@rita`" in said
    assert not [each for each in mortal.github.requests[marked:] if each.path.endswith(f"/issues/{number}/comments")]
