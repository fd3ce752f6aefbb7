"""What no delivery and no event told costs only time, on both faces (W2, W3, W4)."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pytest

from bot.core.gate import Stage
from bot.core.names import ThreadAddress
from bot.core.thread.state import fold_entries
from bot.github.deliveries import parse_delivery
from bot.github.repository import Address
from bot.service.inbox import Delivery, Inbox
from bot.service.queue.file_store import FileStore
from bot.service.queue.queue_port import Outcome
from bot.service.reconcile import Reconciler, unreported_threads
from bot.service.service import PeriodicWork, Service
from bot.service.worker import Worker
from bot.testing.github import conversation
from bot.testing.github.code_changes import LineNote
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.github.webhooks import DeliveryAttempt
from tests.action.jobs import MARKER
from tests.marks import long, soak
from tests.stories.github.ground import HOME, PATIENCE, WISH, Hub, Story
from tests.stories.github.outcome import READY
from tests.stories.github.service import Served
from tests.stories.github.workflow_jobs import WorkflowJobs
from tests.stories.ground import until

ASK = f"@plangate {WISH}"


def in_the_body(hub: Hub) -> int:
    return hub.opens("will").number


def in_a_comment(hub: Hub) -> int:
    number = hub.opens("rita", "Orders of exactly 50 pay for shipping.").number
    hub.says("will", ASK, number)
    return number


def with_the_bots_hidden_line(hub: Hub) -> int:
    number = hub.opens("rita", "Orders of exactly 50 pay for shipping.").number
    hub.says("will", f"{ASK}\n\n{MARKER}", number)
    return number


def by_label(hub: Hub) -> int:
    number = hub.opens("rita", WISH).number
    hub.person("will").label(HOME, number, "plangate")
    return number


def by_an_edit(hub: Hub) -> int:
    """No condition lets the edit of a person's comment through."""
    number = hub.opens("rita", WISH).number
    conversation.edit_comment(hub.person("will"), hub.says("will", "Please do.", number), "@plangate please do.")
    return number


def in_a_review(hub: Hub) -> int:
    """Its body starts a job, in the pull request's own ref, that hands the thread on."""
    return _review(hub, ASK)


def beside_a_line(hub: Hub) -> int:
    """No condition lets the comments inside a review through."""
    return _review(hub, "See below.", LineNote("docs/topic.md", 1, ASK))


def _review(hub: Hub, body: str, *notes: LineNote) -> int:
    branch = f"topic-{len(hub.world.issues)}"
    hub.person("will").push(HOME, {"docs/topic.md": "A line.\n"}, branch=branch)
    number = hub.person("will").open_pull(HOME, "Topic", head=branch, body="A topic.").number
    hub.person("maya").review(HOME, number, body, notes=list(notes))
    return number


def by_reaction(hub: Hub, number: int) -> None:
    hub.reacts("maya", "+1", hub.plans(number)[0])


def by_a_tick(hub: Hub, number: int) -> None:
    hub.person("maya").tick(hub.plans(number)[0].id)


def by_words(hub: Hub, number: int) -> None:
    hub.says("maya", "@plangate approve", number)


def against_it(hub: Hub, number: int) -> None:
    hub.reacts("maya", "-1", hub.plans(number)[0])


def with_a_reason(hub: Hub, number: int) -> None:
    hub.says("maya", "@plangate reject Not now.", number)


def closed(hub: Hub, number: int) -> None:
    """Nothing approves a plan on a closed thread, until somebody opens it again."""
    hub.person("maya").close(HOME, number)
    by_reaction(hub, number)


def not_at_all(_: Hub, __: int) -> None:
    """The plan waits on."""


