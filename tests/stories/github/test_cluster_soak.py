"""A service of several processes under load, while they are killed and the database crashes.

``pytest -s -m soak tests/stories/github/test_cluster_soak.py -k minute`` (or ``-k whole``) prints a line every 10
seconds and the figures at the end, whatever happens.
"""

import signal
import threading
import time
from collections.abc import Iterator

import pytest

from tests.marks import soak
from tests.postgres import Server, running_server
from tests.stories.github.cluster import Cluster
from tests.stories.github.load import Load, People, Sender, places, progress_shown, report_of, show
from tests.stories.github.outcome import exactly_one

KILL_SECONDS = 20.0
AWAY_SECONDS = 1.0
NICENESS = 10
"""Of workers, which share this machine with the processes that take deliveries (docs/several-machines.md)."""
WEBS = 2
"""Processes that take deliveries, on one port."""
SAMPLE = Load(30.0, 2, burst_rate=60.0, burst_seconds=1.0)
MINUTE = Load(60.0, 10, repositories=2, burst_seconds=2.0)
WHOLE = Load(600.0, 1000, repositories=25)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    """A server that syncs what it commits, as one in production does: acknowledgements wait for it."""
    with running_server(is_durable=True) as server:
        yield server


@pytest.mark.req("W2", "D2", "E3", "PR2")
@pytest.mark.timeout(12 * 3600)
@pytest.mark.parametrize(
    "load",
    (soak(SAMPLE), soak(MINUTE), soak(WHOLE)),
    ids=("sample", "minute", "whole"),
)
def test_nothing_that_was_acknowledged_is_lost(cluster: Cluster, load: Load) -> None:
    """Each delivery that needs a check leads to one that begins after it was acknowledged, and each request to one plan
    and one pull request, though processes and database are killed. Deliveries alone wake."""
    cluster.niceness = NICENESS
    cluster.variables = {"PLANGATE_LOG": "json", "PLANGATE_RECONCILE_SECONDS": "99999"}
    where = places(cluster, load.repositories)
    cluster.start()
    for number in range(1, WEBS):
        cluster.start_web(number)
    cluster.hook()
    sender, people, outages = Sender(cluster, where, load), People(cluster, where), list[tuple[float, float]]()
    try:
        with progress_shown(sender, people, load.threads):
            play(sender, people, outages)
    finally:
        report = report_of(cluster, sender, people, outages)
        show(report)
    assert not report.lost
    for place, number in people.asked:
        exactly_one(place.hub, number)


def play(sender: Sender, people: People, outages: list[tuple[float, float]]) -> None:
    """Load the cluster, disturb it, and wait until each request has its pull request."""
    cluster, load = sender.cluster, sender.load
    loading = [
        threading.Thread(target=sender.run, daemon=True),
        threading.Thread(target=people.ask, args=(load,), daemon=True),
        threading.Thread(target=people.approve_until, args=(load.threads,), daemon=True),
    ]
    for each in loading:
        each.start()
    disturb(cluster, load.seconds, outages)
    for each in loading:
        each.join()
    cluster.rest()


def disturb(cluster: Cluster, seconds: float, outages: list[tuple[float, float]]) -> None:
    """Kill a process every 20 s, in turn, and let the database crash twice."""
    end, crashes = time.monotonic() + seconds, [seconds / 4, 3 * seconds / 4]
    began, turn = time.monotonic(), 0
    while (now := time.monotonic()) < end:
        time.sleep(0.2)
        if crashes and now - began > crashes[0]:
            crashes.pop(0)
            outages.append(crash(cluster))
        if now - began > KILL_SECONDS * (turn + 1):
            turn += 1
            if turn % 3 == 1:
                number = turn // 3 % WEBS
                cluster.end_web(number)
                cluster.start_web(number)
            else:
                cluster.end_worker(turn % 3 // 2, signal.SIGKILL)
                cluster.start_worker(turn % 3 // 2)


def crash(cluster: Cluster) -> tuple[float, float]:
    """Let the database crash, and start it again. Return from when to when it was away."""
    away = time.time()
    cluster.server.stop("immediate")
    time.sleep(AWAY_SECONDS)
    cluster.server.start()
    return away, time.time()
