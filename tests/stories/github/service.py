"""The bot as the real service: `plangate serve` in a process of its own, told by webhooks, killed and started again."""

import json
import random
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bot.testing.github.entities import Comment
from bot.testing.model.server import ScriptedModel
from tests import forks
from tests.ports import free_port
from tests.stories.github.clocks import RealClock
from tests.stories.github.ground import PATIENCE, Hub, Model, addresses, reachable
from tests.stories.github.outcome import exactly_one, is_ready
from tests.stories.ground import bare, until


@dataclass(slots=True)
class Served(Hub):
    """A hub with the service on it; the clock is the real one."""

    model: Model
    api: ScriptedModel
    home: Path
    port: int = field(init=False)
    process: forks.Fork | None = None
    variables: dict[str, str] = field(default_factory=dict)
    """Further variables of every process."""

    def __post_init__(self) -> None:
        self.port = free_port()

    def start(self) -> None:
        """Start the service, and return when it answers."""
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / "log").open("ab") as log:
            written = log.fileno()
            self.process = forks.plangate().start(
                *self.command(), env=self.environment(), stdout=written, stderr=written
            )
        until(lambda: self.state() is not None, "the service answers")

    def command(self) -> tuple[str, ...]:
        """Return the arguments of the program."""
        return "serve", "--port", str(self.port)

    def hook(self) -> None:
        """Have GitHub tell the service."""
        self.github.webhooks.hook_app(self.github.app, f"http://127.0.0.1:{self.port}/webhooks/github")

    def begin(self) -> None:
        """Start the service, and have GitHub tell it."""
        self.start()
        self.hook()

    def begin_with_a_plan(self) -> Comment:
        """Begin, let somebody ask, and return the plan comment."""
        self.begin()
        self.opens("will")
        until(self.plans, "a plan")
        return self.plan

    def end_well(self, *, seconds: float = PATIENCE) -> None:
        """Wait for the pull request, and hold that there is exactly one of everything."""
        until(lambda: is_ready(self), "a pull request", seconds=seconds)
        self.rest()
        exactly_one(self)

    def outlast_mishaps(self, chance: random.Random, threads: int, strike: Callable[[], None] = lambda: None) -> None:
        """Have so many threads asked for and approved, their deliveries doubled, reordered, one in five dropped.

        Nobody says anything twice: what a delivery did not tell is read. Every 20 seconds there is a strike.
        """
        self.begin()
        hooks, numbers = self.github.webhooks, range(1, threads + 1)

        def mishap() -> None:
            event = chance.choice(("*", "issue_comment"))
            hooks.next(chance.choice(("drop", "double", "hold", "hold", "double")), event)

        for number in numbers:
            mishap()
            self.opens("will", title=f"Thread {number}")
        approved: set[int] = set()
        released = began = time.monotonic()
        struck = began - 15
        while not all(is_ready(self, number) for number in numbers):
            now = time.monotonic()
            assert now < began + 10 * PATIENCE, self.log()
            for number in {number for number in numbers if self.plans(number)} - approved:
                approved.add(number)
                mishap()
                self.says("maya", "@plangate approve", number)
            if now > released + 3:
                released = now
                hooks.release()
            if now > struck + 20:
                struck = now
                strike()
            time.sleep(0.05)
        hooks.release()
        self.rest()
        for number in numbers:
            exactly_one(self, number)

    def proceed(self) -> None:
        """Do nothing: the service goes on by itself."""

    def die(self, *, alone: bool) -> None:  # noqa: ARG002 - as for a job
        """Kill -9, and start it again."""
        self.kill()
        self.model.go_on()
        self.start()

    def log(self) -> str:
        """Return the end of what it printed."""
        return (self.home / "log").read_text()[-3000:]

    def kill(self) -> None:
        """Kill -9, and wait until it is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it as an operator does."""
        if self.process is not None and self.process.poll() is None:
            self._end(signal.SIGTERM)

    def rest(self) -> None:
        """Wait until every delivery was made and no thread is under way."""
        self.github.webhooks.drain()
        until(lambda: (self.state() or {}).get("busy") == 0, "the service rests")

    def state(self) -> "dict[str, object] | None":
        """Return what /readyz says; None while nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5) as answer:
                found: dict[str, object] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            error.close()
            return {}
        except OSError:
            return None

    def environment(self) -> dict[str, str]:
        """Return the variables that an operator sets, and no others."""
        app = self.github.app
        return {
            **bare(self.home),
            **addresses(self.github, self.api),
            "ANTHROPIC_API_KEY": "test",
            "PLANGATE_DATA_DIR": str(self.home / "data"),
            "PLANGATE_APP_ID": str(app.id),
            "PLANGATE_PRIVATE_KEY": app.pem,
            "PLANGATE_WEBHOOK_SECRET": app.webhook_secret,
            "PLANGATE_POLL_SECONDS": "0.2",
            "PLANGATE_RECONCILE_SECONDS": "1",
            **self.variables,
        }

    def _end(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(20)


@contextmanager
def ready_service(folder: Path, model: Model) -> Iterator[Served]:
    """Yield a service that can be started on a simulated GitHub and a scripted model, and stop it at the end."""
    with reachable(folder, model, RealClock()) as reached:
        served = Served(*reached, folder / "home")
        try:
            yield served
        finally:
            model.go_on()
            served.stop()
