"""What the tests of the set-up stand on: a simulated GitHub with an organization, the set-up's HTTP, and a browser
that keeps its cookies and follows nothing by itself."""

import http.client
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import requests

from bot.compose.app_set_up import AppSetUp, open_app_set_up
from bot.config.settings import GitHubSettings, Settings
from bot.core.secrets.redaction import Redactor
from bot.testing.github.page.page_routes import page_routes
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.host import host_application
from webhooks.setup.set_up import SetUpRoutes, SetUpVisitor

PUBLIC: Final = "https://plangate.acme.example"
FORM: Final = {"owner": "organization", "organization": "acme", "name": "Acme's Plangate", "url": PUBLIC}


@contextmanager
def organization(folder: Path) -> Iterator[SimulatedGitHub]:
    """acme with a repository that ada administers; she is who acts on GitHub's pages."""
    with SimulatedGitHub(folder, pages=page_routes, slug="elsewhere") as github:
        github.world.add_user("acme", "Organization")
        github.world.add_repository("acme/shop", {"README.md": "# Shop\n"})
        github.world.set_role("acme/shop", "ada", "admin")
        yield github


def settings_for(github: SimulatedGitHub, folder: Path) -> Settings:
    urls = GitHubSettings(api_url=github.api_url, graphql_url=github.graphql_url, server_url=github.server_url)
    return Settings(data_dir=folder / "data", github=urls)


@dataclass(frozen=True, slots=True)
class Got:
    """An answer of the set-up."""

    status: int
    text: str
    headers: dict[str, str]


@dataclass(slots=True)
class Visitor:
    """A browser at the set-up, or whoever pretends to be one."""

    base: str
    cookies: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, **headers: str) -> Got:
        return self.ask("GET", path, None, headers)

    def post(self, path: str, form: dict[str, str], **headers: str) -> Got:
        return self.ask("POST", path, urlencode(form), {"origin": self.base} | headers)

    def ask(self, method: str, path: str, body: str | None, headers: dict[str, str]) -> Got:
        where = urlsplit(self.base)
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=20)
        try:
            kept = {"cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
            connection.request(method, path, body, kept | headers)
            answer = connection.getresponse()
            got = Got(answer.status, answer.read().decode(), {key.lower(): each for key, each in answer.getheaders()})
        finally:
            connection.close()
        if made := got.headers.get("set-cookie"):
            name, _, value = made.partition(";")[0].partition("=")
            self.cookies[name] = value
        return got

    def begin(self, form: dict[str, str] | None = None) -> dict[str, str]:
        """Fill in the form, and return what the next page posts to GitHub: `url` and `manifest`."""
        got = self.post("/setup", form or FORM)
        assert got.status == 200, got.text
        return {
            "url": unescape(found(r'action="([^"]*/settings/apps/new[^"]*)"', got.text)),
            "manifest": unescape(found(r'name="manifest" value="([^"]*)"', got.text)),
        }


@dataclass(slots=True)
class Ground:
    """A set-up that waits, on the simulated GitHub."""

    github: SimulatedGitHub
    routes: SetUpRoutes
    set_up: AppSetUp
    base: str

    @property
    def file(self) -> Path:
        return self.set_up.path

    def visitor(self) -> Visitor:
        return Visitor(self.base)

    def operator(self) -> Visitor:
        """Return the browser that opened the printed address."""
        made = self.visitor()
        assert made.get(f"/setup?token={self.routes.visitor.token}").status == 303
        return made

    def created(self) -> tuple[Visitor, str]:
        """Return the operator's browser, and the path to which GitHub sends it after it created the App."""
        operator = self.operator()
        return operator, self.create(operator.begin())

    def create(self, begun: dict[str, str], name: str = FORM["name"]) -> str:
        """Create the App on GitHub's pages, and return the path to which GitHub sends the browser."""
        return create_app(self.github, begun, name).removeprefix(self.base)


def create_app(github: SimulatedGitHub, begun: dict[str, str], name: str) -> str:
    """Create an App on GitHub's pages as ada, and return the address to which GitHub sends her."""
    assert begun["url"].startswith(f"{github.server_url}/")
    state = dict(parse_qsl(urlsplit(begun["url"]).query))["state"]
    form = {"manifest": begun["manifest"], "state": state, "name": name}
    url = begun["url"].partition("/new")[0]
    made = requests.post(url, form, cookies={"acting_as": "ada"}, allow_redirects=False, timeout=20)
    assert made.status_code == 303, made.text
    return made.headers["Location"]


@contextmanager
def ground(folder: Path, host: str = "127.0.0.1") -> Iterator[Ground]:
    with organization(folder / "github") as github, running(github, folder, host) as made:
        yield made


@contextmanager
def running(github: SimulatedGitHub, folder: Path, host: str = "127.0.0.1") -> Iterator[Ground]:
    with open_app_set_up(settings_for(github, folder), Redactor()) as set_up:
        routes = SetUpRoutes(set_up, SetUpVisitor(host))
        with host_application(routes.application()) as base:
            yield Ground(github, routes, set_up, base)


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match, text
    return match[1]
