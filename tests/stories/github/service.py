"""The bot as the real service: `plangate serve` in a process of its own, told by webhooks, killed and started again."""

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.model.server import ScriptedModel
from tests import forks
from tests.ports import free_port
from tests.stories.github.clocks import RealClock
from tests.stories.github.ground import Hub, Model, settle
from tests.stories.ground import bare, until


@dataclass(slots=True)
class Served(Hub):
    """A hub with the service on it; the clock is the real one."""

    model: Model
    base_url: str
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
        github, app = self.github, self.github.app
        return {
            **bare(self.home),
            "ANTHROPIC_API_KEY": "test",
            "ANTHROPIC_BASE_URL": self.base_url,
            "PLANGATE_DATA_DIR": str(self.home / "data"),
            "PLANGATE_APP_ID": str(app.id),
            "PLANGATE_PRIVATE_KEY": app.pem,
            "PLANGATE_WEBHOOK_SECRET": app.webhook_secret,
            "PLANGATE_POLL_SECONDS": "0.2",
            "PLANGATE_RECONCILE_SECONDS": "1",
            "PLANGATE_WRITE_PAUSE_SECONDS": "0",
            "GITHUB_API_URL": github.api_url,
            "GITHUB_GRAPHQL_URL": github.graphql_url,
            "GITHUB_SERVER_URL": github.server_url,
            **self.variables,
        }

    def _end(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(20)


@contextmanager
def ready_service(folder: Path, model: Model) -> Iterator[Served]:
    """Yield a service that can be started on a simulated GitHub and a scripted model, and stop it at the end."""
    clock = RealClock()
    with ScriptedModel(model) as api, SimulatedGitHub(folder / "github", clock=clock) as github:
        installation = settle(github.world, github)
        served = Served(github, installation, clock.advance, model, api.base_url, folder / "home")
        try:
            yield served
        finally:
            model.go_on()
            served.stop()