ISSUES = (in_the_body, in_a_comment, with_the_bots_hidden_line, by_label, by_an_edit)
PULLS = (in_a_review, beside_a_line)
APPROVALS = (by_reaction, by_a_tick, by_words)
Decision = Callable[[Hub, int], None]
OTHERS: dict[Decision, Stage] = {
    against_it: Stage.REJECTED,
    with_a_reason: Stage.REJECTED,
    closed: Stage.AWAITING_APPROVAL,
    not_at_all: Stage.AWAITING_APPROVAL,
}


COPIES: Final = 5
LOST, LATE = 0.2, 0.2
"""Shares of the deliveries that never come, and of the copies that come an hour late."""
_NOWHERE: Final = "http://127.0.0.1:9/webhooks/github"


@dataclass(slots=True)
class Mail:
    """Takes what GitHub would deliver, and hands it to a service in its own time."""

    github: SimulatedGitHub
    service: Service
    chance: random.Random
    lost: int = 0
    _late: list[DeliveryAttempt] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)

    def begin(self) -> None:
        self.github.webhooks.hook_app(self.github.app, _NOWHERE)

    async def post(self) -> None:
        """Deliver what happened since the last time, except for what is lost or late."""
        await asyncio.to_thread(self.github.webhooks.drain, 60)
        fresh = [each for each in self.github.webhooks.deliveries if each.id not in self._seen]
        self._seen.update(each.id for each in fresh)
        kept = [each for each in fresh if self.chance.random() >= LOST]
        self.lost += len(fresh) - len(kept)
        copies = self._shuffled(kept)
        late = [each for each in copies if self.chance.random() < LATE]
        self._late += late
        for each in copies:
            if each not in late:
                await self._deliver(each)

    async def post_late(self) -> None:
        """Deliver what is an hour late."""
        late, self._late = self._late, []
        for each in late:
            await self._deliver(each)

    def _shuffled(self, deliveries: list[DeliveryAttempt]) -> list[DeliveryAttempt]:
        copies = deliveries * COPIES
        self.chance.shuffle(copies)
        return copies

    async def _deliver(self, each: DeliveryAttempt) -> None:
        wake = parse_delivery(each.event, each.body)
        if wake is None or self.service.host.is_bot(wake.report.doer):
            return
        address = None
        if wake.repository is not None and wake.thread is not None:
            where = wake.installation, wake.repository, wake.owner, wake.name, wake.thread
            address = ThreadAddress(*where, wake.told)
        assert await self.service.receive(Delivery(each.guid, each.event, address, wake.report)) is not Outcome.NO_ROOM


HOUR = 3600.0
NEVER = 1e6
SEEDS = (long(0), *map(soak, range(1, 200)))


@asynccontextmanager
async def serving(story: Story) -> AsyncIterator[Service]:
    """Run a service on files that reads what no delivery told only when the story says so."""
    github = replace(story.host.settings.github, poll_seconds=NEVER, reconcile_seconds=NEVER)
    periodic = PeriodicWork(Reconciler(story.host))
    service = Service(replace(story.host.settings, github=github), story.host, periodic=periodic)
    async with service.running():
        yield service


async def rest(service: Service) -> None:
    """Wait until no thread is under way."""
    async with asyncio.timeout(240):
        while (await service.queue.store.load()).busy:  # noqa: ASYNC110 - of whatever the queue wakes meanwhile
            await asyncio.sleep(0.02)


async def read(service: Service) -> None:
    """Read what no delivery told, as the service does every few minutes and seconds."""
    assert service.missed is not None
    await service.missed.read_missed()
    await rest(service)
    for address in await service.host.changed_threads(await service.queue.store.threads_to_poll()):
        service.queue.wake(address)
    await rest(service)


async def stages(story: Story, numbers: list[int]) -> dict[int, Stage]:
    return {number: fold_entries(await story.journal(story.host.settings, number)).stage for number in numbers}


