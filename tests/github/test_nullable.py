"""Every field that GitHub may leave out or set to null, by its own schemas, in everything that the room reads (A3).

A read may end with an error that the bot knows, and then is tried again or told; a snapshot is incomplete. It never
ends with an error of the program.
"""

import json
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import Any, TypeAlias

import pytest

from bot.core.brief import Topic
from bot.core.errors import PlangateError
from bot.core.marker import Key
from bot.core.names import ThreadNumber
from bot.core.turn import Acknowledgment, Actor
from bot.core.work import PullOrder, Review, ReviewFinding, Severity
from bot.github import repository
from bot.github.activity import active_threads, fingerprints, repository_activities, repository_activity
from bot.github.app import delivery_attempts
from bot.github.checks import PullCheckReader
from bot.github.deliveries import Malformed, Payload, parse_delivery
from bot.github.edit_history import provenances
from bot.github.pull_facts import PullReader
from bot.github.pulls import GitHubPulls
from bot.github.repository import (
    app_bot,
    app_installations,
    file,
    installation_on,
    installation_repositories,
    repository_by_name,
)
from bot.github.responses import Incomplete
from bot.github.tasks import IssueOperations, TaskGateway, newest_change
from bot.testing.github.code_changes import LineNote
from bot.testing.github.faults import Fault
from tests.github.conftest import HOME, Ground, Signed, no_fence, turns_of
from tests.github.effects import tracking
from tests.github.nullable import Recorder, described, without
from tests.github.reading import Reading, fail_job, text_of
from tests.github.shown import Shown
from tests.github.test_answers import Asked
from tests.github.test_deliveries import examples
from tests.testing.github.oracles import WEBHOOKS, needs_oracles

pytestmark = pytest.mark.req("A3")
Read: TypeAlias = Callable[[], Awaitable[Any]]


async def plan(ground: Ground, tier: str = "high") -> Read:
    """A plan with opinions of every kind, on a branch that moved."""
    shown = await Shown.on(ground, tier=tier)
    for login, content in (("mia", "+1"), ("ada", "-1"), ("stranger", "rocket")):
        ground.person(login).react(shown.comment, content)
    ground.person("will").comment(HOME, shown.plan.thread, "@plangate approve")
    ground.person("ada").push(HOME, {"src/a.py": "a = 2\n"})
    return shown.look


def pull(ground: Ground, branch: str = "topic") -> ThreadNumber:
    """A pull request that was reviewed, and whose checks are red."""
    ground.person("will").push(HOME, {"src/a.py": "a = 2\n", "src/c.py": "c = 1\n"}, branch=branch)
    number = ThreadNumber(ground.person("will").open_pull(HOME, "Topic", head=branch, body="Closes #1").number)
    ground.person("mia").comment(HOME, number, "Hm.")
    ground.person("mia").review(HOME, number, "See.", notes=[LineNote("src/a.py", 1, "@plangate tidy up")])
    ground.person("mia").review(HOME, number, notes=[LineNote("src/a.py", 1, "@plangate why?")])
    fail_job(
        ground, str(ground.github.world.bare(ground.github.world.repository(HOME)).refs()[f"refs/heads/{branch}"]), b"x"
    )
    return number


async def turns(ground: Ground) -> Read:
    number = ground.issue()
    will = ground.person("will")
    will.comment(HOME, number, "@plangate and the docs")
    will.label(HOME, number, "plangate")
    will.edit_issue(HOME, number, body="please @plangate fix it all")

    async def read() -> None:
        dialogue = ground.dialogue(number, told="issue")
        await dialogue.subject()
        await dialogue.acknowledge_reported(may_ask=lambda _: True)
        for turn in await turns_of(dialogue):
            await dialogue.hidden_fragments(turn)
            await dialogue.asked_before(turn)
        await dialogue.context()
        await dialogue.closed_since(ground.clock.now() - timedelta(days=1))
        await dialogue.find_unrecorded_comment(0, 0)

    return read


async def pull_turns(ground: Ground) -> Read:
    number = pull(ground)

    async def read() -> None:
        dialogue = ground.dialogue(number)
        await dialogue.subject()
        await turns_of(dialogue)
        await dialogue.context()

    return read


async def pull_facts(ground: Ground) -> Read:
    number = pull(ground)
    (review, _) = ground.github.world.reviews_of(ground.github.world.issue(HOME, number))
    return lambda: PullReader(ground.client, ground.address).read(number, review.node_id)


async def pull_checks(ground: Ground) -> Read:
    number = pull(ground, "plangate/1-topic")
    account = Actor(ground.github.world.user("will").id, "will")
    reader = PullCheckReader(ground.client, ground.address, account, Reading(ground).reader.results)

    async def read() -> None:
        await reader.open_heads()
        await reader.is_under_way()
        await reader.read(number)

    return read


