"""Changes to the conversation on threads: issues, comments, edits, reactions, states, and labels.

Each function makes one change as one ActingUser, keeps the history as GitHub does, sends the webhooks, and returns the
new value. The callers (person.py and the endpoints) check whether the actor has permission.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from bot.testing.github.entities import Comment, Edit, EditableText, Event, Issue, Pull, Reaction, Repository
from bot.testing.github.world import ActingUser, GitHubState, StateConflictError

BODY_LIMIT = 65_536
"""Maximum characters in a body; https://docs.github.com/en/rest/issues/comments (422 "Body is too long")."""


def open_issue(
    by: ActingUser, repository: Repository, *, title: str, body: str = "", pull: Pull | None = None
) -> Issue:
    """Open an issue or a pull request. Both share one sequence of numbers."""
    with by.world.lock:
        number = 1 + max((n for home, n in by.world.issues if home == repository.id), default=0)
        now = by.world.now()
        issue = Issue(by.world.next_id(), repository.id, number, title, by.write(body), by.id, now, now, pull=pull)
        by.world.issues[repository.id, number] = issue
        by.world.emit(Event("pull_request" if pull else "issues", "opened", by.id, repository, issue))
        return issue


def edit_issue(by: ActingUser, issue: Issue, *, title: str | None = None, body: str | None = None) -> Issue:
    with by.world.lock:
        old = {"title": issue.title, "body": issue.text.body}
        new = {"title": title if title is not None else issue.title, "body": body if body is not None else old["body"]}
        changed = {key: value for key, value in old.items() if new[key] != value}
        if not changed:
            return issue
        text = with_edit(by, issue.text, new["body"], posted=(issue.author, issue.created_at))
        return store(by, replace(issue, title=new["title"], text=text), "edited", changed=changed)


def set_state(by: ActingUser, issue: Issue, state: Literal["open", "closed"], *, reason: str | None = None) -> Issue:
    """Close or reopen a thread.

    Raises StateConflictError when reopening a pull request that was merged or whose branch was deleted.
    """
    if issue.state == state:
        return issue
    if state == "open" and issue.pull and not _can_be_opened(by, issue.pull):
        raise StateConflictError("The pull request cannot be reopened.")
    with by.world.lock:
        closing = state == "closed"
        usual = None if issue.pull else "completed" if closing else "reopened"
        new = replace(
            issue, state=state, state_reason=reason or usual, closed_at=by.world.now() if closing else None,
            closed_by=by.id if closing else None,
        )  # fmt: skip
        return store(by, new, "closed" if closing else "reopened")


def _can_be_opened(by: ActingUser, pull: Pull) -> bool:
    source = by.world.repositories.get(pull.head_repository)
    there = source is not None and by.world.bare(source).resolve(f"refs/heads/{pull.head_ref}") is not None
    return there and pull.merged_at is None


def set_locked(by: ActingUser, issue: Issue, *, locked: bool) -> Issue:
    if issue.locked == locked:
        return issue
    with by.world.lock:
        return store(by, replace(issue, locked=locked), "locked" if locked else "unlocked")


def set_labels(by: ActingUser, issue: Issue, names: tuple[str, ...]) -> Issue:
    with by.world.lock:
        home = by.world.repositories[issue.repository]
        for name in [label for label in issue.labels if label not in names]:
            kept = tuple(each for each in issue.labels if each != name)
            issue = store(by, replace(issue, labels=kept), "unlabeled", label=name)
        for name in [each for each in names if each not in issue.labels]:
            by.world.add_label(home, name)
            issue = store(by, replace(issue, labels=(*issue.labels, name)), "labeled", label=name)
        return issue


def add_assignees(by: ActingUser, issue: Issue, users: tuple[int, ...]) -> Issue:
    with by.world.lock:
        for user in dict.fromkeys(each for each in users if each not in issue.assignees):
            changed = replace(issue, assignees=(*issue.assignees, user))
            issue = store(by, changed, "assigned", assignee=user)
        return issue


def comment(by: ActingUser, issue: Issue, body: str, *, app: int | None = None) -> Comment:
    with by.world.lock:
        now = by.world.now()
        new = Comment(by.world.next_id(), issue.repository, issue.number, by.write(body), by.id, now, now, app)
        by.world.comments[new.id] = new
        touch_thread(by.world, issue)
        _tell_comment(by, new, "created")
        return new


def edit_comment(by: ActingUser, old: Comment, body: str) -> Comment:
    """Change a comment's body. Saving the same text again changes only `updated_at`."""
    with by.world.lock:
        text = with_edit(by, old.text, body, posted=(old.author, old.created_at))
        new = replace(old, text=text, updated_at=by.world.now())
        by.world.comments[old.id] = new
        touch_thread(by.world, by.world.issues[old.repository, old.number])
        _tell_comment(by, new, "edited", {"body": old.text.body})
        return new


def delete_comment(by: ActingUser, old: Comment) -> None:
    with by.world.lock:
        del by.world.comments[old.id]
        for reaction in by.world.reactions_to(old.node_id):
            del by.world.reactions[reaction.id]
        _tell_comment(by, old, "deleted")


def touch_thread(world: GitHubState, issue: Issue) -> Issue:
    with world.lock:
        issue = replace(world.issues[issue.repository, issue.number], updated_at=world.now())
        world.issues[issue.repository, issue.number] = issue
        return issue


def minimize(world: GitHubState, comment_id: int, reason: str | None) -> Comment:
    with world.lock:
        new = replace(world.comments[comment_id], minimized=reason)
        world.comments[comment_id] = new
        world.touch()
        return new


def react(by: ActingUser, subject: str, content: str) -> tuple[Reaction, bool]:
    """React to the subject with that node id; return the reaction and whether it is new. GitHub sends no webhook."""
    with by.world.lock:
        for old in by.world.reactions_to(subject):
            if (old.user, old.content) == (by.id, content):
                return old, False
        reaction = Reaction(by.world.small_id(), subject, by.id, content, by.world.now())
        by.world.reactions[reaction.id] = reaction
        by.world.touch()
        return reaction, True


def unreact(world: GitHubState, reaction: Reaction) -> None:
    with world.lock:
        world.reactions.pop(reaction.id, None)
        world.touch()


def with_edit(by: ActingUser, text: EditableText, body: str, *, posted: tuple[int, datetime]) -> EditableText:
    """Return the text with one more version.

    The first edit also records the original text, with the author and time in `posted`.
    https://docs.github.com/en/graphql/reference/interfaces#comment (includesCreatedEdit)
    """
    if body == text.body:
        return text
    author, created = posted
    history = text.edits or (Edit(by.world.next_id(), author, created, text.body),)
    return replace(text, body=body, edits=(*history, Edit(by.world.next_id(), by.id, by.world.now(), body)))


def store(by: ActingUser, issue: Issue, action: str, **details: Any) -> Issue:
    with by.world.lock:
        issue = replace(issue, updated_at=by.world.now())
        by.world.issues[issue.repository, issue.number] = issue
        home = by.world.repositories[issue.repository]
        name = "pull_request" if issue.pull else "issues"
        by.world.emit(Event(name, action, by.id, home, issue, **details))
        return issue


def _tell_comment(by: ActingUser, comment: Comment, action: str, changed: dict[str, str] | None = None) -> None:
    home = by.world.repositories[comment.repository]
    issue = by.world.issues[comment.repository, comment.number]
    by.world.emit(Event("issue_comment", action, by.id, home, issue, comment, changed=changed or {}))
