"""REST endpoints of issues, comments, labels, reactions, and a thread's events.

https://docs.github.com/en/rest/issues and https://docs.github.com/en/rest/reactions
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from bot.testing.github import conversation
from bot.testing.github.conversation import BODY_LIMIT
from bot.testing.github.entities import REACTIONS, Comment, Event, Issue, ReviewComment, Role, node_id
from bot.testing.github.rest.endpoint import ApiCall, ApiError, Endpoint, RestAnswer, invalid, not_found
from bot.testing.github.shapes import Json, comment_json, issue_json, reaction_json, stamp
from bot.testing.github.world import NotThereError, StateConflictError

READ = ("issues:read", "pull_requests:read")
WRITE = ("issues:write", "pull_requests:write")
ISSUES = "/repos/{owner}/{repo}/issues"
THREAD = f"{ISSUES}/{{number:int}}"
COMMENT = f"{ISSUES}/comments/{{comment_id:int}}"
LINE_COMMENT = "/repos/{owner}/{repo}/pulls/comments/{comment_id:int}"


def list_issues(call: ApiCall) -> RestAnswer:
    state, labels = call.query.get("state", "open"), set(filter(None, call.query.get("labels", "").split(",")))
    since = call.query.get("since")
    issues = [
        issue
        for issue in call.world.issues.values()
        if issue.repository == call.repository.id
        and state in {"all", issue.state}
        and labels <= set(issue.labels)
        and (since is None or issue.updated_at >= datetime.fromisoformat(since))
    ]
    key = "updated_at" if call.query.get("sort") == "updated" else "number"
    issues.sort(key=lambda issue: (getattr(issue, key), issue.number), reverse=call.query.get("direction") != "asc")
    return RestAnswer([issue_json(call.site, issue) for issue in issues])


def create_issue(call: ApiCall) -> RestAnswer:
    title, body = call.text("title"), _body(call, default="")
    if not title.strip():
        raise invalid("Issue", "title", "title can't be blank", "missing_field")
    issue = conversation.open_issue(call.actor, call.repository, title=title, body=body)
    if _may_triage(call):
        issue = conversation.set_labels(call.actor, issue, tuple(call.texts("labels")))
        issue = conversation.add_assignees(call.actor, issue, _users(call, "assignees"))
    return RestAnswer(issue_json(call.site, issue), 201)


def change_issue(call: ApiCall) -> RestAnswer:
    if unknown := call.body.keys() - {"title", "body", "state", "state_reason", "labels"}:
        raise ApiError(422, f"not simulated: {', '.join(sorted(unknown))}")
    issue = call.issue
    if issue.author != call.actor.id and not _may_triage(call):
        raise ApiError(403, "Must have admin rights to Repository.")
    title = call.text("title") if "title" in call.body else None
    body = _body(call) if call.body.get("body") is not None else None
    issue = conversation.edit_issue(call.actor, issue, title=title, body=body)
    if "labels" in call.body:
        issue = conversation.set_labels(call.actor, issue, tuple(call.texts("labels")))
    if "state" in call.body:
        issue = _changed_state(call, issue)
    return RestAnswer(issue_json(call.site, issue))


def list_comments(call: ApiCall) -> RestAnswer:
    comments, since = call.world.comments_of(call.issue), call.query.get("since")
    if since is not None:
        comments = [comment for comment in comments if comment.updated_at >= datetime.fromisoformat(since)]
    return RestAnswer([comment_json(call.site, each) for each in comments])


def create_comment(call: ApiCall) -> RestAnswer:
    issue, body = call.issue, _body(call)
    if not body.strip():
        missing = {"resource": "IssueComment", "code": "missing_field", "field": "body"}
        raise ApiError(422, "Validation Failed", [missing])
    if issue.locked and not call.may_write:
        raise ApiError(403, "Unable to create comment because issue is locked.")
    return RestAnswer(comment_json(call.site, conversation.comment(call.actor, issue, body)), 201)


def change_comment(call: ApiCall) -> RestAnswer:
    _may_change(call, call.comment)
    return RestAnswer(comment_json(call.site, conversation.edit_comment(call.actor, call.comment, _body(call))))


def delete_comment(call: ApiCall) -> RestAnswer:
    _may_change(call, call.comment)
    conversation.delete_comment(call.actor, call.comment)
    return RestAnswer(status=204)


def add_labels(call: ApiCall) -> RestAnswer:
    names = tuple(dict.fromkeys([*call.issue.labels, *call.texts("labels")]))
    return RestAnswer(_labels(call, conversation.set_labels(call.actor, call.issue, names)))


def remove_label(call: ApiCall) -> RestAnswer:
    name = call.path["name"]
    if name not in call.issue.labels:
        raise ApiError(404, "Label does not exist")
    kept = tuple(label for label in call.issue.labels if label != name)
    return RestAnswer(_labels(call, conversation.set_labels(call.actor, call.issue, kept)))


def get_label(call: ApiCall) -> RestAnswer:
    label = call.world.labels[call.repository.id].get(call.path["name"])
    if label is None:
        raise not_found()
    return RestAnswer(call.site.label(call.repository, label))


def create_label(call: ApiCall) -> RestAnswer:
    home, name = call.repository, call.text("name")
    if name in call.world.labels[home.id]:
        raise ApiError(422, "Validation Failed", [{"resource": "Label", "code": "already_exists", "field": "name"}])
    return RestAnswer(call.site.label(home, call.world.add_label(home, name)), 201)


def list_reactions(call: ApiCall) -> RestAnswer:
    return RestAnswer([reaction_json(call.site, each) for each in call.world.reactions_to(call.comment.node_id)])


def react(subject: Callable[[ApiCall], Issue | Comment | ReviewComment]) -> Callable[[ApiCall], RestAnswer]:
    """Return the endpoint that adds a reaction: 201, or 200 if it already existed."""

    def run(call: ApiCall) -> RestAnswer:
        about, content = subject(call), call.text("content")
        if content not in REACTIONS:
            raise ApiError(422, "Validation Failed", [{"resource": "Reaction", "code": "invalid", "field": "content"}])
        # https://docs.github.com/en/communities/moderating-comments-and-conversations/locking-conversations
        if call.world.issue(call.repository, about.number).locked:
            raise ApiError(403, "Unable to create reaction because issue is locked.")
        reaction, new = conversation.react(call.actor, about.node_id, content)
        return RestAnswer(reaction_json(call.site, reaction), 201 if new else 200)

    return run


def line_comment(call: ApiCall) -> ReviewComment:
    comment = call.world.review_comments.get(int(call.path["comment_id"]))
    if comment is None or comment.repository != call.repository.id:
        raise not_found()
    return comment


def _body(call: ApiCall, default: str | None = None) -> str:
    body = call.text("body", default)
    if len(body) > BODY_LIMIT:
        raise invalid("IssueComment", "body", f"body is too long (maximum is {BODY_LIMIT} characters)")
    return body


def _may_triage(call: ApiCall) -> bool:
    return call.may_write or call.role.covers(Role.TRIAGE)


def _may_change(call: ApiCall, comment: Comment) -> None:
    if comment.author != call.actor.id and not call.may_write:
        raise ApiError(403, "Must have admin rights to Repository.")


def _users(call: ApiCall, name: str) -> tuple[int, ...]:
    ids = []
    for login in call.texts(name):
        try:
            user = call.world.user(login)
        except NotThereError:
            continue
        has_role = call.world.roles.get((call.repository.id, user.id)) or user.id == call.repository.owner
        if user.type == "Bot" or has_role:
            ids.append(user.id)
    return tuple(ids)


def _changed_state(call: ApiCall, issue: Issue) -> Issue:
    state: Any = call.body["state"]
    if state not in {"open", "closed"}:
        raise invalid("Issue", "state", "state is not included in the list", "invalid")
    try:
        return conversation.set_state(call.actor, issue, state, reason=call.body.get("state_reason"))
    except StateConflictError as conflict:
        raise invalid("PullRequest", "state", f"state cannot be changed. {conflict}", "invalid") from None


def _labels(call: ApiCall, issue: Issue) -> list[Any]:
    home = call.repository
    return [call.site.label(home, call.world.labels[home.id][name]) for name in issue.labels]


LISTED = frozenset({"labeled", "unlabeled", "assigned", "closed", "reopened", "locked", "unlocked"})
"""The types of events that are listed.