async def pulls(ground: Ground) -> Read:
    ground.person("will").push(HOME, {"src/b.py": "b = 2\n"}, branch="topic")
    order = PullOrder("topic", "main", "Topic", "Body", labels=("by bot",), reviewers=("mia",))
    made = GitHubPulls(ground.client, ground.address, ground.bot)
    number = (await made.ensure(order)).number

    async def read() -> None:
        await made.ensure(order)
        await made.head(number)
        await made.is_merged(number)
        await made.find("topic")
        await made.open_on(ThreadNumber(1))

    return read


async def facts(ground: Ground) -> Read:
    async def read() -> None:
        await repository.repository(ground.client, ground.address)
        await app_bot(ground.app, ground.client)
        await file(ground.client, ground.address, "README.md", "main")
        await installation_on(ground.app, ground.address)
        await repository_by_name(ground.client, ground.address)
        assert [each async for each in app_installations(ground.app)]
        [each async for each in delivery_attempts(ground.app)]
        [each async for each in installation_repositories(ground.client)]
        await newest_change(ground.client, ground.address, "src/a.py")

    return read


async def activity(ground: Ground) -> Read:
    since = ground.clock.now() - timedelta(days=1)
    ground.issue()
    pull(ground)

    async def read() -> None:
        one = await repository_activity(ground.client, ground.address)
        await repository_activities(ground.client, [one.node])
        async for thread in active_threads(ground.client, one, since):
            assert thread.thread.number

    return read


async def comments(ground: Ground) -> Read:
    shown = await Shown.on(ground)
    ground.person("mia").react(shown.comment, "+1")
    node = shown.comment.node_id

    async def read() -> None:
        await fingerprints(ground.client, [node])
        await provenances(ground.client, [node])

    return read


async def posts(ground: Ground) -> Read:
    """What is posted, each time as if for the first time, for another ask."""
    asks = count(10)
    shown = await Shown.on(ground, ground.issue())

    async def write() -> None:
        dialogue, ask = ground.dialogue(shown.plan.thread), next(asks)
        await dialogue.progress("at work", ask)
        await dialogue.end_progress("done", ask)
        await dialogue.post("Done.", ask)
        await shown.dialogue.show_work_begun(shown.plan, shown.node, f"Work {ask} began.")
        await shown.dialogue.supersede(shown.node, f"Plan {ask} replaces it.")

    return write


async def replies(ground: Ground) -> Read:
    """A review, and a reply to a review, each time for another ask."""
    asks = count(10)
    number = pull(ground)
    (turn, *_) = await turns_of(ground.dialogue(number))
    head = (await ground.dialogue(number).subject()).pull
    assert head is not None

    async def write() -> None:
        dialogue, ask = ground.dialogue(number), next(asks)
        finding = ReviewFinding("src/a.py", 1, Severity.LOW, f"Why {ask}?")
        await dialogue.review(Review(f"Good {ask}.", (finding,), head.head), ask)
        await dialogue.acknowledge(turn, Acknowledgment.SEEN)
        await dialogue.reply([turn.key], f"So {ask}.", ask)

    return write


async def question(ground: Ground) -> Read:
    asked = Asked(ground)
    await asked.ask()
    ground.person("will").comment(HOME, asked.thread, "Yes, do.")
    ground.person("mia").tick(asked.comment.id, 0)
    return asked.look


async def issues(ground: Ground) -> Read:
    """What checks and operations of scheduled tasks read of issues."""
    number = ground.issue()
    ground.person("will").label(HOME, number, "bug")
    operations = IssueOperations(
        ground.client, ground.address, ground.bot, Key(Signed().key_id, Signed().mac), no_fence
    )
    reader = Reading(ground).reader
    checks = TaskGateway(ground.client, ground.address, reader.results, reader.attribution, operations, "src/a.py")

    async def read() -> None:
        await operations.target(number)
        await checks.run_check("stale-issues", {"days": ("0",)}, ground.head)
        await checks.configuration_change()

    return read


async def settings(ground: Ground) -> Read:
    """What doctor reads."""

    async def read() -> None:
        at, client = ground.address, ground.client
        found = await repository.profile(client, at)
        await repository.plan(client, found)
        for look in (
            repository.actions_policy,
            repository.may_actions_open_pulls,
            repository.secrets_of_repository,
            repository.rulesets,
        ):
            with suppress(PlangateError):
                await look(client, at)
        await repository.branch_rules(client, at, "main")

    return read


async def tracked(ground: Ground) -> Read:
    issues = tracking(ground)
    number = await issues.open("deps", "Deps", "- [ ] Run now")
    ground.person("will").edit_issue(
        HOME, number, body=ground.github.world.issue(HOME, number).text.body.replace("[ ]", "[x]")
    )
    return lambda: issues.read_all([number])


def reading(topic: Topic) -> Callable[[Ground], Awaitable[Read]]:
    async def prepare(ground: Ground) -> Read:
        ground.issue()
        number = pull(ground)
        about = {"commit": str(ground.head)} if topic in {Topic.COMMIT, Topic.CHECKS} else {}
        return lambda: Reading(ground).read(topic, 0 if about else number, **about)

    return prepare


