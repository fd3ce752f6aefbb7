"""The REST and webhook JSON of threads: issues, comments, reactions, reviews, and pull requests."""

from __future__ import annotations

from collections import Counter

from bot.testing.github.code_changes import pull_of
from bot.testing.github.diffs import changed_files, commits_between, hunk
from bot.testing.github.entities import (
    REACTIONS,
    Comment,
    Issue,
    Pull,
    Reaction,
    Repository,
    Review,
    ReviewComment,
    Role,
)
from bot.testing.github.site import Json, Site, stamp, stamp_or_none
from bot.testing.github.world import GitHubState


def issue_json(site: Site, issue: Issue, *, webhook: bool = False) -> Json:
    """Return an issue, or a pull request as an issue, as JSON (schema issue)."""
    home = site.world.repositories[issue.repository]
    url, web = f"{site.api(home)}/issues/{issue.number}", thread_url(site, issue)
    closer = {} if webhook else {"closed_by": None if issue.closed_by is None else site.user(issue.closed_by)}
    return {
        "url": url,
        "repository_url": site.api(home),
        "labels_url": f"{url}/labels{{/name}}",
        "comments_url": f"{url}/comments",
        "events_url": f"{url}/events",
        "html_url": web,
        "id": issue.id,
        "node_id": issue.node_id,
        "number": issue.number,
        **_thread(site, issue),
        "comments": len(site.world.comments_of(issue)),
        "reactions": reaction_counts(site.world, issue.node_id, f"{url}/reactions"),
        "timeline_url": f"{url}/timeline",
        "performed_via_github_app": None,
        "state_reason": issue.state_reason,
        **closer,
        **(_pull_links(site, issue) if issue.pull else {}),
    }


def comment_json(site: Site, comment: Comment) -> Json:
    """Return a comment on a thread as JSON (schema issue-comment)."""
    home = site.world.repositories[comment.repository]
    url = f"{site.api(home)}/issues/comments/{comment.id}"
    thread = site.world.issues[comment.repository, comment.number]
    app = None if comment.app is None else site.app(site.world.apps[comment.app])
    return {
        "url": url,
        "html_url": f"{thread_url(site, thread)}#issuecomment-{comment.id}",
        "issue_url": f"{site.api(home)}/issues/{comment.number}",
        "id": comment.id,
        "node_id": comment.node_id,
        "user": site.user(comment.author),
        "created_at": stamp(comment.created_at),
        "updated_at": stamp(comment.updated_at),
        "body": comment.text.body,
        "author_association": association(site.world, home, comment.author),
        "reactions": reaction_counts(site.world, comment.node_id, f"{url}/reactions"),
        "performed_via_github_app": app,
    }


def reaction_json(site: Site, reaction: Reaction) -> Json:
    """Return a reaction as JSON (schema reaction)."""
    return {
        "id": reaction.id,
        "node_id": reaction.node_id,
        "user": site.user(reaction.user),
        "content": reaction.content,
        "created_at": stamp(reaction.created_at),
    }


def review_json(site: Site, review: Review) -> Json:
    """Return a review as JSON (schema pull-request-review)."""
    home = site.world.repositories[review.repository]
    web = f"{site.web(home)}/pull/{review.number}#pullrequestreview-{review.id}"
    pull = f"{site.api(home)}/pulls/{review.number}"
    return {
        "id": review.id,
        "node_id": review.node_id,
        "user": site.user(review.author),
        "body": review.text.body,
        "state": review.state,
        "html_url": web,
        "pull_request_url": pull,
        "author_association": association(site.world, home, review.author),
        "_links": {"html": {"href": web}, "pull_request": {"href": pull}},
        "submitted_at": stamp(review.submitted_at),
        "commit_id": review.commit_id,
    }


def review_comment_json(site: Site, comment: ReviewComment) -> Json:
    """Return a line comment as JSON (schema pull-request-review-comment)."""
    home = site.world.repositories[comment.repository]
    url = f"{site.api(home)}/pulls/comments/{comment.id}"
    web = f"{site.web(home)}/pull/{comment.number}#discussion_r{comment.id}"
    pull = f"{site.api(home)}/pulls/{comment.number}"
    links = {"self": {"href": url}, "html": {"href": web}, "pull_request": {"href": pull}}
    reply = {} if comment.in_reply_to is None else {"in_reply_to_id": comment.in_reply_to}
    return {
        "url": url,
        "pull_request_review_id": comment.review,
        "id": comment.id,
        "node_id": comment.node_id,
        "diff_hunk": hunk(site.world, comment),
        "path": comment.path,
        "commit_id": comment.commit_id,
        "original_commit_id": comment.commit_id,
        "user": site.user(comment.author),
        "body": comment.text.body,
        "created_at": stamp(comment.created_at),
        "updated_at": stamp(comment.updated_at),
        "html_url": web,
        "pull_request_url": pull,
        "author_association": association(site.world, home, comment.author),
        "_links": links,
        "reactions": reaction_counts(site.world, comment.node_id, f"{url}/reactions"),
        "start_line": None,
        "original_start_line": None,
        "start_side": None,
        "line": comment.line,
        "original_line": comment.line,
        "side": "RIGHT",
        "original_position": 1,
        "position": 1,
        "subject_type": "line",
        **reply,
    }


