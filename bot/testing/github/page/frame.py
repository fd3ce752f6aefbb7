"""The frame of every page, and the lists of repositories and threads."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bot.testing.github.entities import Issue, Repository, Role, User
from bot.testing.github.page.markdown import DOCTYPE, Child, Html, element, join, shown_title
from bot.testing.github.world import GitHubState

VISITOR: Final = User(0, "visitor")
"""The viewer while the world has no people. The viewer's first action adds this person to the world."""


@dataclass(frozen=True, slots=True)
class Visit:
    world: GitHubState
    viewer: User
    path: str
    repository: Repository | None


@dataclass(frozen=True, slots=True)
class Scene(Visit):
    repository: Repository

    @property
    def root(self) -> str:
        return f"/{self.repository.full_name}"

    @property
    def role(self) -> Role:
        return self.world.role(self.repository, self.viewer.id)

    def login(self, user: int | None) -> str:
        return self.world.users[user].login if user in self.world.users else "ghost"


def people(world: GitHubState, repository: Repository | None) -> list[User]:
    persons = [user for user in world.users.values() if user.type == "User"]
    if repository is None:
        return persons
    order = list(Role)
    return sorted(persons, key=lambda user: -order.index(world.role(repository, user.id)))


def frame(visit: Visit, title: str, main: Child) -> Html:
    head = element(
        "head", element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"), element("title", title),
        element("link", rel="stylesheet", href="/static/page.css"),
        element("script", src="/static/page.js", defer=True),
    )  # fmt: skip
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
    choices = []
    for user in people(visit.world, visit.repository) or [visit.viewer]:
        role = f" ({visit.world.role(visit.repository, user.id)})" if visit.repository else ""
        choices.append(element("option", user.login, role, value=user.login, selected=user.login == visit.viewer.login))
    switcher = element(
        "form", element("input", type="hidden", name="back", value=visit.path),
        element("label", "Acting as", for_="acting"), element("select", choices, id="acting", name="login"),
        element("button", "Switch", class_="plain"), method="post", action="/acting-as",
    )  # fmt: skip
    return element("div", element("div", element("nav", crumbs, aria_label="Where you are"), switcher), class_="bar")


def moment(at: datetime) -> Html:
    return element("time", f"{at:%Y-%m-%d %H:%M:%S} UTC", datetime=at.isoformat())


def avatar(user: str) -> Html:
    """Return an avatar made of the first letter of the login, so that no image is fetched."""
    kind = "avatar bot" if user.endswith("[bot]") else "avatar"
    return element("span", user[:1], class_=kind, aria_hidden="true")


def labels(names: Sequence[str]) -> list[Child]:
    return [[element("span", name, class_="label"), " "] for name in names]


def state(issue: Issue) -> Html:
    name, style = "Open", "open"
    if issue.pull and issue.pull.merged_at:
        name, style = "Merged", "merged"
    elif issue.state == "closed":
        name, style = "Closed", "done" if not issue.pull and issue.state_reason == "completed" else "closed"
    elif issue.pull and issue.pull.draft:
        name, style = "Draft", "draft"
    return element("span", name, class_=f"state {style}")


def address(repository: Repository, issue: Issue) -> str:
    return f"/{repository.full_name}/{'pull' if issue.pull else 'issues'}/{issue.number}"


STATES: Final = ("open", "closed", "all")
KINDS: Final = {"issues": "Issues", "pulls": "Pull requests"}


def repositories(world: GitHubState, readable: Sequence[Repository]) -> Html:
    rows = [_repository(world, each) for each in readable]
    return element("ul", rows or element("li", "No repositories yet."), class_="list", id="threads", data_live=True)


def _repository(world: GitHubState, repository: Repository) -> Html:
    threads = sum(home == repository.id for home, _ in world.issues)
    link = element("a", repository.full_name, href=f"/{repository.full_name}", class_="title")
    return element("li", element("span", link, element("small", f"{threads} issues and pull requests"), class_="grow"))


def threads(scene: Scene, *, kind: str, wanted: str) -> list[Child]:
    issues = [
        issue
        for (home, _), issue in sorted(scene.world.issues.items(), reverse=True)
        if home == scene.repository.id
        and wanted in (issue.state, "all")
        and kind in ("", "pulls" if issue.pull else "issues")
    ]
    rows = [_row(scene, issue) for issue in issues]
    listing = element("ul", rows or element("li", "Nothing here."), class_="list", id="threads", data_live=True)
    names = [("", "All"), *KINDS.items()]
    links = [_tab(f"{scene.root}{f'/{each}' if each else ''}", name, at=each == kind) for each, name in names]
    kinds = element("nav", links, class_="tabs", aria_label="Kinds of threads")
    return [element("h1", scene.repository.full_name), kinds, _states(scene, wanted), listing]


def _row(scene: Scene, issue: Issue) -> Html:
    count = len(scene.world.comments_of(issue))
    link = element("a", shown_title(issue.title), href=address(scene.repository, issue), class_="title")
    by = [f"#{issue.number} by {scene.login(issue.author)} on ", moment(issue.created_at)]
    where = element("span", link, " ", labels(issue.labels), element("small", by), class_="grow")
    return element("li", state(issue), where, element("span", f"💬 {count}", class_="note") if count else None)


def _states(scene: Scene, here: str) -> Html:
    links = [_tab(f"?state={wanted}", wanted.capitalize(), at=wanted == here) for wanted in STATES]
    new = element("a", "New issue", href=f"{scene.root}/issues/new", class_="button primary")
    return element("div", element("nav", links, class_="grow", aria_label="State"), new, class_="head")


def _tab(href: str, name: str, *, at: bool) -> list[Child]:
    return [element("a", name, href=href, aria_current="page" if at else None), " "]


def new_issue(scene: Scene) -> list[Child]:
    return [
        element("h1", "New issue"),
        element(
            "form",
            element("p", element("label", "Title", for_="title")),
            element("input", type="text", id="title", name="title", required=True, maxlength=256, class_="wide"),
            element("p", element("label", "Description ", element("span", "(Markdown)", class_="note"), for_="body")),
            element("textarea", id="body", name="body"),
            element("button", "Submit new issue", class_="button primary"),
            method="post",
            action=f"{scene.root}/issues",
        ),
    ]  # fmt: skip
