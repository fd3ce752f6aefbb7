"""Several processes on PostgreSQL: exactly one of everything, whatever dies, is paused, or is lost."""

import random
import signal
import time

import pytest

from tests.stories.github.cluster import Cluster
from tests.stories.github.ground import HOME, PATIENCE, soak
from tests.stories.github.moments import READY, exactly_one
from tests.stories.ground import until

PAUSED_SECONDS = 60
"""How long a worker is paused. It is declared dead after less than half of it."""


def is_ready(cluster: Cluster, number: int) -> bool:
    return any(READY in text for text in cluster.said("tell", number))


@pytest.mark.long
@pytest.mark.req("E3", "PR2")
def test_an_ending_worker_hands_its_session_to_another(cluster: Cluster) -> None:
    """It ends by itself, and the other one goes on at once; no step is paid for twice."""
    cluster.start()
    cluster.hook()
    cluster.opens("will")
    until(cluster.plans, "a plan")
    pause = cluster.model.pause("w0")
    cluster.reacts("maya", "+1")
    until(lambda: pause.there, "work")
    for worker in cluster.workers.values():  # whichever of them works
        worker.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    pause.go_on()
    for number in tuple(cluster.workers):
        assert cluster.end_worker(number, signal.SIGTERM) == 0
    cluster.start_worker(0)
    until(lambda: is_ready(cluster, 1), "a pull request")
    cluster.rest()
    assert [request.step for request in cluster.model.works].count(0) == 1
    exactly_one(cluster)


@pytest.mark.soak
@pytest.mark.req("E4")
@pytest.mark.timeout(400)
def test_a_worker_that_was_paused_for_a_minute_changes_nothing(cluster: Cluster) -> None:
    """Another one took its session over; when it wakes up, the journal refuses what it still wants to do."""
    cluster.start()
    cluster.hook()
    cluster.opens("will")
    until(cluster.plans, "a plan")
    pause = cluster.model.pause("w1")
    cluster.reacts("maya", "+1")
    until(lambda: pause.there and cluster.said("progress"), "work that is shown")
    time.sleep(1)  # a comment that is just being posted when the machine pauses is folded as a repetition afterwards
    for worker in cluster.workers.values():  # whichever of them works
        worker.send_signal(signal.SIGSTOP)
    paused = dict(cluster.workers)
    cluster.workers.clear()
    cluster.start_worker(2)
    began = time.monotonic()
    pause.go_on()
    until(lambda: is_ready(cluster, 1), "a pull request", seconds=2 * PATIENCE)
    time.sleep(max(0.0, PAUSED_SECONDS - (time.monotonic() - began)))
    before = shown(cluster)
    for worker in paused.values():
        worker.send_signal(signal.SIGCONT)
    cluster.workers |= paused
    until(lambda: "declared dead" in cluster.log(), "the paused workers learn what happened")
    time.sleep(10)
    cluster.rest()
    for earlier, later in zip(before, shown(cluster), strict=True):
        assert later == earlier
    exactly_one(cluster)


def shown(cluster: Cluster) -> tuple[object, ...]:
    """Return all that the bot has written: comments, reactions, branches, pull requests, and journals."""
    refs = cluster.world.bare(cluster.world.repository(HOME)).refs()
    comments = [(each.id, each.text.body) for each in cluster.comments()]
    pulls = [(each.number, each.title, each.text.body) for each in cluster.pulls()]
    return comments, cluster.signs(cluster.issue()), refs, pulls


@pytest.mark.long
@pytest.mark.req("D2", "W2")
@pytest.mark.timeout(300)
def test_the_database_is_lost(cluster: Cluster) -> None:
    """A new, empty one and `plangate reindex` are all that it takes: the journals are the truth."""
    cluster.start()
    cluster.hook()
    pause = cluster.model.pause("p0")
    cluster.opens("will")
    until(lambda: pause.there, "planning")
    cluster.stop()
    cluster.database_url = cluster.server.new_database()
    pause.go_on()
    cluster.start()
    cluster.run("reindex")
    until(cluster.plans, "a plan")
    cluster.reacts("maya", "+1")
    until(lambda: is_ready(cluster, 1), "a pull request")
    cluster.rest()
    exactly_one(cluster)


@pytest.mark.req("PR2", "W2", "W3", "E3", "D2")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", (pytest.param(0, marks=pytest.mark.long), *map(soak, range(1, 50))))
def test_mishaps(cluster: Cluster, seed: int) -> None:
    """Three threads, their deliveries doubled, reordered, one in five dropped; a process is killed, and the database
    crashes: exactly one of everything on each.
    """
    chance = random.Random(seed)
    cluster.start()
    cluster.hook()
    hooks, numbers = cluster.github.webhooks, range(1, 4)

    def mishap() -> None:
        hooks.next(chance.choice(("drop", "double", "hold", "hold", "double")), chance.choice(("*", "issue_comment")))

    for number in numbers:
        mishap()
        cluster.opens("will", title=f"Thread {number}")
    approved: set[int] = set()
    end, ticks = time.monotonic() + 10 * PATIENCE, 0
    while not all(is_ready(cluster, number) for number in numbers):
        assert time.monotonic() < end, cluster.log()
        for number in {number for number in numbers if cluster.plans(number)} - approved:
            approved.add(number)
            mishap()
            cluster.says("maya", "@plangate approve", number)
        time.sleep(0.05)
        ticks += 1
        if ticks % 60 == 0:
            hooks.release()
        if ticks % 400 == 100:
            strike(cluster, chance)
    hooks.release()
    cluster.rest()
    for number in numbers:
        exactly_one(cluster, number)


def strike(cluster: Cluster, chance: random.Random) -> None:
    """Kill a process, or the database, and start it again."""
    match chance.choice(("worker", "web", "database")):
        case "worker":
            number = chance.choice(list(cluster.workers))
            cluster.end_worker(number, signal.SIGKILL)
            cluster.start_worker(number)
        case "web":
            cluster.end_web()
            cluster.start_web()
        case _:
            cluster.server.stop("immediate")
            cluster.server.start()
