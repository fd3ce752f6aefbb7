"""A service of several processes under load, while they are killed and the database crashes.

``pytest -s -m soak tests/stories/github/test_cluster_soak.py -k minute`` (or ``-k whole``) prints the figures. The
whole campaign takes hours: a thread costs about 3 CPU seconds.
"""

import signal
import threading
import time

import pytest

from tests.stories.github.cluster import Cluster
from tests.stories.github.ground import PATIENCE, soak
from tests.stories.github.load import Load, People, Sender, places, report_of, show
from tests.stories.github.moments import exactly_one

KILL_SECONDS = 20.0
SECONDS_A_THREAD = 30.0
"""How long each request may take after the load, on a busy machine, before the campaign gives up."""
SAMPLE = Load(30.0, 2, burst_rate=60.0, burst_seconds=1.0)
MINUTE = Load(60.0, 10, repositories=2, burst_seconds=2.0)
WHOLE = Load(600.0, 1000, repositories=25)


@pytest.mark.req("W2", "D2", "E3", "PR2")
@pytest.mark.timeout(12 * 3600)
@pytest.mark.parametrize(
    "load",
    (soak(SAMPLE), soak(MINUTE), soak(WHOLE)),
    ids=("sample", "minute", "whole"),
)
def test_nothing_that_was_acknowledged_is_lost(cluster: Cluster, load: Load) -> None:
    """Every 20 s a process is killed, and the database crashes twice: each delivery that got its 202 leads to a look
    that begins afterwards, and each request to one plan and one pull request. Deliveries alone wake: nothing is read.
    """
    cluster.variables = {"PLANGATE_LOG": "json", "PLANGATE_RECONCILE_SECONDS": "99999"}
    where = places(cluster, load.repositories)
    cluster.start()
    cluster.hook()
    sender, people = Sender(cluster, where, load), People(cluster, where)
    loading = [threading.Thread(target=sender.run), threading.Thread(target=people.ask, args=(load,))]
    approving = threading.Thread(
        target=people.approve_until, args=(load.seconds + 3 * PATIENCE + SECONDS_A_THREAD * load.threads, load.threads)
    )
    for each in (*loading, approving):
        each.start()
    disturb(cluster, load.seconds)
    for each in (*loading, approving):
        each.join()
    cluster.rest()
    report = report_of(cluster, sender, people)
    show(report)
    assert not report.lost
    for place, number in people.asked:
        exactly_one(place.hub, number)


def disturb(cluster: Cluster, seconds: float) -> None:
    """Kill a process every 20 s, in turn, and let the database crash twice."""
    end, crashes = time.monotonic() + seconds, [seconds / 3, 2 * seconds / 3]
    began, turn = time.monotonic(), 0
    while (now := time.monotonic()) < end:
        time.sleep(0.2)
        if crashes and now - began > crashes[0]:
            crashes.pop(0)
            cluster.server.stop("immediate")
            time.sleep(1)
            cluster.server.start()
        if now - began > KILL_SECONDS * (turn + 1):
            turn += 1
            if turn % 3 == 0:
                cluster.kill()
                cluster.start_web()
            else:
                cluster.end_worker(turn % 3 - 1, signal.SIGKILL)
                cluster.start_worker(turn % 3 - 1)