def pull_json(site: Site, issue: Issue, *, whole: bool = True) -> Json:
    """Return a pull request as JSON (schema pull-request; if not `whole`, pull-request-simple, as in lists)."""
    pull, home = pull_of(issue), site.world.repositories[issue.repository]
    url, web = f"{site.api(home)}/pulls/{issue.number}", thread_url(site, issue)
    issue_url = f"{site.api(home)}/issues/{issue.number}"
    addresses = {
        "html": web,
        "issue": issue_url,
        "comments": f"{issue_url}/comments",
        "review_comments": f"{url}/comments",
        "review_comment": f"{site.api(home)}/pulls/comments{{/number}}",
        "commits": f"{url}/commits",
        "statuses": f"{site.api(home)}/statuses/{pull.head_sha}",
    }
    return {
        "url": url,
        "id": issue.id,
        "node_id": issue.node_id,
        "html_url": web,
        "diff_url": f"{web}.diff",
        "patch_url": f"{web}.patch",
        "issue_url": issue_url,
        "number": issue.number,
        **_thread(site, issue),
        "merged_at": stamp_or_none(pull.merged_at),
        "merge_commit_sha": pull.merge_commit_sha,
        "requested_reviewers": [site.user(reviewer) for reviewer in pull.requested_reviewers],
        "requested_teams": [],
        "draft": pull.draft,
        **{f"{name}_url": addresses[name] for name in ("commits", "review_comments", "review_comment", "comments")},
        "statuses_url": addresses["statuses"],
        "head": _end(site, pull.head_repository, pull.head_ref, pull.head_sha),
        "base": _end(site, issue.repository, pull.base_ref, pull.base_sha),
        "_links": {"self": {"href": url}, **{name: {"href": to} for name, to in addresses.items()}},
        "auto_merge": None,
        **(_whole_pull(site, issue, pull) if whole else {}),
    }


def thread_url(site: Site, issue: Issue) -> str:
    """Return the URL of a thread's page."""
    home = site.world.repositories[issue.repository]
    return f"{site.web(home)}/{'pull' if issue.pull else 'issues'}/{issue.number}"


def association(world: GitHubState, repository: Repository, user: int) -> str:
    """Return the author association, which shows less than the role: a private member looks like anyone else."""
    if user == repository.owner:
        return "OWNER"
    return "COLLABORATOR" if world.roles.get((repository.id, user), Role.NONE).covers(Role.READ) else "NONE"


def reaction_counts(world: GitHubState, subject: str, url: str) -> Json:
    """Return the count of each reaction as JSON (schema reaction-rollup)."""
    counts = Counter(reaction.content for reaction in world.reactions_to(subject))
    return {"url": url, "total_count": counts.total(), **{content: counts[content] for content in REACTIONS}}


def _thread(site: Site, issue: Issue) -> Json:
    home = site.world.repositories[issue.repository]
    assignees = [site.user(assignee) for assignee in issue.assignees]
    return {
        "title": issue.title,
        "user": site.user(issue.author),
        "labels": [site.label(home, site.world.labels[home.id][name]) for name in issue.labels],
        "state": issue.state,
        "locked": issue.locked,
        "active_lock_reason": None,
        "assignee": assignees[0] if assignees else None,
        "assignees": assignees,
        "milestone": None,
        "created_at": stamp(issue.created_at),
        "updated_at": stamp(issue.updated_at),
        "closed_at": stamp_or_none(issue.closed_at),
        "author_association": association(site.world, home, issue.author),
        "body": issue.text.body or None,
    }


def _pull_links(site: Site, issue: Issue) -> Json:
    home, web = site.world.repositories[issue.repository], thread_url(site, issue)
    pull = pull_of(issue)
    links = {
        "url": f"{site.api(home)}/pulls/{issue.number}",
        "html_url": web,
        "diff_url": f"{web}.diff",
        "patch_url": f"{web}.patch",
        "merged_at": stamp_or_none(pull.merged_at),
    }
    return {"draft": pull.draft, "pull_request": links}


def _end(site: Site, repository: int, ref: str, sha: str) -> Json:
    home = site.world.repositories[repository]
    return {
        "label": f"{home.owner_login}:{ref}",
        "ref": ref,
        "sha": sha,
        "user": site.user(home.owner),
        "repo": site.repository(home),
    }


def _whole_pull(site: Site, issue: Issue, pull: Pull) -> Json:
    home = site.world.repositories[issue.repository]
    bare = site.world.bare(home)
    files = changed_files(bare, pull.base_sha, pull.head_sha)
    merged = pull.merged_at is not None
    return {
        "merged": merged,
        "mergeable": None if issue.state == "closed" else True,
        "rebaseable": None if issue.state == "closed" else True,
        "mergeable_state": "unknown" if issue.state == "closed" else "clean",
        "merged_by": None if pull.merged_by is None else site.user(pull.merged_by),
        "comments": len(site.world.comments_of(issue)),
        "review_comments": len(site.world.review_comments_of(issue)),
        "maintainer_can_modify": False,
        "commits": len(commits_between(bare, pull.base_sha, pull.head_sha)),
        "additions": sum(file.additions for file in files),
        "deletions": sum(file.deletions for file in files),
        "changed_files": len(files),
    }
