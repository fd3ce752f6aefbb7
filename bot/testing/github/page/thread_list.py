"""Shows the threads of a repository, the list of repositories, and the form for a new issue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bot.testing.github.entities import Issue, Repository
from bot.testing.github.page.frame import Scene, address, labels, moment, state
from bot.testing.github.page.html import Child, Html, element
from bot.testing.github.page.markdown import shown_title
from bot.testing.github.world import GitHubState

STATES: Final = ("open", "closed", "all")
KINDS: Final = {"issues": "Issues", "pulls": "Pull requests"}


def repositories(world: GitHubState, readable: Sequence[Repository]) -> Html:
    """Return the list of repositories."""
    rows = [_repository(world, each) for each in readable]
    return element("ul", rows or element("li", "No repositories yet."), class_="list", id="threads", data_live=True)


def _repository(world: GitHubState, repository: Repository) -> Html:
    threads = sum(home == repository.id for home, _ in world.issues)
    link = element("a", repository.full_name, href=f"/{repository.full_name}", class_="title")
    return element("li", element("span", link, element("small", f"{threads} issues and pull requests"), class_="grow"))


def threads(scene: Scene, *, kind: str, wanted: str) -> list[Child]:
    """Return the issues ("issues"), pull requests ("pulls"), or both ("") in a state, newest first."""
    issues = [
        issue
        for (home, _), issue in sorted(scene.world.issues.items(), reverse=True)
        if home == scene.repository.id and wanted in (issue.state, "all") and kind in ("", _kind(issue))
    ]
    rows = [_row(scene, issue) for issue in issues]
    listing = element("ul", rows or element("li", "Nothing here."), class_="list", id="threads", data_live=True)
    return [element("h1", scene.repository.full_name), _kinds(scene, kind), _states(scene, wanted), listing]


def _kind(issue: Issue) -> str:
    return "pulls" if issue.pull else "issues"


def _row(scene: Scene, issue: Issue) -> Html:
    count = len(scene.world.comments_of(issue))
    link = element("a", shown_title(issue.title), href=address(scene.repository, issue), class_="title")
    by = [f"#{issue.number} by {scene.login(issue.author)} on ", moment(issue.created_at)]
    where = element("span", link, " ", labels(issue.labels), element("small", by), class_="grow")
    return element("li", state(issue), where, element("span", f"💬 {count}", class_="note") if count else None)


def _kinds(scene: Scene, here: str) -> Html:
    links = [_tab(f"{scene.root}{f'/{kind}' if kind else ''}", name, at=kind == here) for kind, name in _NAMES]
    return element("nav", links, class_="tabs", aria_label="Kinds of threads")


_NAMES: Final = (("", "All"), *KINDS.items())


def _states(scene: Scene, here: str) -> Html:
    links = [_tab(f"?state={wanted}", wanted.capitalize(), at=wanted == here) for wanted in STATES]
    new = element("a", "New issue", href=f"{scene.root}/issues/new", class_="button primary")
    return element("div", element("nav", links, class_="grow", aria_label="State"), new, class_="head")


def _tab(href: str, name: str, *, at: bool) -> list[Child]:
    return [element("a", name, href=href, aria_current="page" if at else None), " "]


def new_issue(scene: Scene) -> list[Child]:
    """Return the form for a new issue."""
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
    ]
