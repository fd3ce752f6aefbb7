"""A load of signed deliveries and requests on a cluster, and the report of what became of them."""

import hashlib
import hmac
import http.client
import json
import random
import sys
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from tests.stories.github.cluster import WORKERS, Cluster
from tests.stories.github.ground import Hub, kind_of, settle
from tests.stories.github.moments import READY, pulls_for

NOISE: Final = 30
"""Issues of each repository on which people talk to each other."""
LOG_SECONDS: Final = 0.2
"""How far the times in logs may be off: they round to 0.1 s."""
_AGE: Final = 2.0
"""Seconds between a plan and its approval, so that both are not of one second of GitHub's clock."""


@dataclass(frozen=True, slots=True)
class Load:
    """How much is delivered, and for how long."""

    seconds: float
    threads: int
    """Requests, spread evenly over the time."""
    repositories: int = 1
    """Each with an installation of its own: GitHub limits how much one account writes in an hour."""
    rate: float = 9.0
    burst_rate: float = 200.0
    burst_seconds: float = 10.0
    """The burst is in the middle."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A delivery that was answered with 202."""

    thread: str
    sent: float
    seconds: float
    in_burst: bool


@dataclass(frozen=True, slots=True)
class Place:
    """A repository with its installation, and the comments on the issues on which people only talk."""

    hub: Hub
    talk: dict[int, int]

    def payload(self, number: int) -> bytes:
        """Return a delivery about a comment: a look waits for one that was reported and is not there yet."""
        home = self.hub.world.repository(self.hub.repository)
        facts = {
            "action": "created",
            "issue": {"number": number},
            "comment": {"id": self.talk[number], "body": "Hello."},
            "repository": {"id": home.id, "name": home.name, "owner": {"id": 1, "login": home.owner_login}},
            "sender": {"id": 5, "login": "somebody"},
            "installation": {"id": self.hub.installation.id},
        }
        return json.dumps(facts).encode()


def places(cluster: Cluster, count: int) -> list[Place]:
    """Return the repository of the cluster and further ones, each with issues on which nobody speaks to the bot."""
    found = []
    for index in range(count):
        name = cluster.repository if index == 0 else f"parcel-{index}/shop"
        installation = settle(cluster.world, cluster.github, name) if index else cluster.installation
        hub = Hub(cluster.github, installation, cluster.advance, repository=name)
        found.append(Place(hub, dict(_talk(hub) for _ in range(NOISE))))
    return found


def _talk(hub: Hub) -> tuple[int, int]:
    number = hub.world.person("will").open_issue(hub.repository, "Talk", "Just between us.").number
    return number, hub.world.person("rita").comment(hub.repository, number, "Hello.").id


@dataclass(slots=True)
class Sender:
    """Delivers comments as GitHub would, from threads of its own."""

    cluster: Cluster
    places: Sequence[Place]
    load: Load
    acknowledged: list[Acknowledged] = field(default_factory=list)
    refused: int = 0

    def run(self) -> None:
        """Deliver at an even rate, with a burst in the middle."""
        chance, began = random.Random(1), time.monotonic()
        with ThreadPoolExecutor(64) as pool:
            for count, (due, in_burst) in enumerate(self._times()):
                time.sleep(max(0.0, began + due - time.monotonic()))
                place = chance.choice(self.places)
                pool.submit(self.deliver, place, chance.choice(list(place.talk)), f"noise-{count}", in_burst=in_burst)

    def deliver(self, place: Place, number: int, guid: str, *, in_burst: bool) -> None:
        """Deliver once. What is not acknowledged GitHub would list as failed."""
        sent, began = time.time(), time.monotonic()
        if self._post(place.payload(number), guid) == 202:
            name = f"{place.hub.repository}#{number}"
            self.acknowledged.append(Acknowledged(name, sent, time.monotonic() - began, in_burst))
        else:
            self.refused += 1

    def _post(self, body: bytes, guid: str) -> int:
        digest = hmac.new(self.cluster.github.app.webhook_secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "X-Hub-Signature-256": f"sha256={digest}",
            "X-GitHub-Event": "issue_comment",
            "X-GitHub-Delivery": guid,
            "Content-Type": "application/json",
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.cluster.port, timeout=10)
        try:
            connection.request("POST", "/webhooks/github", body, headers)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    def _times(self) -> Iterator[tuple[float, bool]]:
        """Yield when to send each delivery, and whether it belongs to the burst."""
        load, at = self.load, 0.0
        burst = (load.seconds - load.burst_seconds) / 2
        while at < load.seconds:
            in_burst = burst <= at < burst + load.burst_seconds
            yield at, in_burst
            at += 1 / (load.burst_rate if in_burst else load.rate)


