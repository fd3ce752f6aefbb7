"""One open pull request for each branch, whatever is lost or done twice."""

from dataclasses import replace

import pytest

from bot.core.errors import Refused, Transient
from bot.core.names import ThreadNumber
from bot.core.turn import Acknowledgment, Actor
from bot.core.work import PullOrder
from bot.github.checks import PullCheckReader
from bot.github.pulls import GitHubPulls
from bot.github.tasks import OPEN_LABEL
from bot.github.tokens import AppTokens
from bot.testing.github.faults import Fault
from tests.github.conftest import HOME, Ground, turns_of
from tests.github.reading import Reading

ORDER = PullOrder("plangate/1-fix", "main", "Fix it", "What and why.\n\nCloses #1")


def pulls(ground: Ground) -> GitHubPulls:
    ground.person("will").push(HOME, {"src/a.py": "a = 2\n"}, branch=ORDER.branch)
    return GitHubPulls(ground.client, ground.address, ground.bot)


def there(ground: Ground) -> int:
    return sum(issue.pull is not None for issue in ground.github.world.issues.values())


@pytest.mark.req("PR2")
async def test_pull_request_is_made_once(ground: Ground) -> None:
    port = pulls(ground)
    assert await port.ensure(ORDER) == await port.ensure(ORDER)
    assert there(ground) == 1


@pytest.mark.req("PR2", "E1")
@pytest.mark.parametrize("done", (True, False))
async def test_lost_answer_makes_no_second_pull_request(ground: Ground, done: bool) -> None:
    port = pulls(ground)
    ground.github.faults.fail("POST */pulls", 502, done=done)
    if done:
        await port.ensure(ORDER)
    else:
        with pytest.raises(Transient):
            await port.ensure(ORDER)
        await port.ensure(ORDER)
    assert there(ground) == 1


@pytest.mark.req("E1")
async def test_pull_request_that_github_does_not_show_yet_is_read_again(ground: Ground) -> None:
    port = pulls(ground)
    await ground.client.get(ground.address.path)  # the token is older than what is read
    ground.github.faults.stale("GET */pulls/*", times=2)
    assert await port.head((await port.ensure(ORDER)).number) is not None
    assert there(ground) == 1


async def test_closed_pull_request_is_not_made_again_by_the_same_order(ground: Ground) -> None:
    port = pulls(ground)
    made = await port.ensure(ORDER)
    ground.person("ada").close(HOME, made.number)
    assert await port.ensure(ORDER) == made
    other = PullOrder(ORDER.branch, "main", "Fix it", "Another text")
    assert (await port.ensure(other)).number != made.number


@pytest.mark.req("A4b", "PR2")
async def test_a_pull_request_is_not_made_of_one_commit_twice(ground: Ground) -> None:
    """Whatever somebody made of its text, and though it is closed, it is known by its commit, and by its branch."""
    port = pulls(ground)
    assert await port.find(ORDER.branch) is None
    head = ground.github.world.bare(ground.github.world.repository(HOME)).refs()[f"refs/heads/{ORDER.branch}"]
    order = replace(ORDER, commit=head)
    made = await port.ensure(order)
    ground.person("ada").edit_issue(HOME, made.number, body="Nothing.")
    ground.person("ada").close(HOME, made.number)
    assert (await port.ensure(order)).number == made.number
    assert await port.find(ORDER.branch) == made.number
    assert await port.find("plangate/1-fix-r2") is None


async def test_branch_without_commits_of_its_own_is_refused(ground: Ground) -> None:
    port = pulls(ground)
    with pytest.raises(Refused):
        await port.ensure(PullOrder("nothing-there", "main", "t", "b"))
    assert there(ground) == 0


def attended(ground: Ground, number: int) -> tuple[list[str], list[str]]:
    """The labels of a pull request, and who was asked to review it."""
    world = ground.github.world
    issue = world.issue(HOME, number)
    assert issue.pull is not None
    return sorted(issue.labels), sorted(world.users[each].login for each in issue.pull.requested_reviewers)


async def test_labels_and_reviewers_are_added_once(ground: Ground) -> None:
    port = pulls(ground)
    order = replace(ORDER, labels=("by bot", "shipping"), reviewers=("mia", "ada"))
    made = [await port.ensure(order) for _ in range(2)]
    assert made[0] == made[1]
    assert made[0].undone == ()
    assert attended(ground, made[0].number) == (["by bot", "shipping"], ["ada", "mia"])
    assert there(ground) == 1


async def test_an_author_is_not_asked_to_review(ground: Ground) -> None:
    """In a person's own pull request the person may have approved the plan: GitHub would refuse the whole request."""
    port = pulls(ground)
    number = ground.person("will").open_pull(HOME, "Mine", head=ORDER.branch).number
    made = await port.ensure(replace(ORDER, reviewers=("Will", "mia")))
    assert (made.number, made.undone) == (number, ())
    assert attended(ground, number) == ([], ["mia"])


