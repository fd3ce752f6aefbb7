"""Several processes take deliveries on one port: one of them can be killed, or replaced, while the others answer."""

import signal

import pytest

from tests.stories.github.cluster import Cluster
from tests.stories.github.load import Load, Place, Sender, places

EACH = 8


def deliver(sender: Sender, place: Place, name: str) -> None:
    """Deliver a few comments, one after the other."""
    for count in range(EACH):
        sender.deliver(place, next(iter(place.talk)), f"{name}-{count}", in_burst=False)


@pytest.mark.long
@pytest.mark.req("W2", "D2")
def test_each_delivery_is_acknowledged_while_processes_come_and_go(cluster: Cluster) -> None:
    """By whoever listens, at the first or the second connection, as a proxy makes it."""
    (place,) = places(cluster, 1)
    sender = Sender(cluster, (place,), Load(1.0, 0))
    cluster.run("migrate")
    cluster.start_web(0)
    cluster.start_web(1)
    deliver(sender, place, "both")
    cluster.end_web(0, signal.SIGKILL)
    deliver(sender, place, "killed")
    cluster.start_web(2)
    assert cluster.end_web(1, signal.SIGTERM) == 0
    deliver(sender, place, "replaced")
    assert (len(sender.acknowledged), sender.refused) == (3 * EACH, 0)
