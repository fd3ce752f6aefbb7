"""REST endpoints of pull requests, reviews, and line comments.

https://docs.github.com/en/rest/pulls
"""

from dataclasses import replace

from bot.core.markdown.elements import right_lines
from bot.testing.github import code_changes
from bot.testing.github.code_changes import ChangedFile, LineNote, NewPull, changed_files, commits_between, pull_of
from bot.testing.github.conversation import BODY_LIMIT
from bot.testing.github.entities import Issue, Role
from bot.testing.github.rest.code import file_json
from bot.testing.github.rest.endpoint import (
    ApiCall,
    ApiError,
    Endpoint,
    RestAnswer,
    invalid,
    not_found,
    require_pulls_of_jobs,
)
from bot.testing.github.rest.issues import line_comment
from bot.testing.github.shapes import pull_json, review_comment_json, review_json
from bot.testing.github.world import NotThereError, StateConflictError

PULLS = "/repos/{owner}/{repo}/pulls"
PULL = f"{PULLS}/{{number:int}}"
READ, WRITE = ("pull_requests:read",), ("pull_requests:write",)
VERDICTS: dict[str, code_changes.Verdict] = {
    "APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED",
}  # fmt: skip


def list_pulls(call: ApiCall) -> RestAnswer:
    state, head, base = call.query.get("state", "open"), call.query.get("head"), call.query.get("base")
    issues = [issue for issue in call.world.issues.values() if issue.repository == call.repository.id and issue.pull]
    issues = [issue for issue in issues if state in {"all", issue.state} and base in {None, pull_of(issue).base_ref}]
    if head is not None and ":" in head:
        owners = {home.id: home.owner_login for home in call.world.repositories.values()}
        labels = {each.id: f"{owners[pull_of(each).head_repository]}:{pull_of(each).head_ref}" for each in issues}
        issues = [issue for issue in issues if labels[issue.id].lower() == head.lower()]
    key = {"updated": "updated_at"}.get(call.query.get("sort", ""), "number")
    downwards = call.query.get("direction", "asc" if call.query.get("sort") else "desc") == "desc"
    issues.sort(key=lambda issue: (getattr(issue, key), issue.number), reverse=downwards)
    return RestAnswer([pull_json(call.site, issue, whole=False) for issue in issues])


def pulls_of_commit(call: ApiCall) -> RestAnswer:
    """Return the pull request that merged a commit into the default branch, or else the open ones that contain it."""
    bare, sha = call.world.bare(call.repository), call.path["sha"]
    pulls = [issue for issue in call.world.issues.values() if issue.repository == call.repository.id and issue.pull]
    holding = [each for each in pulls if sha in commits_between(bare, pull_of(each).base_sha, pull_of(each).head_sha)]
    by_merge = [issue for issue in pulls if pull_of(issue).merge_commit_sha == sha]
    merged_first = [issue for issue in (*holding, *by_merge) if pull_of(issue).merged_at] or holding
    return RestAnswer([pull_json(call.site, issue, whole=False) for issue in dict.fromkeys(merged_first)])


def create_pull(call: ApiCall) -> RestAnswer:
    title, base, body = call.text("title"), call.text("base"), call.body.get("body") or ""
    if len(body) > BODY_LIMIT:
        raise invalid("PullRequest", "body", f"body is too long (maximum is {BODY_LIMIT} characters)")
    require_pulls_of_jobs(call.world, call.caller.token, call.repository)
    owner, _, branch = call.text("head").rpartition(":")
    new = NewPull(title, branch, base, body, bool(call.body.get("draft", False)))
    try:
        if owner not in {"", call.repository.owner_login}:
            raise NotThereError(f"branch {branch} of {owner}")
        return RestAnswer(pull_json(call.site, code_changes.open_pull(call.actor, call.repository, new)), 201)
    except StateConflictError as conflict:
        detail = {"resource": "PullRequest", "code": "custom", "message": str(conflict)}
        raise ApiError(422, "Validation Failed", [detail]) from None
    except NotThereError as missing:
        end = "base" if f"branch {base} " in str(missing) else "head"
        detail = {"resource": "PullRequest", "field": end, "code": "invalid"}
        raise ApiError(422, "Validation Failed", [detail]) from None


def files(call: ApiCall) -> RestAnswer:
    head = pull_of(_pull(call)).head_sha
    return RestAnswer([file_json(call.site, call.repository, head, file) for file in _changes(call)])


def reviews(call: ApiCall) -> RestAnswer:
    return RestAnswer([review_json(call.site, each) for each in call.world.reviews_of(_pull(call))])