@pytest.mark.req("W2", "W3", "PR2")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", SEEDS)
async def test_the_final_state_is_the_oracles(story: Story, seed: int) -> None:
    chance = random.Random(seed)
    async with serving(story) as service:
        mail = Mail(story.github, service, chance)
        mail.begin()
        numbers = []
        for ask in (chance.choice(ISSUES), chance.choice(ISSUES + PULLS), chance.choice(PULLS)):
            numbers.append(ask(story))
            await mail.post()
        await rest(service)
        await read(service)
        assert await stages(story, numbers) == dict.fromkeys(numbers, Stage.AWAITING_APPROVAL)
        decisions: dict[int, tuple[Decision, Stage]] = {n: chance.choice(list(OTHERS.items())) for n in numbers}
        decisions[numbers[0]] = (chance.choice(APPROVALS), Stage.IN_REVIEW)
        for number in chance.sample(numbers, len(numbers)):
            decisions[number][0](story, number)
            await mail.post()
        await rest(service)
        story.clock.advance(HOUR)
        await mail.post_late()
        await read(service)
        await mail.post()
        await mail.post_late()
        await rest(service)
    named = {number: decide.__name__ for number, (decide, _) in decisions.items()}
    assert await stages(story, numbers) == {number: stage for number, (_, stage) in decisions.items()}, named
    assert [len(story.plans(number)) for number in numbers] == [1] * len(numbers)
    own = [pull for pull in story.pulls() if pull.author == story.bot]
    assert (len(story.branches()), len(own)) == (1, 1)
    assert [READY in text for text in story.said("tell", numbers[0])].count(True) == 1
    assert mail.lost or seed  # by chance none of a few deliveries is lost


LOSSES = (0, long(1), *map(soak, range(2, 60)))


@pytest.mark.req("W3", "PR2", "PR3")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", LOSSES)
async def test_what_no_event_told_is_found_by_the_next_schedule(jobs: WorkflowJobs, seed: int) -> None:
    chance = jobs.chance = random.Random(seed)
    jobs.lost_share = chance.choice((0.3, 0.7, 1.0))
    asked = [chance.choice(ISSUES), chance.choice(ISSUES + PULLS), chance.choice(PULLS)][: 3 if seed else 1]
    numbers = []
    for ask in asked:
        numbers.append(ask(jobs))
        await jobs.hear()
    await jobs.sweep()
    assert {number: await jobs.stage(number) for number in numbers} == dict.fromkeys(numbers, Stage.AWAITING_APPROVAL)
    assert [len(jobs.plans(number)) for number in numbers] == [1] * len(asked)
    decisions = {number: chance.choice(list(OTHERS.items())) for number in numbers}
    if seed:  # every day nothing is approved: work takes seconds
        decisions[numbers[0]] = (chance.choice(APPROVALS), Stage.IN_REVIEW)
    for number, (decide, _) in decisions.items():
        decide(jobs, number)
        await jobs.hear()
    await jobs.sweep()
    await jobs.hear()
    named = {number: decide.__name__ for number, (decide, _) in decisions.items()}
    found = {number: await jobs.stage(number) for number in numbers}
    assert found == {number: stage for number, (_, stage) in decisions.items()}, named
    assert [len(jobs.plans(number)) for number in numbers] == [1] * len(asked)
    approved = int(seed > 0)
    assert (len(jobs.branches()), len(jobs.made_pulls())) == (approved, approved)
    assert [READY in text for text in jobs.said("tell", numbers[0])].count(True) == approved


@pytest.mark.req("W3")
@pytest.mark.long
async def test_the_sweep_is_on_while_something_waits(jobs: WorkflowJobs) -> None:
    """Where it is off the daily run finds what was lost, and switches it on."""
    jobs.lost_share = 1.0
    await jobs.sweep()
    number = in_the_body(jobs)
    await jobs.hear()
    assert (jobs.lost, jobs.began) == (1, ["sweep"])
    await jobs.sweep()
    await jobs.sweep()
    assert jobs.began[1:] == ["work", "sweep"]
    against_it(jobs, number)
    await jobs.sweep()
    assert await jobs.stage(number) is Stage.REJECTED
    await jobs.sweep()
    assert jobs.began[3:] == ["sweep", "work"]


