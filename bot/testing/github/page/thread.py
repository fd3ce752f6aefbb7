"""Shows a thread as GitHub does, and the changes of a pull request.

Rules: all text written by people or programs is untrusted and reaches the page only through `element` and the Markdown
renderer (markdown.py). Controls that the viewer may not use are hidden, and the routes check permissions again.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from bot.testing.github.bare import Bare, GitRefusedError
from bot.testing.github.code_changes import ChangedFile, changed_files, commits_between, issues_named, pulls_naming
from bot.testing.github.entities import Comment, EditableText, Issue, Pull, Review, ReviewComment, Role
from bot.testing.github.git_objects import CommitText
from bot.testing.github.page.frame import Scene, address, avatar, labels, moment, state
from bot.testing.github.page.markdown import Boxes, Child, Html, element, render_markdown, shown_title

# https://docs.github.com/en/rest/reactions/reactions#about-reactions
EMOJI: Final[Mapping[str, str]] = MappingProxyType(
    {
        "+1": "👍", "-1": "👎", "confused": "😕", "rocket": "🚀", "eyes": "👀",
        "laugh": "😄", "heart": "❤️", "hooray": "🎉",
    }
)  # fmt: skip
OFFERED: Final = ("+1", "-1", "confused", "rocket", "eyes")
"""The reactions that are always offered, because they have a meaning for the bot."""


@dataclass(frozen=True, slots=True)
class ThreadMessage:
    anchor: str
    author: int
    at: datetime
    text: EditableText
    said: Child
    node: str = ""
    minimized: str | None = None


# https://docs.github.com/en/communities/moderating-comments-and-conversations/managing-disruptive-comments
def may_edit(scene: Scene, author: int) -> bool:
    """Return whether the viewer may edit a text by that author. Anyone with write access may edit any text."""
    return scene.viewer.id == author or scene.role.covers(Role.WRITE)


def conversation(scene: Scene, issue: Issue, below: Child = None) -> list[Child]:
    timeline = [_entry(scene, issue, entry) for entry in entries(scene, issue)]
    posts = element("div", timeline, _ending(scene, issue), class_="timeline", id="timeline")
    return [element("div", element("div", posts, below, write(scene, issue)), sidebar(scene, issue), class_="columns")]


def heading(scene: Scene, issue: Issue) -> Html:
    pull, author = issue.pull, element("b", scene.login(issue.author))
    parts: list[Child] = [author, " opened this issue on ", moment(issue.created_at)]
    if pull:
        refs = ["from ", element("code", pull.head_ref), " into ", element("code", pull.base_ref)]
        parts = [author, " merged " if pull.merged_at else " wants to merge ", refs]
    locked = element("span", "🔒 Locked", class_="badge") if issue.locked else None
    summary = element("div", state(issue), element("span", parts), locked, class_="summary")
    number = element("span", f"#{issue.number}", class_="number")
    return element("div", element("h1", shown_title(issue.title), " ", number), summary, id="heading", data_live=True)


def entries(scene: Scene, issue: Issue) -> list[ThreadMessage]:
    world = scene.world
    first = ThreadMessage(f"issue-{issue.id}", issue.author, issue.created_at, issue.text, "opened this", issue.node_id)
    later = [
        *map(_of_comment, world.comments_of(issue)), *map(_of_review, world.reviews_of(issue)),
        *map(_of_review_comment, world.review_comments_of(issue)),
    ]  # fmt: skip
    return [first, *sorted(later, key=lambda entry: entry.at)]


def _of_comment(comment: Comment) -> ThreadMessage:
    anchor = f"issuecomment-{comment.id}"
    at, folded = comment.created_at, comment.minimized
    return ThreadMessage(anchor, comment.author, at, comment.text, "commented", comment.node_id, folded)


def _of_review(review: Review) -> ThreadMessage:
    verbs = {"APPROVED": "approved these changes", "CHANGES_REQUESTED": "requested changes"}
    anchor, verb = f"pullrequestreview-{review.id}", verbs.get(review.state, "reviewed")
    return ThreadMessage(anchor, review.author, review.submitted_at, review.text, verb, review.node_id)


def _of_review_comment(comment: ReviewComment) -> ThreadMessage:
    verb = ["commented on ", element("code", f"{comment.path}:{comment.line}")]
    anchor, folded = f"discussion_r{comment.id}", comment.minimized
    return ThreadMessage(anchor, comment.author, comment.created_at, comment.text, verb, minimized=folded)


def _entry(scene: Scene, issue: Issue, entry: ThreadMessage) -> Html:
    content: Child = [_header(scene, issue, entry), _body(scene, entry), _reactions(scene, issue, entry)]
    if entry.minimized:
        why = element("summary", f"{scene.login(entry.author)}'s comment was marked as {entry.minimized}. Show it.")
        content = element("details", why, content, class_="folded")
    own = " mine" if entry.author == scene.viewer.id else ""
    return element("article", content, class_=f"comment{own}", id=entry.anchor, data_live=True)


def _header(scene: Scene, issue: Issue, entry: ThreadMessage) -> Html:
    login = scene.login(entry.author)
    at = element("a", moment(entry.at), href=f"#{entry.anchor}")
    edited = entry.text.last_edited_at
    by = f"edited by {scene.login(entry.text.editor)} on " if edited else ""
    mark = element("span", "· ", by, moment(edited), class_="edited") if edited else None
    bot = entry.author in scene.world.users and scene.world.users[entry.author].type == "Bot"
    role = "bot" if bot else str(scene.world.role(scene.repository, entry.author))
    badges = [
        element("span", name, class_="badge") for name in (role, entry.author == issue.author and "author") if name
    ]
    parts = [avatar(login), element("b", login), element("span", entry.said, " on ", at), mark]
    return element("header", parts, element("span", badges, class_="badges"))


def _body(scene: Scene, entry: ThreadMessage) -> Child:
    if not entry.text.body.strip():
        return element("div", "No description provided.", class_="body empty")
    tickable = entry.anchor.startswith("issue") and may_edit(scene, entry.author)
    form = f"tick-{entry.anchor}" if tickable else None
    body = element("div", render_markdown(entry.text.body, scene.repository.full_name, Boxes(form)), class_="body")
    if form is None or 'class="box"' not in body:
        return body
    return [body, _form(scene, "tick", _subject(entry), id=form, data_stay=True)]


def _reactions(scene: Scene, issue: Issue, entry: ThreadMessage) -> Child:
    if not entry.node:
        return None
    reactions = scene.world.reactions_to(entry.node)
    buttons = []
    for content, emoji in EMOJI.items():
        users = [reaction.user for reaction in reactions if reaction.content == content]
        if not users and (content not in OFFERED or issue.locked):
            continue
        names = ", ".join(map(scene.login, users)) or "nobody yet"
        text = f"{emoji} {len(users) or ''}".strip()
        style = {"title": f"{content}: {names}", "class_": None if users else "none"}
        if issue.locked:
            # https://docs.github.com/en/communities/moderating-comments-and-conversations/locking-conversations
            buttons.append(element("span", text, **style))
            continue
        pressed = "true" if scene.viewer.id in users else "false"
        buttons.append(element("button", text, name="content", value=content, aria_pressed=pressed, **style))
    return _form(scene, "reactions", _subject(entry), buttons, class_="reactions", data_stay=True)


def _subject(entry: ThreadMessage) -> Html:
    return element("input", type="hidden", name="subject", value=entry.anchor)


def _form(scene: Scene, verb: str, *children: Child, **attributes: str | bool) -> Html:
    return element("form", *children, method="post", action=f"{scene.path}/{verb}", **attributes)


def _ending(scene: Scene, issue: Issue) -> Child:
    pull = issue.pull
    if pull and pull.merged_at:
        who, did, at = pull.merged_by, "merged this", pull.merged_at
    elif issue.closed_at:
        who, did, at = issue.closed_by, "closed this", issue.closed_at
    else:
        return None
    return element(
        "p", element("b", scene.login(who)), f" {did} on ", moment(at), class_="event", id="end", data_live=True
    )


def write(scene: Scene, issue: Issue) -> Html:
    if not scene.role.covers(Role.WRITE if issue.locked else Role.READ):
        return element("p", "This conversation is locked to people who can write here.", class_="note")
    closing = "Close" if issue.state == "open" else "Reopen"
    kind = "pull request" if issue.pull else "issue"
    close = element("button", f"{closing} {kind}", class_="plain", name="then", value=closing.lower())
    merged = issue.pull and issue.pull.merged_at
    buttons = [
        close if (scene.viewer.id == issue.author or scene.role.covers(Role.TRIAGE)) and not merged else None,
        element("button", "Comment", class_="button primary", name="then", value=""),
    ]
    return _form(
        scene, "comments",
        element("label", "Add a comment ", element("span", "(Markdown)", class_="note"), for_="comment"),
        element("textarea", id="comment", name="body"),
        element("div", buttons, class_="row", id="actions", data_live=True), class_="write", data_stay=True,
    )  # fmt: skip


def sidebar(scene: Scene, issue: Issue) -> Html:
    sections = [
        ("Labels", [labels(issue.labels) or "None", _labelling(scene, issue)]),
        ("Assignees", ", ".join(map(scene.login, issue.assignees)) or "Nobody"),
        ("Linked", _link_thread(scene, issue) or "Nothing"),
    ]  # fmt: skip
    blocks = [element("section", element("h2", name), content) for name, content in sections]
    return element("aside", blocks, id="sidebar", data_live=True, aria_label="About this thread")


def _labelling(scene: Scene, issue: Issue) -> Child:
    if not scene.role.covers(Role.TRIAGE):
        return None
    labels = scene.world.labels.get(scene.repository.id, {})
    names = [*labels, *(name for name in ("plangate",) if name not in labels)]
    choices = [element("option", f"{'remove' if n in issue.labels else 'add'} {n}", value=n) for n in names]
    apply = element("button", "Apply", class_="plain")
    choose = element("select", choices, name="label", aria_label="A label to add or remove")
    return element("details", element("summary", "Change"), _form(scene, "labels", choose, " ", apply, data_stay=True))


def _link_thread(scene: Scene, issue: Issue) -> list[Child]:
    closed = issues_named(scene.world, issue.repository, issue.text.body)
    linked = closed if issue.pull else pulls_naming(scene.world, issue)
    return [_link(scene, other, closes=bool(issue.pull)) for other in linked]


def _link(scene: Scene, other: Issue, *, closes: bool) -> Html:
    prefix = "Closes " if closes else ""
    link = element("a", f"#{other.number} ", shown_title(other.title), href=address(scene.repository, other))
    return element("div", prefix, link, " ", state(other))


MAX_LINES: Final = 2_000  # maximum lines shown of one file
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)")
_KINDS: Final = {"+": "added", "-": "removed", " ": "context", "@": "hunk", "\\": "note"}


def tabs(scene: Scene, issue: Issue, pull: Pull, *, here: str) -> Html:
    root = address(scene.repository, issue)
    counts = {
        "": len(scene.world.comments_of(issue)), "commits": len(branch_commits(scene, pull)),
        "files": len(diff(scene, pull)),
    }  # fmt: skip
    names = {"": "Conversation", "commits": "Commits", "files": "Files changed"}
    links = []
    for key, name in names.items():
        text = [name, " ", element("span", counts[key], class_="count")]
        current = "page" if key == here else None
        links.append(element("a", text, href=f"{root}/{key}".rstrip("/"), aria_current=current))
    return element("nav", links, class_="tabs", id="tabs", data_live=True, aria_label="Pull request")


def branch_commits(scene: Scene, pull: Pull) -> tuple[str, ...]:
    try:
        return commits_between(scene.world.bare(scene.repository), pull.base_sha, pull.head_sha)
    except GitRefusedError:
        return ()


def diff(scene: Scene, pull: Pull) -> tuple[ChangedFile, ...]:
    try:
        return changed_files(scene.world.bare(scene.repository), pull.base_sha, pull.head_sha)
    except GitRefusedError:
        return ()


def commit_list(scene: Scene, pull: Pull) -> Html:
    rows = [_commit(scene.world.bare(scene.repository), commit) for commit in branch_commits(scene, pull)]
    return element("ul", rows or element("li", "No commits."), class_="list", id="commits", data_live=True)


def _commit(bare: Bare, commit: str) -> Html:
    found = CommitText.parse(bare.commit_text(commit))
    at = datetime.fromisoformat(found.author["date"]).astimezone(UTC)
    by = element("small", found.author["name"], " on ", moment(at))
    subject = found.message.partition("\n")[0]
    return element("li", element("span", subject, by, class_="grow"), element("code", commit[:7]))


def files(scene: Scene, pull: Pull) -> Html:
    changes = [_file(change) for change in diff(scene, pull)]
    return element("div", changes or element("p", "No changes."), id="files", data_live=True)


def _file(change: ChangedFile) -> Html:
    plus = element("span", f"+{change.additions}", class_="plus")
    minus = element("span", f"−{change.deletions}", class_="minus")
    rows = list(_rows(change))
    if len(rows) > MAX_LINES:
        rows = [*rows[:MAX_LINES], _row("note", f"{len(rows) - MAX_LINES} more lines are not shown.")]
    table = element("div", element("table", element("tbody", rows)), class_="diff", tabindex=0)
    path = f"{change.previous} → {change.path}" if change.previous else change.path
    return element("details", element("summary", path, " ", plus, " ", minus), table, class_="file", open=True)


def _rows(change: ChangedFile) -> Iterator[Html]:
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
    runs = [run for run in scene.world.check_runs.values() if run.head_sha == pull.head_sha]
    rows = []
    for run in runs:
        outcome = f"{'✓' if run.conclusion == 'success' else '•'} {run.conclusion or run.status}"
        rows.append(element("li", element("span", run.name, class_="grow"), element("span", outcome)))
    checks = element("ul", rows, class_="list") if rows else None
    merge: Child = None
    if issue.state == "open" and not pull.draft and scene.role.covers(Role.WRITE):
        button = element("button", "Merge pull request", class_="button primary")
        merge = element("form", button, method="post", action=f"{scene.path}/merge", data_stay=True)
    return element("div", checks, merge, class_="standing", id="standing", data_live=True)