def get_review(call: ApiCall) -> RestAnswer:
    review = call.world.reviews.get(int(call.path["review_id"]))
    if review is None or (review.repository, review.number) != (call.repository.id, _pull(call).number):
        raise not_found()
    return RestAnswer(review_json(call.site, review))


def create_review(call: ApiCall) -> RestAnswer:
    event = call.text("event", "COMMENT")
    if event not in VERDICTS:
        raise invalid("PullRequestReview", "event", "Variable $event is invalid", "invalid")
    notes = [LineNote(each["path"], each.get("line", 1), each["body"]) for each in call.body.get("comments", [])]
    patches = {file.path: file.patch for file in _changes(call)}
    for note in notes:
        if note.path not in patches:
            raise ApiError(422, "Unprocessable Entity", ["Path could not be resolved"])
        if note.line not in right_lines(patches[note.path] or ""):
            raise ApiError(422, "Unprocessable Entity", ["Line could not be resolved"])
    body = call.body.get("body") or ""
    review = code_changes.review(call.actor, _pull(call), verdict=VERDICTS[event], body=body, notes=notes)
    return RestAnswer(review_json(call.site, review))


def review_comments(call: ApiCall) -> RestAnswer:
    ident = int(call.path["review_id"])
    comments = [each for each in call.world.review_comments_of(_pull(call)) if each.review == ident]
    return RestAnswer([review_comment_json(call.site, each) for each in comments])


def line_comments(call: ApiCall) -> RestAnswer:
    return RestAnswer([review_comment_json(call.site, each) for each in call.world.review_comments_of(_pull(call))])


def get_line_comment(call: ApiCall) -> RestAnswer:
    return RestAnswer(review_comment_json(call.site, line_comment(call)))


def reply(call: ApiCall) -> RestAnswer:
    above = line_comment(call)
    note = LineNote(above.path, above.line, call.text("body"))
    review = call.world.reviews[above.review]
    comment = code_changes.add_line_comment(call.actor, review, note, reply_to=above.in_reply_to or above.id)
    return RestAnswer(review_comment_json(call.site, comment), 201)


def request_reviewers(call: ApiCall) -> RestAnswer:
    issue = _pull(call)
    users = [call.world.user(login).id for login in call.texts("reviewers")]
    for user in users:
        if user == issue.author:
            raise ApiError(422, "Review cannot be requested from pull request author.")
        if (call.repository.id, user) not in call.world.roles and user != call.repository.owner:
            raise ApiError(422, "Reviews may only be requested from collaborators. One or more of the users or teams "
                                "you specified is not a collaborator of the repository.")  # fmt: skip
    reviewers = tuple(dict.fromkeys([*pull_of(issue).requested_reviewers, *users]))
    pull = replace(pull_of(issue), requested_reviewers=reviewers)
    issue = code_changes.change_pull(call.actor, issue, pull, "review_requested")
    return RestAnswer(pull_json(call.site, issue, whole=False), 201)


def _pull(call: ApiCall) -> Issue:
    issue = call.issue
    if issue.pull is None:
        raise not_found()
    return issue


def _changes(call: ApiCall) -> tuple[ChangedFile, ...]:
    pull = pull_of(_pull(call))
    return changed_files(call.world.bare(call.repository), pull.base_sha, pull.head_sha)


ENDPOINTS = (
    Endpoint("GET", PULLS, list_pulls, READ), Endpoint("POST", PULLS, create_pull, WRITE),
    Endpoint("GET", "/repos/{owner}/{repo}/commits/{sha}/pulls", pulls_of_commit, READ),
    Endpoint("GET", PULL, lambda call: pull_json(call.site, _pull(call)), READ),
    Endpoint("GET", f"{PULL}/files", files, READ), Endpoint("GET", f"{PULL}/reviews", reviews, READ),
    Endpoint("POST", f"{PULL}/reviews", create_review, WRITE),
    Endpoint("GET", f"{PULL}/reviews/{{review_id:int}}", get_review, READ),
    Endpoint("GET", f"{PULL}/reviews/{{review_id:int}}/comments", review_comments, READ),
    Endpoint("GET", f"{PULL}/comments", line_comments, READ),
    Endpoint("POST", f"{PULL}/comments/{{comment_id:int}}/replies", reply, WRITE),
    Endpoint("GET", f"{PULLS}/comments/{{comment_id:int}}", get_line_comment, READ),
    Endpoint("POST", f"{PULL}/requested_reviewers", request_reviewers, WRITE, Role.WRITE),
)  # fmt: skip
