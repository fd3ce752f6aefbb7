"""A dashboard over real HTTP beside a simulated GitHub at which people sign in, and a browser without scripts."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import requests
from fastapi import FastAPI

from bot.config.settings import GitHubSettings, Secret, ServiceSettings, Settings
from bot.core.secrets.redaction import Redactor
from bot.service.viewers import SignIn
from bot.testing.github import credentials
from bot.testing.github.entities import Comment, Installation
from bot.testing.github.page.page_routes import page_routes
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.github.world import TurnedClock
from bot.testing.host import host_application
from tests.webhooks.dashboard.samples import HOME, NOW, OTHER, SampleReading
from webhooks.dashboard.service_pages import add_dashboard
from webhooks.event_stream import Streams

THREAD = f"/threads/{HOME}/1"
HIDDEN = f"/threads/{OTHER}/7"
ROLES = {"ada": "admin", "maya": "maintain", "will": "write", "rita": "read"}


@dataclass
class Page:
    """A page as a browser without scripts reads it."""

    answer: requests.Response

    @property
    def status(self) -> int:
        return self.answer.status_code

    @property
    def html(self) -> str:
        return self.answer.text

    def tags(self, name: str) -> list[dict[str, str | None]]:
        """List the attributes of all elements of that name."""
        return [attributes for tag, attributes in self._found if tag == name]

    @cached_property
    def _found(self) -> list[tuple[str, dict[str, str | None]]]:
        return _Tags(self.html).found

    def form(self, verb: str) -> dict[str, str]:
        """Return what the form with a button of that verb sends."""
        for hidden, buttons in _Forms(self.html).found:
            if verb in buttons:
                return {**hidden, "verb": verb}
        raise AssertionError(f"no button {verb}")


@dataclass
class Site:
    """The dashboard, the GitHub behind it, and what the overview holds."""

    github: SimulatedGitHub
    clock: TurnedClock
    installation: Installation
    reading: SampleReading
    base: str = ""
    people: dict[str, requests.Session] = field(default_factory=dict)
    _posted: set[str] = field(default_factory=set)
    """Who sent a form: their session remembers it."""

    def browser(self, login: str) -> requests.Session:
        """Return the browser of a person, who is signed in."""
        if login not in self.people:
            self.people[login] = self.signed_in(login)
        return self.people[login]

    def signed_in(self, login: str, back: str = "/") -> requests.Session:
        """Sign a person in with a new browser: to GitHub, one click there, and back."""
        browser = requests.Session()
        away = browser.get(f"{self.base}/sign-in/github", params={"back": back}, allow_redirects=False, timeout=20)
        click = requests.post(away.headers["location"], data={"login": login}, allow_redirects=False, timeout=20)
        browser.get(click.headers["location"], allow_redirects=False, timeout=20)
        return browser

    def get(self, path: str, login: str = "maya") -> Page:
        return Page(self.browser(login).get(self.base + path, allow_redirects=False, timeout=20))

    def post(self, path: str, form: dict[str, str], login: str = "maya", origin: str | None = None) -> Page:
        """Send a form, as a page of this origin does unless another is given ("": none)."""
        self._posted.add(login)
        named = self.base if origin is None else origin
        headers = {"Origin": named} if named else {}
        answer = self.browser(login).post(
            self.base + path, data=form, headers=headers, allow_redirects=False, timeout=20
        )
        return Page(answer)

    def renew(self) -> None:
        """Show again what was shown first, forget what people posted, and have those who posted sign in again."""
        fresh = SampleReading(self.reading.ids, installation=self.reading.installation)
        for each in fields(SampleReading):
            if each.name != "recorder":
                setattr(self.reading, each.name, getattr(fresh, each.name))
        self.github.world.comments.clear()
        for login in self._posted:
            self.people.pop(login, None)
        self._posted.clear()

    def comments(self) -> list[Comment]:
        return list(self.github.world.comments.values())


@contextmanager
def running(folder: Path, *, public_url: str = "", has_app: bool = True, host: str = "127.0.0.1") -> Iterator[Site]:
    """Serve a dashboard whose people have roles in one repository; only ada has one in the other.

    Without an App there is no sign-in.
    """
    clock = TurnedClock(NOW)
    with SimulatedGitHub(folder / "github", clock=clock, pages=page_routes) as github:
        world = github.world
        world.add_user("parcel", "Organization")
        for name in (HOME, OTHER):
            world.add_repository(name, {"README.md": "# Parcel\n"}, private=True)
            world.set_role(name, "ada", "admin")
        for login, role in ROLES.items():
            world.set_role(HOME, login, role)
        world.add_user("eve")
        for number in range(1, 9):
            world.person("will").open_issue(HOME, f"Issue {number}", "@plangate please")
        installation = credentials.install(world, github.app, "parcel")
        reading = SampleReading({name: world.repository(name).id for name in (HOME, OTHER)})
        reading.installation = installation.id
        given = settings(github, folder, public_url)
        if not has_app:
            plain = replace(given.github, app_id="", private_key=Secret(""), token=Secret("t" * 40))
            given = replace(given, github=plain)
        sign_in = SignIn(given, clock, Redactor())
        app = FastAPI(docs_url=None)

        @app.post("/announce/{repository}")
        async def announce(repository: int) -> None:
            reading.recorder.announcements.announce_list(repository)

        add_dashboard(app, reading=reading.overview(), sign_in=sign_in, streams=Streams())
        with host_application(app, interface=host) as base:
            yield Site(github, clock, installation, reading, base)


def settings(github: SimulatedGitHub, folder: Path, public_url: str = "") -> Settings:
    app = github.app
    reached = GitHubSettings(
        github.api_url,
        github.graphql_url,
        github.server_url,
        app_id=str(app.id),
        private_key=Secret(app.pem),
        webhook_secret=Secret(app.webhook_secret),
        client_id=app.client_id,
        client_secret=Secret(app.client_secret),
        write_pause=0.0,
    )
    return Settings(data_dir=folder, github=reached, service=replace(ServiceSettings(), public_url=public_url))


def query_of(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


class _Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


class _Forms(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[dict[str, str], set[str]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.found.append(({}, set()))
        elif tag == "input" and values.get("type") == "hidden":
            self.found[-1][0][values["name"]] = values.get("value", "")
        elif tag == "button" and "value" in values:
            self.found[-1][1].add(values["value"])
