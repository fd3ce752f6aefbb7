"""A service of several processes under load, while they are killed and the database crashes."""

import hashlib
import hmac
import http.client
import json
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime

import pytest

from tests.stories.github.cluster import WORKERS, Cluster
from tests.stories.github.ground import HOME, PATIENCE, soak
from tests.stories.github.moments import READY, exactly_one
from tests.stories.ground import until

RATE, BURST = 9, 60
"""Deliveries a second, and at once in the middle."""
NOISE = range(1, 31)
"""Issues on which people talk to each other."""
KILL_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A delivery that was answered with 202."""

    thread: int
    sent: float
    seconds: float


@dataclass(slots=True)
class Sender:
    """Delivers comments as GitHub would, from threads of its own."""

    cluster: Cluster
    comments: dict[int, int]
    """The id of a comment on each issue: a look waits for a comment that was reported and is not there yet."""
    acknowledged: list[Acknowledged] = field(default_factory=list)
    refused: int = 0
    _ends: threading.Event = field(default_factory=threading.Event)
    _count: int = 0

    def run(self, seconds: float) -> None:
        """Deliver at an even rate, and a burst in the middle."""
        chance, began, has_burst = random.Random(1), time.monotonic(), False
        with ThreadPoolExecutor(32) as pool:
            while (passed := time.monotonic() - began) < seconds:
                burst = BURST if passed > seconds / 2 and not has_burst else 0
                has_burst = has_burst or burst > 0
                for _ in range(1 + burst):
                    self._count += 1
                    pool.submit(self.deliver, chance.choice(NOISE), f"noise-{self._count}")
                self._ends.wait(1 / RATE)

    def deliver(self, number: int, guid: str) -> None:
        """Deliver once. What is not acknowledged GitHub would list as failed."""
        body = self._payload(number)
        digest = hmac.new(self.cluster.github.app.webhook_secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "X-Hub-Signature-256": f"sha256={digest}",
            "X-GitHub-Event": "issue_comment",
            "X-GitHub-Delivery": guid,
            "Content-Type": "application/json",
        }
        sent, began = time.time(), time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.cluster.port, timeout=10)
        try:
            connection.request("POST", "/webhooks/github", body, headers)
            status = connection.getresponse().status
        except OSError:
            status = 0
        finally:
            connection.close()
        if status == 202:
            self.acknowledged.append(Acknowledged(number, sent, time.monotonic() - began))
        else:
            self.refused += 1

    def _payload(self, number: int) -> bytes:
        home, installation = self.cluster.world.repository(HOME), self.cluster.installation
        owner = {"id": 1, "login": home.owner_login}
        facts = {
            "action": "created",
            "issue": {"number": number},
            "comment": {"id": self.comments[number], "body": "Hello."},
            "repository": {"id": home.id, "name": home.name, "owner": owner},
            "sender": {"id": 5, "login": "somebody"},
            "installation": {"id": installation.id},
        }
        return json.dumps(facts).encode()


def looks(cluster: Cluster) -> Iterator[tuple[int, float, float]]:
    """Yield the thread, the beginning, and the end of every look that ended, from the workers' logs."""
    for number in range(WORKERS):
        for line in (cluster.home / f"worker-{number}").read_text().splitlines():
            if line.startswith("{") and '"look"' in line:
                facts = json.loads(line)
                if facts["what"] == "look" and "seconds" in facts:
                    at = datetime.fromisoformat(facts["at"]).timestamp()
                    yield int(facts["thread"].partition("#")[2]), at - facts["seconds"], at


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[int(len(values) * share)]


@pytest.mark.req("W2", "D2", "E3", "PR2")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("seconds", "requests"), (pytest.param(30.0, 2, marks=pytest.mark.long), soak(300.0, 8)), ids=("sample", "whole")
)
def test_nothing_that_was_acknowledged_is_lost(cluster: Cluster, seconds: float, requests: int) -> None:
    """Every 20 s a process is killed, and the database crashes twice: each delivery that got its 202 leads to a look
    that begins afterwards, and each request to one plan and one pull request. Deliveries alone wake: nothing is read.
    """
    cluster.variables = {"PLANGATE_LOG": "json", "PLANGATE_RECONCILE_SECONDS": "99999"}
    comments = {number: talk(cluster, number) for number in NOISE}
    cluster.start()
    cluster.hook()
    sender = Sender(cluster, comments)
    sending = threading.Thread(target=sender.run, args=(seconds,))
    sending.start()
    numbers = [cluster.opens("will", title=f"Request {n}").number for n in range(requests)]
    disturb(cluster, seconds)
    sending.join()
    approve(cluster, numbers)
    cluster.rest()
    began = [(thread, at) for thread, at, _ in looks(cluster)]
    waits = []
    for each in sender.acknowledged:
        later = [at for thread, at in began if thread == each.thread and at >= each.sent - 0.2]  # logs round to 0.1 s
        assert later, f"no look at #{each.thread} began after {each.sent}"
        waits.append(min(later) - each.sent)
    for number in numbers:
        exactly_one(cluster, number)
    tell(f"\n{len(waits)} acknowledged, {sender.refused} not, {len(began)} looks")
    for name, times in (("acknowledged", [each.seconds for each in sender.acknowledged]), ("look began", waits)):
        p50, p99 = percentile(times, 0.5), percentile(times, 0.99)
        tell(f"{name} after: p50 {p50:.3f} s, p99 {p99:.3f} s, longest {max(times):.3f} s")


def tell(line: str) -> None:
    """Write a figure, which `pytest -s` shows."""
    sys.stdout.write(f"{line}\n")


def talk(cluster: Cluster, number: int) -> int:
    """Open an issue on which nobody speaks to the bot, and return the id of a comment there."""
    assert cluster.opens("will", "Just between us.", "Talk").number == number
    return cluster.says("rita", "Hello.", number).id


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


def approve(cluster: Cluster, numbers: list[int]) -> None:
    """Approve each plan, and wait for the pull requests. GitHub delivers again what was not acknowledged."""
    for failed in [each for each in cluster.github.webhooks.deliveries if each.status_code >= 500]:
        cluster.github.webhooks.redeliver(failed.id)
    for number in numbers:
        until(lambda number=number: cluster.plans(number), f"a plan on #{number}", seconds=3 * PATIENCE)  # type: ignore[misc]
        cluster.says("maya", "@plangate approve", number)
    for number in numbers:
        until(
            lambda number=number: any(READY in text for text in cluster.said("tell", number)),  # type: ignore[misc]
            f"a pull request for #{number}",
            seconds=3 * PATIENCE,
        )
