"""A load of signed deliveries and requests on a cluster, and the report of what became of them."""

import hashlib
import hmac
import http.client
import json
import random
import sys
import threading
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from bot.testing.github.entities import Comment
from bot.testing.github.person import Person
from tests.stories.github.cluster import Cluster
from tests.stories.github.ground import Hub, kind_of, settle
from tests.stories.github.outcome import READY, pulls_for

ASKS_EACH: Final = 10
"""Requests of one person in one repository, well below `ask.per_day`."""
NOISE: Final = 30
"""Issues of each repository on which people talk to each other."""
NAMING: Final = 3
"""One in so many of these deliveries has the bot's name in its text, so that only a check can tell."""
LOG_SECONDS: Final = 0.2
"""How far the times in logs may be off: they round to 0.1 s."""
PROGRESS: Final = 10.0
STUCK: Final = 300.0
"""Seconds without a new comment of the bot's after which a campaign gives up."""
_BACK: Final = 0.2
"""Seconds until a server that is back is used again."""
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
    """A delivery that was answered with 202, or with 200 because it needs no check."""

    thread: str
    sent: float
    seconds: float
    in_burst: bool
    needs_check: bool


@dataclass(frozen=True, slots=True)
class Place:
    """A repository with its installation, and the comments on the issues on which people only talk."""

    hub: Hub
    talk: dict[int, int]

    def payload(self, number: int, text: str) -> bytes:
        """Return a delivery about a comment: a check waits for one that was reported and is not there yet."""
        home = self.hub.world.repository(self.hub.repository)
        facts = {
            "action": "created",
            "issue": {"number": number},
            "comment": {"id": self.talk[number], "body": text},
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


def writer(hub: Hub, index: int) -> Person:
    """Return who asks for the request of that number in a repository: nobody may ask more than 20 times a day."""
    login = f"writer-{index // ASKS_EACH}"
    hub.world.set_role(hub.repository, login, "write")
    return hub.world.person(login)


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
    anew: int = 0
    """How often it connected once more, as a proxy in front of the service does."""

    def run(self) -> None:
        """Deliver at an even rate, with a burst in the middle."""
        chance, began = random.Random(1), time.monotonic()
        with ThreadPoolExecutor(64) as pool:
            for count, (due, in_burst) in enumerate(self._times()):
                time.sleep(max(0.0, began + due - time.monotonic()))
                place = chance.choice(self.places)
                number = chance.choice(list(place.talk))
                names_bot = count % NAMING == 0
                pool.submit(self.deliver, place, number, f"noise-{count}", in_burst=in_burst, names_bot=names_bot)

    def deliver(self, place: Place, number: int, guid: str, *, in_burst: bool, names_bot: bool = False) -> None:
        """Deliver once. What is not acknowledged GitHub would list as failed."""
        body = place.payload(number, "They call it plangate." if names_bot else "Hello.")
        sent, began = time.time(), time.monotonic()
        status = self._post(body, guid)
        if status in {200, 202}:  # 200: it needs no check, or the process that stored it died before it answered
            name = f"{place.hub.repository}#{number}"
            needs_check = names_bot or status == 202
            self.acknowledged.append(Acknowledged(name, sent, time.monotonic() - began, in_burst, needs_check))
        else:
            self.refused += 1

    def _post(self, body: bytes, guid: str) -> int:
        """Return the status; 0 for none. Linux resets the connections that wait for a process that is killed."""
        try:
            return self._send(body, guid)
        except ConnectionError:
            self.anew += 1
        except (OSError, http.client.HTTPException):
            return 0
        try:
            return self._send(body, guid)
        except (OSError, http.client.HTTPException):
            return 0

    def _send(self, body: bytes, guid: str) -> int:
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
    ready: int = 0
    """How many threads were told that their pull request is ready."""
    _read: set[int] = field(default_factory=set)
    _plans: list[Comment] = field(default_factory=list)
    """Those that nobody has approved yet."""
    _redelivered: set[str] = field(default_factory=set)

    def ask(self, load: Load) -> None:
        """Open the issues, evenly."""
        began = time.monotonic()
        for index in range(load.threads):
            time.sleep(max(0.0, began + index * load.seconds / load.threads - time.monotonic()))
            place = self.places[index % len(self.places)]
            asker = writer(place.hub, index // len(self.places))
            issue = asker.open_issue(place.hub.repository, f"Request {index}", "@plangate Orders of 50 ship free.")
            self.asked.append((place, issue.number))

    def approve_until(self, total: int) -> None:
        """Approve each plan, until each request has its pull request or nothing has happened for a long time."""
        read, last = 0, time.monotonic()
        while self.ready < total and time.monotonic() - last < STUCK:
            self._read_comments()
            self._approve()
            self._deliver_again()
            if len(self._read) > read:
                read, last = len(self._read), time.monotonic()
            time.sleep(1)

    def _read_comments(self) -> None:
        for each in tuple(self.cluster.world.comments.values()):
            if each.id in self._read or each.author != self.cluster.bot:
                continue
            self._read.add(each.id)
            self.ready += READY in each.text.body
            if kind_of(each) == "plan":
                self._plans.append(each)

    def _approve(self) -> None:
        world, plans = self.cluster.world, self._plans
        self._plans = [each for each in plans if (world.clock.now() - each.created_at).total_seconds() <= _AGE]
        for each in plans:
            if each not in self._plans:
                name = world.repositories[each.repository].full_name
                world.person("maya").comment(name, each.number, "@plangate approve")

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
    anew: int
    outages: Sequence[tuple[float, float]]
    """When the database was away."""
    starts: dict[str, list[float]]
    """When the checks of each thread began."""
    reads: dict[str, list[float]]
    """When anything began that reads what people said: a check, or a reading while a check is under way."""
    plans: Counter[str]
    pulls: Counter[str]

    @property
    def lost(self) -> list[Acknowledged]:
        """What was acknowledged and needs a check, and no check began afterwards."""
        return [each for each in self.acknowledged if each.needs_check and _wait(self.starts, each) is None]

    def lines(self) -> Iterator[str]:
        """Yield the figures."""
        needing = sum(each.needs_check for each in self.acknowledged)
        yield (
            f"acknowledged {len(self.acknowledged)}, of which {needing} need a check, not {self.refused}, "
            f"lost {len(self.lost)}, after a second connection {self.anew}"
        )
        yield f"threads by number of plans {_shares(self.plans)}, of pull requests {_shares(self.pulls)}"
        calm = [each for each in self.acknowledged if not each.in_burst]
        yield _percentiles("acknowledged after", [each.seconds for each in self.acknowledged])
        yield _percentiles("the same outside of the burst", [each.seconds for each in calm])
        there = [each for each in calm if not self._met_outage(each)]
        share = 1 - len(there) / max(1, len(calm))
        yield f"of these, {share:.2%} waited in the {len(self.outages)} outages of the database"
        yield _percentiles("the same without them", [each.seconds for each in there])
        for name, began in (("check began after", self.starts), ("check or reading began after", self.reads)):
            waits = (_wait(began, each) for each in calm if each.needs_check)
            yield _percentiles(f"{name} (outside of the burst)", [wait for wait in waits if wait is not None])

    def _met_outage(self, each: Acknowledged) -> bool:
        """Return whether the database was away, or just back, while a delivery waited."""
        return any(each.sent < end + _BACK and each.sent + each.seconds > start for start, end in self.outages)


def report_of(cluster: Cluster, sender: Sender, people: People, outages: Sequence[tuple[float, float]] = ()) -> Report:
    """Return the report, from the workers' logs and what GitHub holds."""
    starts, reads = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for what, thread, at in _began(cluster):
        reads[thread].append(at)
        if what != "read comments":
            starts[thread].append(at)
    for found in (*starts.values(), *reads.values()):
        found.sort()
    plans, pulls = Counter[str](), Counter[str]()
    for place, number in people.asked:
        name = f"{place.hub.repository}#{number}"
        plans[name] = len(place.hub.plans(number))
        pulls[name] = len(pulls_for(place.hub, number))
    return Report(sender.acknowledged, sender.refused, sender.anew, outages, starts, reads, plans, pulls)


def _began(cluster: Cluster) -> Iterator[tuple[str, str, float]]:
    """Yield what each job did, its thread, and when it began, for those that ended."""
    for file in cluster.home.glob("worker-*"):
        if not file.is_file():
            continue
        for line in file.read_text(errors="replace").splitlines():
            if line.startswith("{") and line.endswith("}") and '"seconds"' in line and '"thread"' in line:
                facts = json.loads(line)
                if facts["what"] in {"check", "session", "read comments"}:
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


@contextmanager
def progress_shown(sender: Sender, people: People, total: int) -> Iterator[None]:
    """Print a line every 10 seconds while the context is open."""
    over, began = threading.Event(), time.monotonic()

    def show_often() -> None:
        while not over.wait(PROGRESS):
            answered = f"acknowledged {len(sender.acknowledged)}, not {sender.refused}"
            asked = f"asked {len(people.asked)}, ready {people.ready} of {total}"
            sys.stdout.write(f"\n{time.monotonic() - began:.0f} s: {answered}, {asked}")
            sys.stdout.flush()

    showing = threading.Thread(target=show_often, daemon=True)
    showing.start()
    try:
        yield
    finally:
        over.set()
        showing.join()
