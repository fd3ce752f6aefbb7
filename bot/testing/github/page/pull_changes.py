"""One job: show the changes of a pull request (commits, checks, and diff), read from the bare repository."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bot.testing.github.entities import CheckRun, Issue, Pull, Role
from bot.testing.github.page.bare_repository import Commit, FileChange, Line, changes, commits
from bot.testing.github.page.frame import Scene, address, moment
from bot.testing.github.page.html import Child, Html, element

SIGN: Final = {"added": "+", "removed": "-"}
MAX_LINES: Final = 2_000
"""Maximum lines shown of one file."""


def tabs(scene: Scene, issue: Issue, pull: Pull, *, here: str) -> Html:
    """Return the tabs of a pull request. `here` is "", "commits", or "files"."""
    root = address(scene.repository, issue)
    counts = {
        "": len(scene.world.comments_of(issue)),
        "commits": len(branch_commits(scene, pull)),
        "files": len(diff(scene, pull)),
    }
    names = {"": "Conversation", "commits": "Commits", "files": "Files changed"}
    links = [
        element(
            "a",
            [name, " ", element("span", counts[key], class_="count")],
            href=f"{root}/{key}".rstrip("/"),
            aria_current="page" if key == here else None,
        )
        for key, name in names.items()
    ]
    return element("nav", links, class_="tabs", id="tabs", data_live=True, aria_label="Pull request")


def branch_commits(scene: Scene, pull: Pull) -> Sequence[Commit]:
    """Return the commits, or none while git does not have them."""
    try:
        return commits(scene.repository.folder, pull.base_sha, pull.head_sha)
    except LookupError:
        return ()


def diff(scene: Scene, pull: Pull) -> Sequence[FileChange]:
    """Return the changed files, or none while git does not have the commits."""
    try:
        return changes(scene.repository.folder, pull.base_sha, pull.head_sha)
    except LookupError:
        return ()


def commit_list(scene: Scene, pull: Pull) -> Html:
    """Return the list of a pull request's commits."""
    rows = [
        element(
            "li",
            element("span", commit.subject, element("small", commit.author, " on ", moment(commit.at)), class_="grow"),
            element("code", commit.oid[:7]),
        )
        for commit in branch_commits(scene, pull)
    ]
    return element("ul", rows or element("li", "No commits."), class_="list", id="commits", data_live=True)


def files(scene: Scene, pull: Pull) -> Html:
    """Return the diff of a pull request, file by file."""
    shown = [_file(change) for change in diff(scene, pull)]
    return element("div", shown or element("p", "No changes."), id="files", data_live=True)


def _file(change: FileChange) -> Html:
    plus, minus = change.count("added"), change.count("removed")
    counts = [element("span", f"+{plus}", class_="plus"), " ", element("span", f"−{minus}", class_="minus")]
    rows = [_row(line) for line in change.lines[:MAX_LINES]]
    if len(change.lines) > MAX_LINES:
        rows.append(_row(Line("note", f"{len(change.lines) - MAX_LINES} more lines are not shown.")))
    table = element("div", element("table", element("tbody", rows)), class_="diff", tabindex=0)
    return element("details", element("summary", change.path, " ", counts), table, class_="file", open=True)


def _row(line: Line) -> Html:
    before, after = (element("td", str(number or ""), class_="n") for number in (line.before, line.after))
    return element("tr", before, after, element("td", SIGN.get(line.kind, " "), line.text), class_=line.kind)


def standing(scene: Scene, issue: Issue, pull: Pull) -> Html:
    """Return the checks of a pull request's head, and a merge button if the viewer may merge."""
    runs = [run for run in scene.world.check_runs.values() if run.head_sha == pull.head_sha]
    rows = [element("li", element("span", run.name, class_="grow"), element("span", _outcome(run))) for run in runs]
    checks = element("ul", rows, class_="list") if rows else None
    merge: Child = None
    if issue.state == "open" and not pull.draft and scene.role.covers(Role.WRITE):
        button = element("button", "Merge pull request", class_="button primary")
        merge = element("form", button, method="post", action=f"{scene.path}/merge", data_stay=True)
    return element("div", checks, merge, class_="standing", id="standing", data_live=True)


def _outcome(run: CheckRun) -> str:
    return f"{'✓' if run.conclusion == 'success' else '•'} {run.conclusion or run.status}"
