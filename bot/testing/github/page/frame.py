"""One job: what every page shares: who looks at what, the bar with the person switcher, and small parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bot.testing.github.entities import Issue, Repository, Role, User
from bot.testing.github.page.html import DOCTYPE, Child, Html, element, join
from bot.testing.github.world import GitHubState

VISITOR: Final = User(0, "visitor")
"""Who looks while nobody has joined; acting as this one makes them join."""


@dataclass(frozen=True, slots=True)
class Visit:
    """Who looks at what; `path` is the page's own address, to which forms come back."""

    world: GitHubState
    viewer: User
    path: str
    repository: Repository | None


@dataclass(frozen=True, slots=True)
class Scene(Visit):
    """A visit to a repository."""

    repository: Repository

    @property
    def root(self) -> str:
        """The repository's address."""
        return f"/{self.repository.full_name}"

    @property
    def role(self) -> Role:
        """What the viewer may do here."""
        return self.world.role(self.repository, self.viewer.id)

    def login(self, user: int | None) -> str:
        """Give a user's login; GitHub's name for who is gone is ghost."""
        return self.world.users[user].login if user in self.world.users else "ghost"


def people(world: GitHubState, repository: Repository | None) -> list[User]:
    """List the persons of the world, the strongest role first."""
    persons = [user for user in world.users.values() if user.type == "User"]
    if repository is None:
        return persons
    order = list(Role)
    return sorted(persons, key=lambda user: -order.index(world.role(repository, user.id)))


def frame(visit: Visit, title: str, main: Child) -> Html:
    """Give a whole page."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("link", rel="stylesheet", href="/static/page.css"),
        element("script", src="/static/page.js", defer=True),
    )
    body = element(
        "body",
        element("a", "Skip to content", href="#main", class_="skip"),
        _bar(visit),
        element("main", element("p", id="said", role="status", class_="note"), main, id="main", tabindex=-1),
    )
    return join([DOCTYPE, element("html", head, body, lang="en")])


def _bar(visit: Visit) -> Html:
    crumbs: list[Child] = [element("a", "Simulated GitHub", href="/")]
    if visit.repository:
        crumbs += [" / ", element("a", visit.repository.full_name, href=f"/{visit.repository.full_name}")]
    choices = [_choice(visit, user) for user in people(visit.world, visit.repository) or [visit.viewer]]
    switcher = element(
        "form",
        element("input", type="hidden", name="back", value=visit.path),
        element("label", "Acting as", for_="acting"),
        element("select", choices, id="acting", name="login"),
        element("button", "Switch", class_="plain"),
        method="post",
        action="/acting-as",
    )
    return element("div", element("div", element("nav", crumbs, aria_label="Where you are"), switcher), class_="bar")


def _choice(visit: Visit, user: User) -> Html:
    role = f" ({visit.world.role(visit.repository, user.id)})" if visit.repository else ""
    return element("option", user.login, role, value=user.login, selected=user.login == visit.viewer.login)


def moment(at: datetime) -> Html:
    """Give a time as people read it and as programs do."""
    return element("time", f"{at:%Y-%m-%d %H:%M:%S} UTC", datetime=at.isoformat())


def avatar(user: str) -> Html:
    """Give a picture of somebody without fetching one: the first letter."""
    kind = "avatar bot" if user.endswith("[bot]") else "avatar"
    return element("span", user[:1], class_=kind, aria_hidden="true")


def labels(names: Sequence[str]) -> list[Child]:
    """Give the labels of a thread."""
    return [[element("span", name, class_="label"), " "] for name in names]


def state(issue: Issue) -> Html:
    """Give the state of a thread as GitHub names it."""
    name, look = "Open", "open"
    match issue:
        case Issue(pull=pull) if pull and pull.merged_at:
            name, look = "Merged", "merged"
        case Issue(state="closed", pull=None, state_reason="completed"):
            name, look = "Closed", "done"
        case Issue(state="closed"):
            name, look = "Closed", "closed"
        case Issue(pull=pull) if pull and pull.draft:
            name, look = "Draft", "draft"
        case _:
            pass
    return element("span", name, class_=f"state {look}")


def address(repository: Repository, issue: Issue) -> str:
    """Give the address of a thread's page, which is GitHub's own."""
    return f"/{repository.full_name}/{'pull' if issue.pull else 'issues'}/{issue.number}"