async def test_label_or_reviewer_that_cannot_be_added_is_named_and_stops_nothing(ground: Ground) -> None:
    port = pulls(ground)
    ground.github.faults.fail("POST */labels", 500, times=99)
    made = await port.ensure(replace(ORDER, draft=True, labels=("x",), reviewers=("stranger", "mia")))
    assert made.draft
    assert [undone.split(":")[0] for undone in made.undone] == ["labels", "reviewer stranger"]
    assert attended(ground, made.number) == ([], ["mia"])


async def test_repository_without_drafts_gets_a_pull_request_that_is_ready(ground: Ground) -> None:
    port = pulls(ground)
    refusal = Fault("status", 422, message="Draft pull requests are not supported in this repository.")
    ground.github.faults.plan("POST */pulls", refusal, times=99, containing='"draft": true')
    made = await port.ensure(replace(ORDER, draft=True))
    assert (made.draft, [undone.split(":")[0] for undone in made.undone]) == (False, ["draft"])
    assert there(ground) == 1


async def test_closed_pull_request_gets_neither_labels_nor_reviewers(ground: Ground) -> None:
    port = pulls(ground)
    made = await port.ensure(ORDER)
    ground.person("ada").close(HOME, made.number)
    await port.ensure(replace(ORDER, labels=("x",), reviewers=("mia",)))
    assert attended(ground, made.number) == ([], [])


# Whose pull requests' checks are read: those that the bot made, not all that its account opened (MT9)


@pytest.mark.req("MT9")
@pytest.mark.parametrize(("branch", "ours"), (("plangate/7-topic", True), ("topic", False), ("plangate/topic", False)))
async def test_pull_requests_of_other_workflows_are_not_ours(ground: Ground, branch: str, ours: bool) -> None:
    """In a job, every workflow speaks as github-actions[bot], and opens pull requests of its own."""
    account = ground.github.world.user("will")
    will = ground.person("will")
    will.push(HOME, {"src/a.py": "a = 2\n"}, branch=branch)
    number = ThreadNumber(will.open_pull(HOME, "Change", head=branch).number)
    reader = PullCheckReader(ground.client, ground.address, Actor(account.id, "will"), Reading(ground).reader.results)
    assert (await reader.read(number) is not None, number in await reader.open_heads()) == (ours, ours)


# The label on the threads that the bot works on: set once, taken off when the thread is closed, and never needed


async def take_in(ground: Ground, thread: ThreadNumber, sign: Acknowledgment = Acknowledgment.SEEN) -> frozenset[str]:
    """Read a thread as a job does, acknowledge what was said, and return the thread's labels."""
    dialogue = ground.dialogue(thread, labels=True)
    for turn in await turns_of(dialogue):
        await dialogue.acknowledge(turn, sign)
    return frozenset(ground.github.world.issue(HOME, thread).labels)


def writes(ground: Ground) -> int:
    return len([asked for asked in ground.asked() if "/labels" in asked and not asked.startswith("GET")])


async def test_first_accepted_turn_labels_its_thread_once(ground: Ground) -> None:
    thread = ground.issue()
    ground.person("mia").label(HOME, thread, "bug")
    ground.person("mia").comment(HOME, thread, "@plangate and the docs")
    assert await take_in(ground, thread) == {"bug", OPEN_LABEL}
    assert await take_in(ground, thread) == {"bug", OPEN_LABEL}
    assert writes(ground) == 1


async def test_pull_request_is_labeled_too(ground: Ground) -> None:
    ground.person("will").push(HOME, {"src/a.py": "a = 2\n"}, branch="topic")
    pull = ground.person("will").open_pull(HOME, "Topic", head="topic", body="@plangate tidy up")
    assert await take_in(ground, ThreadNumber(pull.number)) == {OPEN_LABEL}


async def test_only_what_is_accepted_labels(ground: Ground) -> None:
    """Strangers cannot make a thread the bot's, and neither the service nor a terminal labels anything."""
    thread = ground.issue(by="rea")
    assert await take_in(ground, thread, Acknowledgment.MAY_NOT) == frozenset()
    dialogue = ground.dialogue(thread)
    for turn in await turns_of(dialogue):
        await dialogue.acknowledge(turn, Acknowledgment.SEEN)
    assert writes(ground) == 0


async def test_label_ends_with_the_thread_and_returns_after_reopening(ground: Ground) -> None:
    """Closing takes it off. A mention on a closed thread does not bring it back; one after reopening does."""
    thread = ground.issue()
    await take_in(ground, thread)
    ground.person("mia").close(HOME, thread)
    assert await take_in(ground, thread) == frozenset()
    ground.person("mia").comment(HOME, thread, "@plangate status")
    assert await take_in(ground, thread) == frozenset()
    assert writes(ground) == 2
    ground.person("mia").reopen(HOME, thread)
    assert await take_in(ground, thread) == {OPEN_LABEL}


async def test_refused_label_stops_nothing(ground: Ground) -> None:
    thread = ground.issue()
    tokens = ground.client.credentials
    assert isinstance(tokens, AppTokens)
    ground.client.credentials = replace(tokens, permissions={"issues": "read", "contents": "read"})
    assert await take_in(ground, thread) == frozenset()
    assert writes(ground) == 1
