"""What every page shares: the visit, the top bar with the person switcher, and small elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bot.testing.github.entities import Issue, Repository, Role, User
from bot.testing.github.page.html import DOCTYPE, Child, Html, element, join
from bot.testing.github.world import GitHubState

VISITOR: Final = User(0, "visitor")
"""The viewer while the world has no people. The first action as this person adds them to the world."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A viewer on a page. `path` is the page's own address, to which forms return."""

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
        """The address of the repository."""
        return f"/{self.repository.full_name}"

    @property
    def role(self) -> Role:
        """The viewer's role in the repository."""
        return self.world.role(self.repository, self.viewer.id)

    def login(self, user: int | None) -> str:
        """Return a user's login, or "ghost" for a deleted user, as GitHub does."""
        return self.world.users[user].login if user in self.world.users else "ghost"


def people(world: GitHubState, repository: Repository | None) -> list[User]:
    """Return the people of the world, those with the strongest role in the repository first."""
    persons = [user for user in world.users.values() if user.type == "User"]
    if repository is None:
        return persons
    order = list(Role)
    return sorted(persons, key=lambda user: -order.index(world.role(repository, user.id)))


def frame(visit: Visit, title: str, main: Child) -> Html:
    """Return a whole page."""
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
        element("main", element("p", id="notice", role="status", class_="note"), main, id="main", tabindex=-1),
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
    """Return a time in a format for people, with a machine-readable attribute."""
    return element("time", f"{at:%Y-%m-%d %H:%M:%S} UTC", datetime=at.isoformat())


def avatar(user: str) -> Html:
    """Return an avatar made of the first letter of the login, so that no image is fetched."""
    kind = "avatar bot" if user.endswith("[bot]") else "avatar"
    return element("span", user[:1], class_=kind, aria_hidden="true")


def labels(names: Sequence[str]) -> list[Child]:
    """Return the labels of a thread."""
    return [[element("span", name, class_="label"), " "] for name in names]


def state(issue: Issue) -> Html:
    """Return the state of a thread under GitHub's name for it."""
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
    """Return the address of a thread's page, which is the same as on GitHub."""
    return f"/{repository.full_name}/{'pull' if issue.pull else 'issues'}/{issue.number}"
