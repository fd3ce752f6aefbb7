"""The world's values as GraphQL nodes: dictionaries in which callables resolve fields on demand.

https://docs.github.com/en/graphql/guides/using-pagination-in-the-graphql-api
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from bot.testing.github import entities
from bot.testing.github.bare import Bare
from bot.testing.github.code_changes import (
    ChangedFile,
    changed_files,
    commits_between,
    hunk,
    is_outdated,
    issues_named,
    pull_of,
    pulls_naming,
)
from bot.testing.github.credentials import grants
from bot.testing.github.rest.code import git_commit_json
from bot.testing.github.rest.endpoint import ApiError, Caller, visible, within
from bot.testing.github.shapes import Site, stamp, stamp_or_none
from bot.testing.github.world import GitHubState, NotThereError

Node: TypeAlias = dict[str, Any]


def connection(
    items: Sequence[Any], write: Callable[[Any], Any], *, key: Callable[[Any], int] = lambda item: item.id
) -> Callable[..., Node]:
    """Return the resolver of a connection, paged by `first` and `after` or by `last` and `before`."""

    def field(
        _: Any, first: int | None = None, last: int | None = None, after: str | None = None, before: str | None = None
    ) -> Node:
        cursors = [base64.b64encode(f"cursor:{key(item)}".encode()).decode() for item in items]
        low = cursors.index(after) + 1 if after in cursors else 0
        high = cursors.index(before) if before in cursors else len(items)
        if first is not None:
            high = min(high, low + first)
        if last is not None:
            low = max(low, high - last)
        first_cursor, last_cursor = (cursors[low], cursors[high - 1]) if low < high else (None, None)
        info = {
            "hasNextPage": high < len(items), "hasPreviousPage": low > 0, "startCursor": first_cursor,
            "endCursor": last_cursor,
        }  # fmt: skip
        return {"nodes": [write(item) for item in items[low:high]], "pageInfo": info, "totalCount": len(items)}

    return field


def threads(listed: Callable[[], list[entities.Issue]], write: Callable[[entities.Issue], Node]) -> Callable[..., Node]:
    def field(info: Any, filterBy: Node | None = None, orderBy: Node | None = None, **page: Any) -> Node:  # noqa: N803  # GraphQL's names
        since = (filterBy or {}).get("since")
        issues = [each for each in listed() if since is None or each.updated_at >= datetime.fromisoformat(since)]
        by_update = orderBy is not None and orderBy["field"] == "UPDATED_AT"
        issues.sort(key=lambda each: (each.updated_at if by_update else each.created_at, each.number))
        if orderBy is not None and orderBy["direction"] == "DESC":
            issues.reverse()
        return connection(issues, write)(info, **page)

    return field


# What a pull request changes, and the checks of its head, as GraphQL fields.
# https://docs.github.com/en/graphql/reference/objects#pullrequest

GREEN = {"success", "neutral", "skipped"}


def pull_changes(nodes: Nodes, issue: entities.Issue, pull: entities.Pull) -> Node:
    home = nodes.world.repositories[issue.repository]
    bare = nodes.world.bare(home)

    def files() -> tuple[ChangedFile, ...]:
        return changed_files(bare, pull.base_sha, pull.head_sha)

    def commit(sha: str) -> Node:
        return {
            "id": f"PURC_kw{issue.id}_{sha}", "commit": lambda _: nodes.git_object(home, sha),
            "pullRequest": lambda _: nodes.issue(issue),
        }  # fmt: skip

    def commits(info: Any, **page: Any) -> Node:
        ids = commits_between(bare, pull.base_sha, pull.head_sha)
        return connection(ids, commit, key=lambda sha: int(sha[:12], 16))(info, **page)

    return {
        "additions": lambda _: sum(file.additions for file in files()),
        "deletions": lambda _: sum(file.deletions for file in files()), "changedFiles": lambda _: len(files()),
        "commits": commits, "statusCheckRollup": lambda _: _rollup(nodes, home, pull.head_sha),
    }  # fmt: skip


def _rollup(nodes: Nodes, home: entities.Repository, head: str) -> Node | None:
    nodes.require(home, "checks", "statuses")
    runs = [run for run in nodes.world.check_runs.values() if (run.repository, run.head_sha) == (home.id, head)]
    newest = list({(run.app, run.name): run for run in runs}.values())
    conclusions = {run.conclusion for run in newest}
    state = "FAILURE" if conclusions - GREEN - {None} else "PENDING" if None in conclusions else "SUCCESS"
    rollup = {"id": f"SCR_kw{home.id}_{head}", "state": state, "contexts": connection(newest, _check_run)}
    return rollup if newest else None


def _check_run(run: entities.CheckRun) -> Node:
    conclusion = run.conclusion.upper() if run.conclusion else None
    return {
        "__typename": "CheckRun", "id": run.node_id, "name": run.name, "status": run.status.upper(),
        "conclusion": conclusion,
    }  # fmt: skip


# https://docs.github.com/en/graphql/reference/objects

CONTENTS = {
    "+1": "THUMBS_UP", "-1": "THUMBS_DOWN", "laugh": "LAUGH", "hooray": "HOORAY", "confused": "CONFUSED",
    "heart": "HEART", "rocket": "ROCKET", "eyes": "EYES",
}  # fmt: skip
INT_LIMIT = 2**31


@dataclass(frozen=True, slots=True)
class Nodes:
    """Builds the nodes of one site for one caller. Values that the caller may not see are treated as missing."""

    site: Site
    caller: Caller

    @property
    def world(self) -> GitHubState:
        return self.site.world

    def by_id(self, ident: str) -> Node | None:
        kind, number = entities.from_node_id(ident) or ("", 0)
        match kind:
            case "Issue" | "PullRequest":
                thread = next((issue for issue in self.world.issues.values() if issue.id == number), None)
                return self._visible_node(thread, self.issue)
            case "IssueComment":
                return self._visible_node(self.world.comments.get(number), self.comment)
            case "PullRequestReview":
                return self._visible_node(self.world.reviews.get(number), self.review)
            case "PullRequestReviewComment":
                return self._visible_node(self.world.review_comments.get(number), self.line_comment)
            case "Repository":
                home = self.world.repositories.get(number)
                return self.repository(home) if home and visible(self.world, self.caller, home) else None
            case "User" | "Bot" | "Organization":
                return self.actor(number) if number in self.world.users else None
            case _:
                return None

    def repository_by_name(self, full_name: str) -> entities.Repository | None:
        try:
            home = self.world.repository(full_name, renamed=True)
        except NotThereError:
            return None
        return home if visible(self.world, self.caller, home) else None

    def actor(self, ident: int | None) -> Node | None:
        """Return the node of a user. The login of a bot has no suffix here, as on GitHub."""
        user = self.world.users.get(ident or 0)
        if user is None:
            return None
        return {
            "__typename": user.type, "id": user.node_id, "databaseId": _int(user.id),
            "login": user.login.removesuffix("[bot]"), "name": None,
        }  # fmt: skip

    def repository(self, home: entities.Repository) -> Node:
        bare = self.world.bare(home)
        return {
            "__typename": "Repository", "id": home.node_id, "databaseId": _int(home.id), "name": home.name,
            "nameWithOwner": home.full_name, "owner": self.actor(home.owner),
            "defaultBranchRef": lambda _: self.ref(home, f"refs/heads/{home.default_branch}"),
            "ref": lambda _, **name: self.ref(home, _qualified_ref(bare, name["qualifiedName"])),
            "issues": threads(self._list_issues(home, pull=False), self.issue),
            "pullRequests": threads(self._list_issues(home, pull=True), self.issue),
            "issue": lambda _, number: self._thread(home, number, pull=False),
            "pullRequest": lambda _, number: self._thread(home, number, pull=True),
            "issueOrPullRequest": lambda _, number: self._thread(home, number, pull=None),
        }  # fmt: skip

    def issue(self, issue: entities.Issue) -> Node:
        home = self.world.repositories[issue.repository]
        labels = [self.world.labels[home.id][name] for name in issue.labels]
        common = {
            **self._comment(issue, issue.text), "number": issue.number, "title": issue.title,
            "state": issue.state.upper(), "closed": issue.state == "closed",
            "closedAt": stamp_or_none(issue.closed_at), "locked": issue.locked,
            "repository": lambda _: self.repository(home),
            "labels": connection(
                labels, lambda label: {"__typename": "Label", "id": label.node_id, "name": label.name}
            ),
            "assignees": connection(issue.assignees, self.actor, key=lambda ident: ident),
            "comments": connection(self.world.comments_of(issue), self.comment),
        }  # fmt: skip
        if issue.pull is not None:
            return self._pull(issue, common)
        return {"__typename": "Issue", **common, "closedByPullRequestsReferences": self._closed_by(issue)}

    def comment(self, comment: entities.Comment) -> Node:
        thread = self.world.issues[comment.repository, comment.number]
        home = self.world.repositories[comment.repository]
        return {
            "__typename": "IssueComment", **self._comment(comment, comment.text),
            "isMinimized": comment.minimized is not None, "repository": lambda _: self.repository(home),
            "issue": lambda _: self.issue(thread), "pullRequest": lambda _: self.issue(thread) if thread.pull else None,
        }  # fmt: skip

    def review(self, review: entities.Review) -> Node:
        home = self.world.repositories[review.repository]
        thread = self.world.issues[review.repository, review.number]
        own = [each for each in self.world.review_comments_of(thread) if each.review == review.id]
        return {
            "__typename": "PullRequestReview", **self._comment(review, review.text), "state": review.state,
            "submittedAt": stamp(review.submitted_at), "commit": lambda _: self.git_object(home, review.commit_id),
            "comments": connection(own, self.line_comment),
        }  # fmt: skip

    def line_comment(self, comment: entities.ReviewComment) -> Node:
        return {
            "__typename": "PullRequestReviewComment", **self._comment(comment, comment.text), "path": comment.path,
            "line": lambda _: None if is_outdated(self.world, comment) else comment.line,
            "originalLine": comment.line, "outdated": lambda _: is_outdated(self.world, comment),
            "diffHunk": lambda _: hunk(self.world, comment), "isMinimized": comment.minimized is not None,
        }  # fmt: skip

    def reaction(self, reaction: entities.Reaction) -> Node:
        """Return the node of a reaction. The field `user` is of type User, so a bot's is null."""
        person = self.world.users[reaction.user].type == "User"
        return {
            "__typename": "Reaction", "id": reaction.node_id, "databaseId": _int(reaction.id),
            "content": CONTENTS[reaction.content], "createdAt": stamp(reaction.created_at),
            "user": self.actor(reaction.user) if person else None,
        }  # fmt: skip

    def ref(self, home: entities.Repository, name: str | None) -> Node | None:
        self.require(home, "contents")
        sha = self.world.bare(home).refs().get(name or "")
        if name is None or sha is None:
            return None
        prefix = "/".join(name.split("/")[:2]) + "/"
        target = lambda _: self.git_object(home, sha)  # noqa: E731  # written like the other fields
        ident = f"REF_kw{base64.urlsafe_b64encode(f'{home.id}:{name}'.encode()).decode()}"
        return {"__typename": "Ref", "id": ident, "name": name.removeprefix(prefix), "target": target}

    def git_object(self, home: entities.Repository, expression: str) -> Node | None:
        self.require(home, "contents")
        sha = self.world.bare(home).resolve(expression) if visible(self.world, self.caller, home) else None
        if sha is None:
            return None
        headline = git_commit_json(self.site, home, sha)["message"].partition("\n")[0]
        return {"__typename": "Commit", "id": f"C_kw{home.id}_{sha}", "oid": sha, "messageHeadline": headline}

    def _comment(
        self,
        of: entities.Issue | entities.Comment | entities.Review | entities.ReviewComment,
        text: entities.EditableText,
    ) -> Node:
        created_at = of.submitted_at if isinstance(of, entities.Review) else of.created_at
        return {
            "id": of.node_id, "databaseId": _int(of.id), "fullDatabaseId": str(of.id), "body": text.body,
            "author": self.actor(of.author), "createdAt": stamp(created_at), "createdViaEmail": text.by_mail,
            "updatedAt": stamp(created_at if isinstance(of, entities.Review) else of.updated_at),
            "lastEditedAt": stamp_or_none(text.last_edited_at), "editor": self.actor(text.editor),
            # Newest first; the original text is last.
            "userContentEdits": connection(text.edits[::-1], self._edit), "reactions": self._reactions(of.node_id),
        }  # fmt: skip

    def _edit(self, edit: entities.Edit) -> Node:
        when = dict.fromkeys(("createdAt", "updatedAt", "editedAt"), stamp(edit.edited_at))
        return {
            "__typename": "UserContentEdit", "id": edit.node_id, **when, "deletedAt": None,
            "editor": self.actor(edit.editor), "diff": edit.text,
        }  # fmt: skip

    def _reactions(self, subject: str) -> Callable[..., Node]:
        def field(info: Any, content: str | None = None, orderBy: Node | None = None, **page: Any) -> Node:  # noqa: N803  # GraphQL's name
            reactions = [each for each in self.world.reactions_to(subject) if content in {None, CONTENTS[each.content]}]
            if orderBy and orderBy["direction"] == "DESC":
                reactions.reverse()
            return connection(reactions, self.reaction)(info, **page)

        return field

    def _pull(self, issue: entities.Issue, common: Node) -> Node:
        pull, head = pull_of(issue), self.world.repositories[pull_of(issue).head_repository]
        return {
            "__typename": "PullRequest", **common, "state": "MERGED" if pull.merged_at else common["state"],
            "isDraft": pull.draft, "merged": pull.merged_at is not None,
            "headRepository": lambda _: self.repository(head), "headRefName": pull.head_ref,
            "headRefOid": pull.head_sha, "baseRefName": pull.base_ref, "baseRefOid": pull.base_sha,
            "closingIssuesReferences": connection(
                issues_named(self.world, issue.repository, issue.text.body), self.issue
            ),
            "isCrossRepository": head.id != issue.repository, **pull_changes(self, issue, pull),
            "reviews": lambda info, states=None, **page: connection(
                [each for each in self.world.reviews_of(issue) if states is None or each.state in states], self.review
            )(info, **page),
        }  # fmt: skip

    def _closed_by(self, issue: entities.Issue) -> Callable[..., Node]:
        def field(info: Any, **page: Any) -> Node:
            closed_too = page.pop("includeClosedPrs", False)
            closing = [each for each in pulls_naming(self.world, issue) if closed_too or each.state == "open"]
            return connection(closing, self.issue)(info, **page)

        return field

    def _thread(self, home: entities.Repository, number: int, *, pull: bool | None) -> Node | None:
        issue = self.world.issues.get((home.id, number))
        if issue is None or pull not in {None, issue.pull is not None}:
            what = {None: "an issue or pull request", True: "a PullRequest", False: "an Issue"}[pull]
            raise ApiError(404, f"Could not resolve to {what} with the number of {number}.")
        self.require(home, "issues", "pull_requests")
        return self.issue(issue)

    def _list_issues(self, home: entities.Repository, *, pull: bool) -> Callable[[], list[entities.Issue]]:
        def list_all() -> list[entities.Issue]:
            self.require(home, "pull_requests" if pull else "issues")
            issues = [issue for issue in self.world.issues.values() if issue.repository == home.id]
            return [each for each in issues if (each.pull is not None) is pull]

        return list_all

    def _visible_node(self, item: Any, write: Callable[[Any], Node]) -> Node | None:
        home = self.world.repositories.get(item.repository if item else 0)
        if home is None or not visible(self.world, self.caller, home):
            return None
        self.require(home, "issues", "pull_requests")
        return write(item)

    def require(self, home: entities.Repository, *permissions: str) -> None:
        token = self.caller.token
        inside = token is not None and token.permissions is not None and within(self.world, token, home)
        if token is not None and inside and not any(grants(token, permission, "read") for permission in permissions):
            raise ApiError(403, "Resource not accessible by integration")


def _int(ident: int) -> int | None:
    # An Int has 32 bits. Larger ids are null here and appear in fullDatabaseId.
    return ident if ident < INT_LIMIT else None


def _qualified_ref(bare: Bare, name: str) -> str | None:
    refs = bare.refs()
    return next(
        (each for each in (name, f"refs/{name}", f"refs/heads/{name}", f"refs/tags/{name}") if each in refs), None
    )
