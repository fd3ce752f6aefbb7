"""The URLs of the simulated GitHub, and the JSON of its entities in REST and webhooks.

Schemas are those of GitHub's OpenAPI (https://github.com/github/rest-api-description). A required field that this world
does not model holds the value of a new, empty repository.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias
from urllib.parse import quote

from bot.testing.github import entities
from bot.testing.github.code_changes import changed_files, commits_between, hunk, pull_of
from bot.testing.github.world import GitHubState

Json: TypeAlias = dict[str, Any]

GHOST = entities.User(10137, "ghost")
"""The user that REST shows for a deleted account (https://github.com/ghost). GraphQL shows null."""

USER_LINKS = """
    followers=/followers following=/following{/other_user} gists=/gists{/gist_id} starred=/starred{/owner}{/repo}
    subscriptions=/subscriptions organizations=/orgs repos=/repos events=/events{/privacy}
    received_events=/received_events
"""
REPOSITORY_LINKS = """
    archive=/{archive_format}{/ref} assignees=/assignees{/user} blobs=/git/blobs{/sha} branches=/branches{/branch}
    collaborators=/collaborators{/collaborator} comments=/comments{/number} commits=/commits{/sha}
    compare=/compare/{base}...{head} contents=/contents/{+path} contributors=/contributors deployments=/deployments
    downloads=/downloads events=/events forks=/forks git_commits=/git/commits{/sha} git_refs=/git/refs{/sha}
    git_tags=/git/tags{/sha} hooks=/hooks issue_comment=/issues/comments{/number}
    issue_events=/issues/events{/number} issues=/issues{/number} keys=/keys{/key_id} labels=/labels{/name}
    languages=/languages merges=/merges milestones=/milestones{/number}
    notifications=/notifications{?since,all,participating} pulls=/pulls{/number} releases=/releases{/id}
    stargazers=/stargazers statuses=/statuses/{sha} subscribers=/subscribers subscription=/subscription tags=/tags
    teams=/teams trees=/git/trees{/sha}
"""
COUNTS = "forks forks_count open_issues open_issues_count stargazers_count watchers watchers_count size".split()
FEATURES = {"has_downloads": True, "has_issues": True, "has_projects": True, "has_wiki": False, "has_pages": False}


@dataclass(frozen=True, slots=True)
class Site:
    world: GitHubState
    api_url: str
    server_url: str

    def web(self, repository: entities.Repository) -> str:
        return f"{self.server_url}/{repository.full_name}"

    def api(self, repository: entities.Repository) -> str:
        return f"{self.api_url}/repos/{repository.full_name}"

    def user(self, ident: int) -> Json:
        user = self.world.users.get(ident, GHOST)
        url = f"{self.api_url}/users/{quote(user.login)}"
        return {
            **fields(user, "login id node_id type"), "avatar_url": f"{self.server_url}/avatars/{user.id}",
            "gravatar_id": "", "url": url, "html_url": f"{self.server_url}/{web_login(user)}",
            **_links(url, USER_LINKS), "user_view_type": "public", "site_admin": False,
        }  # fmt: skip

    def whole_user(self, ident: int) -> Json:
        names = ("name", "company", "blog", "location", "email", "hireable", "bio")
        zero = dict.fromkeys(("public_repos", "public_gists", "followers", "following"), 0)
        times = dict.fromkeys(("created_at", "updated_at"), "2020-01-01T00:00:00Z")
        return {**self.user(ident), **dict.fromkeys(names), "blog": "", **zero, **times}

    def repository(self, repository: entities.Repository, reader: entities.Role | None = None) -> Json:
        url, web = self.api(repository), self.web(repository)
        created_at, host = stamp(repository.created_at), self.server_url.partition("://")[2]
        rights = {} if reader is None else {"permissions": rights_of(reader)}
        return {
            **fields(repository, "id node_id name full_name private archived default_branch"),
            "owner": self.user(repository.owner), "html_url": web, "description": None, "fork": False, "url": url,
            **_links(url, REPOSITORY_LINKS), "created_at": created_at, "updated_at": created_at,
            "pushed_at": stamp(self.world.pushed_at.get(repository.id, repository.created_at)),
            "git_url": f"git://{host}/{repository.full_name}.git",
            "ssh_url": f"git@{host}:{repository.full_name}.git", "clone_url": f"{web}.git", "svn_url": web,
            **dict.fromkeys(COUNTS, 0), "stargazers_count": self.world.settings_of(repository).stars,
            **dict.fromkeys(("homepage", "language", "license", "mirror_url")), **FEATURES, "has_discussions": False,
            "disabled": False, "allow_forking": True, "is_template": False, "web_commit_signoff_required": False,
            "topics": [], "custom_properties": {}, "visibility": "private" if repository.private else "public",
            **rights,
        }  # fmt: skip

    def whole_repository(self, repository: entities.Repository, reader: entities.Role | None = None) -> Json:
        size = {"size": -(-self.world.bare(repository).size() // 1024)}
        return {**self.repository(repository, reader), **size, "network_count": 0, "subscribers_count": 0}

    def label(self, repository: entities.Repository, label: entities.Label) -> Json:
        url = f"{self.api(repository)}/labels/{label.name}"
        return {**fields(label, "id node_id name color description"), "url": url, "default": False}

    def app(self, app: entities.App) -> Json:
        created_at = stamp(app.created_at)
        return {
            **fields(app, "id client_id slug node_id name"), "owner": self.user(app.owner), "description": "",
            "external_url": app.homepage, "html_url": f"{self.server_url}/apps/{app.slug}", "created_at": created_at,
            "updated_at": created_at, "permissions": dict(app.permissions), "events": list(app.events),
        }  # fmt: skip

    def installation(self, installation: entities.Installation) -> Json:
        app, account = self.world.apps[installation.app], self.world.users[installation.account]
        url = f"{self.api_url}/app/installations/{installation.id}"
        return {
            "id": installation.id, "client_id": app.client_id, "account": self.user(account.id),
            "repository_selection": "all" if installation.repositories is None else "selected",
            "access_tokens_url": f"{url}/access_tokens",
            "repositories_url": f"{self.api_url}/installation/repositories",
            "html_url": f"{self.server_url}/settings/installations/{installation.id}", "app_id": app.id,
            "app_slug": app.slug, "target_id": account.id,
            "target_type": "Organization" if account.type == "Organization" else "User",
            "permissions": dict(installation.permissions), "events": list(app.events),
            "created_at": stamp(installation.created_at), "updated_at": stamp(installation.created_at),
            "single_file_name": None, "has_multiple_single_files": False, "single_file_paths": [],
            "suspended_by": None, "suspended_at": stamp(installation.created_at) if installation.suspended else None,
        }  # fmt: skip


def _links(url: str, paths: str) -> Json:
    return {f"{name}_url": url + path for name, path in (link.split("=", 1) for link in paths.split())}


def web_login(user: entities.User) -> str:
    return f"apps/{user.login.removesuffix('[bot]')}" if user.type == "Bot" else user.login


def rights_of(role: entities.Role) -> dict[str, bool]:
    names = {
        "admin": entities.Role.ADMIN, "maintain": entities.Role.MAINTAIN, "push": entities.Role.WRITE,
        "triage": entities.Role.TRIAGE,
    }  # fmt: skip
    return {**{name: role.covers(needed) for name, needed in names.items()}, "pull": role.covers(entities.Role.READ)}


def fields(item: object, names: str) -> Json:
    values = {name: getattr(item, name) for name in names.split()}
    return {name: stamp(value) if isinstance(value, datetime) else value for name, value in values.items()}


def stamp(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp_or_none(when: datetime | None) -> str | None:
    return None if when is None else stamp(when)


def issue_json(site: Site, issue: entities.Issue, *, webhook: bool = False) -> Json:
    home = site.world.repositories[issue.repository]
    url, web = f"{site.api(home)}/issues/{issue.number}", thread_url(site, issue)
    closer = {} if webhook else {"closed_by": None if issue.closed_by is None else site.user(issue.closed_by)}
    return {
        "url": url, "repository_url": site.api(home), "labels_url": f"{url}/labels{{/name}}",
        "comments_url": f"{url}/comments", "events_url": f"{url}/events", "html_url": web,
        **fields(issue, "id node_id number state_reason"), **_thread(site, issue),
        "comments": len(site.world.comments_of(issue)),
        "reactions": reaction_counts(site.world, issue.node_id, f"{url}/reactions"),
        "timeline_url": f"{url}/timeline", "performed_via_github_app": None, **closer,
        **(_pull_links(site, issue) if issue.pull else {}),
    }  # fmt: skip


def comment_json(site: Site, comment: entities.Comment) -> Json:
    home = site.world.repositories[comment.repository]
    url = f"{site.api(home)}/issues/comments/{comment.id}"
    thread = site.world.issues[comment.repository, comment.number]
    app = None if comment.app is None else site.app(site.world.apps[comment.app])
    return {
        "url": url, "html_url": f"{thread_url(site, thread)}#issuecomment-{comment.id}",
        "issue_url": f"{site.api(home)}/issues/{comment.number}", "user": site.user(comment.author),
        **fields(comment, "id node_id created_at updated_at"), "body": comment.text.body,
        "author_association": association(site.world, home, comment.author),
        "reactions": reaction_counts(site.world, comment.node_id, f"{url}/reactions"), "performed_via_github_app": app,
    }  # fmt: skip


def reaction_json(site: Site, reaction: entities.Reaction) -> Json:
    return {**fields(reaction, "id node_id content created_at"), "user": site.user(reaction.user)}


def review_json(site: Site, review: entities.Review) -> Json:
    home = site.world.repositories[review.repository]
    web = f"{site.web(home)}/pull/{review.number}#pullrequestreview-{review.id}"
    pull = f"{site.api(home)}/pulls/{review.number}"
    return {
        **fields(review, "id node_id state submitted_at commit_id"), "user": site.user(review.author),
        "body": review.text.body, "html_url": web, "pull_request_url": pull,
        "author_association": association(site.world, home, review.author),
        "_links": {"html": {"href": web}, "pull_request": {"href": pull}},
    }  # fmt: skip


def review_comment_json(site: Site, comment: entities.ReviewComment) -> Json:
    home = site.world.repositories[comment.repository]
    url = f"{site.api(home)}/pulls/comments/{comment.id}"
    web = f"{site.web(home)}/pull/{comment.number}#discussion_r{comment.id}"
    pull = f"{site.api(home)}/pulls/{comment.number}"
    links = {"self": {"href": url}, "html": {"href": web}, "pull_request": {"href": pull}}
    reply = {} if comment.in_reply_to is None else {"in_reply_to_id": comment.in_reply_to}
    return {
        "url": url, "pull_request_review_id": comment.review,
        **fields(comment, "id node_id path commit_id created_at updated_at line"),
        "diff_hunk": hunk(site.world, comment), "original_commit_id": comment.commit_id,
        "user": site.user(comment.author), "body": comment.text.body, "html_url": web, "pull_request_url": pull,
        "author_association": association(site.world, home, comment.author), "_links": links,
        "reactions": reaction_counts(site.world, comment.node_id, f"{url}/reactions"),
        **dict.fromkeys(("start_line", "original_start_line", "start_side")), "original_line": comment.line,
        "side": "RIGHT", "original_position": 1, "position": 1, "subject_type": "line", **reply,
    }  # fmt: skip


def pull_json(site: Site, issue: entities.Issue, *, whole: bool = True) -> Json:
    """Return a pull request as JSON (schema pull-request; if not `whole`, pull-request-simple, as in lists)."""
    pull, home = pull_of(issue), site.world.repositories[issue.repository]
    url, web = f"{site.api(home)}/pulls/{issue.number}", thread_url(site, issue)
    issue_url = f"{site.api(home)}/issues/{issue.number}"
    addresses = {
        "html": web, "issue": issue_url, "comments": f"{issue_url}/comments", "review_comments": f"{url}/comments",
        "review_comment": f"{site.api(home)}/pulls/comments{{/number}}", "commits": f"{url}/commits",
        "statuses": f"{site.api(home)}/statuses/{pull.head_sha}",
    }  # fmt: skip
    return {
        "url": url, **fields(issue, "id node_id number"), "html_url": web, "diff_url": f"{web}.diff",
        "patch_url": f"{web}.patch", "issue_url": issue_url, **_thread(site, issue),
        **fields(pull, "merged_at merge_commit_sha draft"),
        "requested_reviewers": [site.user(reviewer) for reviewer in pull.requested_reviewers], "requested_teams": [],
        **{f"{name}_url": addresses[name] for name in ("commits", "review_comments", "review_comment", "comments")},
        "statuses_url": addresses["statuses"], "head": _end(site, pull.head_repository, pull.head_ref, pull.head_sha),
        "base": _end(site, issue.repository, pull.base_ref, pull.base_sha),
        "_links": {"self": {"href": url}, **{name: {"href": to} for name, to in addresses.items()}},
        "auto_merge": None, **(_whole_pull(site, issue, pull) if whole else {}),
    }  # fmt: skip


def thread_url(site: Site, issue: entities.Issue) -> str:
    home = site.world.repositories[issue.repository]
    return f"{site.web(home)}/{'pull' if issue.pull else 'issues'}/{issue.number}"


def association(world: GitHubState, repository: entities.Repository, user: int) -> str:
    """Return the author association, which shows less than the role: a private member looks like anyone else."""
    if user == repository.owner:
        return "OWNER"
    return (
        "COLLABORATOR"
        if world.roles.get((repository.id, user), entities.Role.NONE).covers(entities.Role.READ)
        else "NONE"
    )


def reaction_counts(world: GitHubState, subject: str, url: str) -> Json:
    counts = Counter(reaction.content for reaction in world.reactions_to(subject))
    return {"url": url, "total_count": counts.total(), **{content: counts[content] for content in entities.REACTIONS}}


def _thread(site: Site, issue: entities.Issue) -> Json:
    home = site.world.repositories[issue.repository]
    assignees = [site.user(assignee) for assignee in issue.assignees]
    return {
        **fields(issue, "title state locked created_at updated_at closed_at"), "user": site.user(issue.author),
        "labels": [site.label(home, site.world.labels[home.id][name]) for name in issue.labels],
        "active_lock_reason": None, "assignee": assignees[0] if assignees else None, "assignees": assignees,
        "milestone": None, "author_association": association(site.world, home, issue.author),
        "body": issue.text.body or None,
    }  # fmt: skip


def _pull_links(site: Site, issue: entities.Issue) -> Json:
    home, web = site.world.repositories[issue.repository], thread_url(site, issue)
    pull = pull_of(issue)
    links = {
        "url": f"{site.api(home)}/pulls/{issue.number}", "html_url": web, "diff_url": f"{web}.diff",
        "patch_url": f"{web}.patch", "merged_at": stamp_or_none(pull.merged_at),
    }  # fmt: skip
    return {"draft": pull.draft, "pull_request": links}


def _end(site: Site, repository: int, ref: str, sha: str) -> Json:
    home = site.world.repositories[repository]
    return {
        "label": f"{home.owner_login}:{ref}", "ref": ref, "sha": sha, "user": site.user(home.owner),
        "repo": site.repository(home),
    }  # fmt: skip


def _whole_pull(site: Site, issue: entities.Issue, pull: entities.Pull) -> Json:
    home = site.world.repositories[issue.repository]
    bare = site.world.bare(home)
    files = changed_files(bare, pull.base_sha, pull.head_sha)
    merged = pull.merged_at is not None
    return {
        "merged": merged, "mergeable": None if issue.state == "closed" else True,
        "rebaseable": None if issue.state == "closed" else True,
        "mergeable_state": "unknown" if issue.state == "closed" else "clean",
        "merged_by": None if pull.merged_by is None else site.user(pull.merged_by),
        "comments": len(site.world.comments_of(issue)), "review_comments": len(site.world.review_comments_of(issue)),
        "maintainer_can_modify": False, "commits": len(commits_between(bare, pull.base_sha, pull.head_sha)),
        "additions": sum(file.additions for file in files), "deletions": sum(file.deletions for file in files),
        "changed_files": len(files),
    }  # fmt: skip
