"""Shows the changes of a pull request (commits, checks, and diff), read from the bare repository."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from bot.testing.github.bare import Bare, GitRefusedError
from bot.testing.github.diffs import ChangedFile, changed_files, commits_between
from bot.testing.github.entities import CheckRun, Issue, Pull, Role
from bot.testing.github.git_objects import CommitText
from bot.testing.github.page.frame import Scene, address, moment
from bot.testing.github.page.html import Child, Html, element

MAX_LINES: Final = 2_000
"""Maximum lines shown of one file."""
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)")
_KINDS: Final = {"+": "added", "-": "removed", " ": "context", "@": "hunk", "\\": "note"}


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


def branch_commits(scene: Scene, pull: Pull) -> tuple[str, ...]:
    """Return the ids of the commits, oldest first; none while git does not have them."""
    try:
        return commits_between(scene.world.bare(scene.repository), pull.base_sha, pull.head_sha)
    except GitRefusedError:
        return ()


def diff(scene: Scene, pull: Pull) -> tuple[ChangedFile, ...]:
    """Return the changed files, or none while git does not have the commits."""
    try:
        return changed_files(scene.world.bare(scene.repository), pull.base_sha, pull.head_sha)
    except GitRefusedError:
        return ()


def commit_list(scene: Scene, pull: Pull) -> Html:
    """Return the list of a pull request's commits."""
    rows = [_commit(scene.world.bare(scene.repository), commit) for commit in branch_commits(scene, pull)]
    return element("ul", rows or element("li", "No commits."), class_="list", id="commits", data_live=True)


def _commit(bare: Bare, commit: str) -> Html:
    found = CommitText.parse(bare.commit_text(commit))
    at = datetime.fromisoformat(found.author["date"]).astimezone(UTC)
    by = element("small", found.author["name"], " on ", moment(at))
    subject = found.message.partition("\n")[0]
    return element("li", element("span", subject, by, class_="grow"), element("code", commit[:7]))


def files(scene: Scene, pull: Pull) -> Html:
    """Return the diff of a pull request, file by file."""
    changes = [_file(change) for change in diff(scene, pull)]
    return element("div", changes or element("p", "No changes."), id="files", data_live=True)


def _file(change: ChangedFile) -> Html:
    plus, minus = (
        element("span", f"+{change.additions}", class_="plus"),
        element("span", f"−{change.deletions}", class_="minus"),
    )
    rows = list(_rows(change))
    if len(rows) > MAX_LINES:
        rows = [*rows[:MAX_LINES], _row("note", f"{len(rows) - MAX_LINES} more lines are not shown.")]
    table = element("div", element("table", element("tbody", rows)), class_="diff", tabindex=0)
    path = f"{change.previous} → {change.path}" if change.previous else change.path
    return element("details", element("summary", path, " ", plus, " ", minus), table, class_="file", open=True)


def _rows(change: ChangedFile) -> Iterator[Html]:
    """Yield the lines of a patch, each with its numbers before and after."""
    if change.status != "modified":
        yield _row("note", f"File {change.status}")
    if change.patch is None:
        yield _row("note", "No lines to show")
    before = after = 0
    for line in (change.patch or "").split("\n"):
        if match := _HUNK.match(line):
            before, after = int(match[1]), int(match[2])
        kind = _KINDS.get(line[:1], "note")
        has_before, has_after = kind in {"removed", "context"}, kind in {"added", "context"}
        if line:
            yield _row(kind, line, before if has_before else 0, after if has_after else 0)
        before, after = before + has_before, after + has_after


def _row(kind: str, line: str, before: int = 0, after: int = 0) -> Html:
    numbers = (element("td", str(number or ""), class_="n") for number in (before, after))
    return element("tr", *numbers, element("td", line), class_=kind)


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