READS: dict[str, Callable[[Ground], Awaitable[Read]]] = {
    "a plan": plan,
    "turns": turns,
    "turns of a pull request": pull_turns,
    "a pull request": pull_facts,
    "checks": pull_checks,
    "pull requests of the bot": pulls,
    "facts": facts,
    "activity": activity,
    "comments": comments,
    "a tracking issue": tracked,
    "what is posted": posts,
    "replies": replies,
    "a question": question,
    "issues": issues,
    "settings": settings,
    **{f"GitHubRead of {topic}": reading(topic) for topic in Topic},
}


async def failures(ground: Ground, prepare: Callable[[Ground], Awaitable[Read]]) -> list[str]:
    """Return how a read fails, for each place in turn at which GitHub may answer nothing."""
    read = await prepare(ground)
    recorder = Recorder.of(ground)
    await read()
    found, asked = [], len(ground.github.requests)
    for place in [*recorder.places]:
        recorder.changed = place
        try:
            result = repr(await read())
        except PlangateError as error:
            result = str(error)
        except Exception as error:  # noqa: BLE001 - the errors that this test is about
            found.append(f"{place}: {error!r}")
            continue
        new, asked = ground.github.requests[asked:], len(ground.github.requests)
        texts = [result, *(f"{logged.path}?{logged.query} {logged.body.decode()}" for logged in new)]
        found += [f"{place}: writes None" for text in texts if _NONE.search(text)]
    return found


_NONE = re.compile(r"\bNone\b(?=[@:\[/-])|(?<=[/@'-])None\b")
"""A missing value in the middle of a text."""


@pytest.mark.long
@needs_oracles
@pytest.mark.parametrize("name", READS)
async def test_whatever_github_leaves_out_is_no_error_of_the_program(ground: Ground, name: str) -> None:
    assert "\n".join(await failures(ground, READS[name])) == ""


@pytest.mark.long
@needs_oracles
@pytest.mark.req("W2")
@pytest.mark.parametrize("event", sorted({event for event, _ in examples()}))
def test_a_delivery_is_read_whatever_it_leaves_out(event: str) -> None:
    assert WEBHOOKS is not None
    root = json.loads(WEBHOOKS.read_text())
    found = set[str]()
    for name, body in examples():
        payload = json.loads(body)
        schema = root["definitions"].get(f"{event}${payload.get('action')}") if name == event else None
        for path, absent in dict.fromkeys(described(schema, payload, root)) if schema else ():
            if path and path[0] in Payload.model_fields:
                try:
                    parse_delivery(event, json.dumps(without(payload, path, absent=absent)).encode())
                except Malformed as error:
                    found.add(f"{event}: {'.'.join(path)}: {error}")
    assert found == set()


def change(ground: Ground, requests: str, path: str, *, absent: bool = False, containing: str = "") -> None:
    """Let GitHub answer these requests with null, or nothing, at a path."""
    steps = tuple(path.split("."))
    fault = Fault("alter", alter=lambda _, body: without(body, steps, absent=absent))
    ground.github.faults.plan(requests, fault, times=9, containing=containing)


@pytest.mark.parametrize(
    ("topic", "path", "absent", "shown"),
    (
        (Topic.COMMIT, "commit.author", False, "an unknown author: "),
        (Topic.ISSUE, "body", True, "issue #1, open, "),
        (Topic.ISSUE, "labels.[].name", False, "issue #1, open, "),
        (Topic.COMMENTS, "[].body", True, "comment by @will"),
    ),
)
async def test_a_session_reads_what_is_there(ground: Ground, topic: Topic, path: str, absent: bool, shown: str) -> None:
    number = ground.issue()
    ground.person("will").comment(HOME, number, "Hm.")
    ground.person("will").label(HOME, number, "bug")
    change(ground, f"GET /repos/{HOME}/*", path, absent=absent)
    about: dict[str, Any] = {"commit": str(ground.head)} if topic is Topic.COMMIT else {"number": number}
    assert shown in text_of(await Reading(ground).read(topic, **about))


async def test_a_snapshot_that_lacks_something_is_incomplete(ground: Ground) -> None:
    shown = await Shown.on(ground)
    change(ground, "POST /graphql", "data.repository.ref.target", containing="THUMBS_UP")
    assert not (await shown.look()).complete


async def test_a_branch_without_a_commit_has_no_head(ground: Ground) -> None:
    change(ground, "POST /graphql", "data.repository.defaultBranchRef.target")
    assert (await repository.repository(ground.client, ground.address)).head is None


async def test_what_cannot_be_named_is_asked_for_again(ground: Ground) -> None:
    change(ground, "POST /graphql", "data.repository.databaseId")
    with pytest.raises(Incomplete, match="the repository's id"):
        await repository.repository(ground.client, ground.address)