@dataclass(slots=True)
class People:
    """People who ask for something in each repository, approve each plan, and see that GitHub delivers again."""

    cluster: Cluster
    places: Sequence[Place]
    asked: list[tuple[Place, int]] = field(default_factory=list)
    _approved: set[int] = field(default_factory=set)
    _redelivered: set[str] = field(default_factory=set)

    def ask(self, load: Load) -> None:
        """Open the issues, evenly."""
        began = time.monotonic()
        for index in range(load.threads):
            time.sleep(max(0.0, began + index * load.seconds / load.threads - time.monotonic()))
            place = self.places[index % len(self.places)]
            will = place.hub.world.person("will")
            issue = will.open_issue(place.hub.repository, f"Request {index}", "@plangate Orders of 50 ship free.")
            self.asked.append((place, issue.number))

    def approve_until(self, seconds: float, total: int) -> None:
        """Approve each plan, until each request has its pull request or the time is over."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.count_ready() < total:
            self._approve()
            self._deliver_again()
            time.sleep(1)

    def count_ready(self) -> int:
        """Return how many threads were told that their pull request is ready."""
        own = self.cluster.bot
        texts = [each.text.body for each in tuple(self.cluster.world.comments.values()) if each.author == own]
        return sum(READY in text for text in texts)

    def _approve(self) -> None:
        world = self.cluster.world
        names = {repository.id: repository.full_name for repository in tuple(world.repositories.values())}
        for each in tuple(world.comments.values()):
            is_new = each.author == self.cluster.bot and each.id not in self._approved and kind_of(each) == "plan"
            if is_new and (world.clock.now() - each.created_at).total_seconds() > _AGE:
                self._approved.add(each.id)
                world.person("maya").comment(names[each.repository], each.number, "@plangate approve")

    def _deliver_again(self) -> None:
        """GitHub delivers again, once, what was not acknowledged."""
        hooks = self.cluster.github.webhooks
        for each in hooks.deliveries:
            if each.status not in {"pending", "OK"} and each.guid not in self._redelivered:
                self._redelivered.add(each.guid)
                hooks.redeliver(each.id)


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a load."""

    acknowledged: Sequence[Acknowledged]
    refused: int
    starts: dict[str, list[float]]
    """When the looks at each thread began."""
    reads: dict[str, list[float]]
    """When anything began that reads what people said: a look, or a listen while a look is under way."""
    plans: Counter[str]
    pulls: Counter[str]

    @property
    def lost(self) -> list[Acknowledged]:
        """What was acknowledged, and no look began afterwards."""
        return [each for each in self.acknowledged if _wait(self.starts, each) is None]

    def lines(self) -> Iterator[str]:
        """Yield the figures."""
        yield f"acknowledged {len(self.acknowledged)}, not {self.refused}, lost {len(self.lost)}"
        yield f"threads by number of plans {_shares(self.plans)}, of pull requests {_shares(self.pulls)}"
        calm = [each for each in self.acknowledged if not each.in_burst]
        yield _percentiles("acknowledged after", [each.seconds for each in self.acknowledged])
        yield _percentiles("the same outside of the burst", [each.seconds for each in calm])
        for name, began in (("look began after", self.starts), ("look or listen began after", self.reads)):
            waits = (_wait(began, each) for each in calm)
            yield _percentiles(f"{name} (outside of the burst)", [wait for wait in waits if wait is not None])


def report_of(cluster: Cluster, sender: Sender, people: People) -> Report:
    """Return the report, from the workers' logs and what GitHub holds."""
    starts, reads = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for what, thread, at in _began(cluster):
        reads[thread].append(at)
        if what != "listen":
            starts[thread].append(at)
    for found in (*starts.values(), *reads.values()):
        found.sort()
    plans, pulls = Counter[str](), Counter[str]()
    for place, number in people.asked:
        name = f"{place.hub.repository}#{number}"
        plans[name] = len(place.hub.plans(number))
        pulls[name] = len(pulls_for(place.hub, number))
    return Report(sender.acknowledged, sender.refused, starts, reads, plans, pulls)


def _began(cluster: Cluster) -> Iterator[tuple[str, str, float]]:
    """Yield what each job did, its thread, and when it began, for those that ended."""
    for number in range(WORKERS):
        for line in (cluster.home / f"worker-{number}").read_text().splitlines():
            if line.startswith("{") and '"seconds"' in line and '"thread"' in line:
                facts = json.loads(line)
                if facts["what"] in {"look", "session", "listen"}:
                    ended = datetime.fromisoformat(facts["at"]).timestamp()
                    yield facts["what"], facts["thread"], ended - facts["seconds"]


def _wait(began: dict[str, list[float]], each: Acknowledged) -> float | None:
    """Return the seconds until something began for a delivery; None for never."""
    times = began.get(each.thread, [])
    index = bisect_left(times, each.sent - LOG_SECONDS)
    return max(0.0, times[index] - each.sent) if index < len(times) else None


def _shares(counts: Counter[str]) -> str:
    """Return how many threads have how many, such as ``{1: 1000}``."""
    return str(dict(sorted(Counter(counts.values()).items())))


def _percentiles(name: str, values: list[float]) -> str:
    if not values:
        return f"{name}: nothing"
    ordered = sorted(values)
    p50, p99 = (ordered[int(len(ordered) * share)] for share in (0.5, 0.99))
    return f"{name}: p50 {p50:.3f} s, p99 {p99:.3f} s, longest {ordered[-1]:.3f} s"


def show(report: Report) -> None:
    """Print the figures, which `pytest -s` shows."""
    sys.stdout.write("".join(f"\n{line}" for line in report.lines()) + "\n")