https://docs.github.com/en/rest/using-the-rest-api/issue-event-types and https://docs.github.com/en/rest/issues/events
"""


def list_events(call: ApiCall) -> RestAnswer:
    place = (call.issue.repository, call.issue.number)
    rows = [
        event_json(call, ident, at, event)
        for ident, at, event in call.world.past
        if event.issue is not None
        and (event.issue.repository, event.issue.number) == place
        and (event.action in LISTED or _renames(event))
        and event.comment is None
    ]
    return RestAnswer(rows)


def event_json(call: ApiCall, ident: int, at: datetime, event: Event) -> Json:
    site, actor = call.site, call.site.user(event.sender)
    body: Json = {
        "id": ident, "node_id": node_id("IssueEvent", ident),
        "url": f"{site.api(call.repository)}/issues/events/{ident}", "actor": actor, "event": event.action,
        **dict.fromkeys(("commit_id", "commit_url", "performed_via_github_app")), "created_at": stamp(at),
    }  # fmt: skip
    if event.label is not None:
        label = call.world.labels[call.repository.id][event.label]
        body["label"] = {"name": label.name, "color": label.color}
    if event.assignee is not None:
        body |= {"assignee": site.user(event.assignee), "assigner": actor}
    if event.action == "locked":
        body["lock_reason"] = None
    if event.issue is not None and _renames(event):
        body |= {"event": "renamed", "rename": {"from": event.changed["title"], "to": event.issue.title}}
    return body


def _renames(event: Event) -> bool:
    return event.action == "edited" and "title" in event.changed


ENDPOINTS = (
    Endpoint("GET", ISSUES, list_issues, READ), Endpoint("POST", ISSUES, create_issue, ("issues:write",)),
    Endpoint("GET", COMMENT, lambda call: comment_json(call.site, call.comment), READ),
    Endpoint("PATCH", COMMENT, change_comment, WRITE), Endpoint("DELETE", COMMENT, delete_comment, WRITE),
    Endpoint("GET", THREAD, lambda call: issue_json(call.site, call.issue), READ),
    Endpoint("PATCH", THREAD, change_issue, WRITE), Endpoint("GET", f"{THREAD}/comments", list_comments, READ),
    Endpoint("POST", f"{THREAD}/comments", create_comment, WRITE),
    Endpoint("POST", f"{THREAD}/labels", add_labels, WRITE, Role.TRIAGE),
    Endpoint("DELETE", f"{THREAD}/labels/{{name:path}}", remove_label, WRITE, Role.TRIAGE),
    Endpoint("GET", "/repos/{owner}/{repo}/labels/{name}", get_label, READ),
    Endpoint("POST", "/repos/{owner}/{repo}/labels", create_label, WRITE, Role.WRITE),
    # Only the independent reader of receipts in the story tests lists reactions; the bot does not.
    Endpoint("GET", f"{COMMENT}/reactions", list_reactions, READ),
    Endpoint("POST", f"{COMMENT}/reactions", react(lambda call: call.comment), WRITE),
    Endpoint("POST", f"{THREAD}/reactions", react(lambda call: call.issue), WRITE),
    Endpoint("POST", f"{LINE_COMMENT}/reactions", react(line_comment), WRITE),
    Endpoint("GET", f"{THREAD}/events", list_events, READ),
)  # fmt: skip