def lost(served: Served) -> None:
    """Have nothing reach the service: no webhook, that is, for nobody told GitHub where it is."""
    served.start()
    until(lambda: (served.state() or {}).get("reconciled"), "the first reading")


@pytest.mark.req("W3", "PR2")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("asks", (long(by_an_edit), soak(in_a_comment)))
def test_a_lost_first_mention_gets_one_plan_within_one_reconciling(served: Served, asks: Callable[[Hub], int]) -> None:
    lost(served)
    number = asks(served)
    until(lambda: served.plans(number), "the plan comment")
    served.rest()
    assert len(served.plans(number)) == 1


@pytest.mark.req("W3")
@pytest.mark.long
@pytest.mark.timeout(120)
def test_who_asks_while_the_service_is_down_is_answered_once(served: Served) -> None:
    served.opens("will")
    served.start()
    until(lambda: served.plans(1), "the plan")
    served.rest()
    served.kill()
    served.opens("will", title="Another")
    served.start()
    until(lambda: served.plans(2), "the plan that was asked for while it was down")
    served.rest()
    assert [len(served.plans(number)) for number in (1, 2)] == [1, 1]


@pytest.mark.req("W3", "PR2")
@pytest.mark.long
@pytest.mark.timeout(120)
def test_an_approval_and_a_review_that_no_webhook_told_are_heard(served: Served) -> None:
    lost(served)
    served.opens("will")
    until(lambda: served.plans(1), "the plan")
    served.says("maya", "@plangate approve")
    until(served.pulls, "the pull request")
    served.rest()
    number = served.pulls()[0].number
    served.model.turn_to_the_changelog()
    served.person("maya").review(HOME, number, "Note it in the changelog.")
    until(lambda: served.plans(number) or len(served.plans(1)) > 1, "a plan for what the review asks")


@pytest.mark.req("W4")
@pytest.mark.long
async def test_a_delivery_that_names_no_installation_is_as_good_as_the_apps_own(story: Story, tmp_path: Path) -> None:
    issue = story.opens("will")
    unnamed = replace(story.address(), installation=None)
    store = FileStore(story.host, Inbox(tmp_path / "inbox"))
    worker = Worker(story.host, store)
    async with worker.running(), asyncio.timeout(PATIENCE):
        await store.store_all([Delivery("1", "issues", replace(unnamed, told="issue"))])
        await worker.wait_until_idle()
        assert (story.signs(issue), len(story.plans()), worker.exit_code) == (["eyes"], 1, 0)
        await store.store_all([Delivery("2", "issues", story.address())])
        await store.store_all([Delivery("3", "issues", unnamed)])
        await worker.wait_until_idle()
        assert worker.exit_code == 0
        polled = await store.threads_to_poll()
        assert polled == (story.address(),)
        await story.host.changed_threads(polled)
        story.reacts("maya", "+1")
        assert await story.host.changed_threads(polled) == polled


@pytest.mark.req("W3")
async def test_a_daily_run_that_was_dropped_loses_nothing(story: Story) -> None:
    story.opens("will")
    story.host.only = (Address("parcel", "shop"),)
    story.clock.advance(2.5 * 24 * 3600)
    assert await unreported_threads(story.host) == (story.address(),)


@pytest.mark.req("W3")
@pytest.mark.long
async def test_a_scheduled_job_finds_an_unheard_label_once_and_words_always(story: Story) -> None:
    by_label(story)
    story.host.only = (Address("parcel", "shop"),)
    assert await unreported_threads(story.host) == (story.address(),)
    await story.rests(1)
    story.says("rita", "Thank you.")
    assert await unreported_threads(story.host) == ()
    story.says("will", "@plangate and in the changelog")
    assert await unreported_threads(story.host) == (story.address(),)
