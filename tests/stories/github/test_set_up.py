"""`plangate serve` on a machine that knows no account: from the printed address to the first plan, in a browser."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from bot.testing.github.faults import Fault
from bot.testing.github.page.page_routes import page_routes
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.model.server import ScriptedModel
from bot.testing.sample import FILES, TITLE
from tests import forks
from tests.stories.github.clocks import RealClock
from tests.stories.github.ground import HOME, WISH, Model, addresses
from tests.stories.ground import bare, until
from tests.webhooks.set_up_ground import PUBLIC, Visitor, create_app

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.req("W4a")
FORM = {"owner": "organization", "organization": "parcel", "name": "Parcel's Plangate", "url": PUBLIC}


@dataclass(slots=True)
class Operator:
    """Somebody who starts the service and reads what it prints."""

    github: SimulatedGitHub
    home: Path
    api: ScriptedModel
    process: forks.Fork | None = None
    printed: list[str] = field(default_factory=list)

    def start(self) -> str:
        """Start the service with no account, and return the address that it prints."""
        self.launch()
        until(lambda: self.log().count("/setup?token=") > len(self.printed), "the address is printed")
        self.printed = re.findall(r"http://\S+", self.log())
        return self.printed[-1]

    def launch(self) -> None:
        self.home.mkdir(exist_ok=True)
        with (self.home / "log").open("ab") as out:
            command, written = ("serve", "--port", "0"), out.fileno()
            self.process = forks.plangate().start(*command, env=self.environment(), stdout=written, stderr=written)

    def environment(self) -> dict[str, str]:
        return {
            **bare(self.home),
            **addresses(self.github, self.api),
            "ANTHROPIC_API_KEY": "test",
            "PLANGATE_DATA_DIR": str(self.home / "data"),
            "PLANGATE_POLL_SECONDS": "0.2",
            "PLANGATE_LOG": "json",
        }

    def log(self) -> str:
        return (self.home / "log").read_text()

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process is None or self.process.poll() is not None:
            return 0
        self.process.send_signal(number)
        return self.process.wait(20)


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    clock = RealClock()
    with (
        ScriptedModel(Model()) as api,
        SimulatedGitHub(tmp_path / "github", clock=clock, pages=page_routes, slug="elsewhere") as github,
    ):
        github.world.add_user("parcel", "Organization")
        github.world.add_repository(HOME, FILES)
        for login, role in {"ada": "admin", "will": "write"}.items():
            github.world.set_role(HOME, login, role)
        made = Operator(github, tmp_path / "home", api)
        try:
            yield made
        finally:
            made.end(signal.SIGKILL)


@dataclass(slots=True)
class Phone:
    """A phone in dark mode, signed in at GitHub as ada; it remembers what went wrong, and what GitHub was told."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    referers: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("request", lambda request: self.referers.append(request.all_headers().get("referer", "")))

    def fits(self) -> bool:
        return bool(self.page.evaluate("document.documentElement.scrollWidth <= 390"))

    def open_form(self, printed: str) -> None:
        """Open the printed address, and fill in what it asks for."""
        page = self.page
        page.goto(printed)
        assert page.url == printed.partition("?")[0]
        color = "getComputedStyle(document.querySelector('.button')).backgroundColor"
        assert page.evaluate(color) == "rgb(35, 134, 54)"
        page.get_by_label("Login of the organization").fill(FORM["organization"])
        page.get_by_label("Name").fill(FORM["name"])
        page.get_by_label("Public address").fill(FORM["url"])
        assert self.fits()
        page.get_by_role("button", name="Continue").click()

    def create_and_install(self) -> None:
        """Confirm the App, create it at GitHub, and install it on one repository."""
        page = self.page
        assert page.get_by_role("row", name="contents write").is_visible()
        assert self.fits()
        page.get_by_role("button", name="Create the App on").click()
        page.get_by_role("button", name="Create GitHub App for parcel").click()
        page.get_by_role("heading", name="Parcel's Plangate exists").wait_for()
        assert self.fits()
        page.get_by_role("link", name="Install the App").click()
        page.get_by_label(HOME).check()
        page.get_by_role("button", name="Install").click()


@pytest.fixture
def phone(operator: Operator, browser: Browser) -> Iterator[Phone]:
    context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark")
    context.add_cookies([{"name": "acting_as", "value": "ada", "url": operator.github.server_url}])
    yield Phone(context.new_page())
    context.close()


def test_from_the_printed_address_to_a_plan(operator: Operator, phone: Phone) -> None:
    """No address with a secret reaches another site, and no secret the log."""
    github, printed = operator.github, operator.start()
    base = printed.partition("/setup")[0]
    github.webhooks.public_hosts[PUBLIC] = base
    phone.open_form(printed)
    phone.create_and_install()
    assert phone.complaints == []
    assert not [each for each in phone.referers if "token=" in each or "code=" in each]
    (installed,) = github.world.installations.values()
    app = github.world.apps[installed.app]
    until(lambda: '"listening"' in operator.log(), "the service goes on as the App")
    assert Visitor(base).get(f"/setup?{urlsplit(printed).query}").status == 410
    issue = github.world.person("will").open_issue(HOME, TITLE, f"@plangate {WISH}")
    until(lambda: any("⏸ plan mode" in each.text.body for each in github.world.comments_of(issue)), "there is a plan")
    assert {each.author for each in github.world.comments_of(issue)} == {app.bot}
    assert operator.end() == 0
    operator.launch()
    until(lambda: operator.log().count('"listening"') == 2, "the next start needs no set-up")
    assert operator.log().count("/setup") == 1
    assert not [each for each in (app.pem[40:80], app.webhook_secret, app.client_secret) if each in operator.log()]


@pytest.mark.long
def test_the_start_after_a_kill_names_the_app_whose_key_is_lost(operator: Operator) -> None:
    github, printed = operator.github, operator.start()
    base = printed.partition("/setup")[0]
    visitor = Visitor(base)
    visitor.get(printed.removeprefix(base))
    path = create_app(github, visitor.begin(FORM), FORM["name"]).removeprefix(base)
    github.faults.plan("POST /app-manifests/*", Fault("delay", seconds=30, done=True))
    with ThreadPoolExecutor() as beside:
        answer = beside.submit(visitor.get, path)
        until(lambda: not github.world.manifest_codes, "GitHub has answered")
        assert operator.end(signal.SIGKILL) == -signal.SIGKILL
        assert isinstance(answer.exception(), OSError)
    assert not (operator.home / "data/github-app.json").exists()
    printed = operator.start()
    base = printed.partition("/setup")[0]
    visitor = Visitor(base)
    visitor.get(printed.removeprefix(base))
    path = create_app(github, visitor.begin(FORM | {"name": "Another"}), "Another").removeprefix(base)
    assert visitor.get(path).status == 200
    assert "PLANGATE_PRIVATE_KEY" in json.loads((operator.home / "data/github-app.json").read_text())


def test_a_set_up_that_nobody_finishes_leaves_nothing(operator: Operator) -> None:
    token = operator.start().partition("token=")[2]
    assert operator.end(signal.SIGTERM) == 0
    assert list((operator.home / "data").iterdir()) == []
    assert not [line for line in operator.log().splitlines() if line.startswith("{") and token in line]
