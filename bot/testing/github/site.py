"""The addresses of the simulated GitHub, and the REST JSON of users, repositories, and Apps.

Schemas are those of GitHub's OpenAPI (https://github.com/github/rest-api-description). A required field that this world
does not model holds the value of a new, empty repository.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias
from urllib.parse import quote

from bot.testing.github.entities import App, Installation, Label, Repository, Role, User
from bot.testing.github.world import GitHubState

Json: TypeAlias = dict[str, Any]

GHOST = User(10137, "ghost")
"""The user that REST shows for a deleted account (https://github.com/ghost). GraphQL shows null."""

USER_LINKS = {
    "followers_url": "/followers",
    "following_url": "/following{/other_user}",
    "gists_url": "/gists{/gist_id}",
    "starred_url": "/starred{/owner}{/repo}",
    "subscriptions_url": "/subscriptions",
    "organizations_url": "/orgs",
    "repos_url": "/repos",
    "events_url": "/events{/privacy}",
    "received_events_url": "/received_events",
}
REPOSITORY_LINKS = {
    "archive_url": "/{archive_format}{/ref}",
    "assignees_url": "/assignees{/user}",
    "blobs_url": "/git/blobs{/sha}",
    "branches_url": "/branches{/branch}",
    "collaborators_url": "/collaborators{/collaborator}",
    "comments_url": "/comments{/number}",
    "commits_url": "/commits{/sha}",
    "compare_url": "/compare/{base}...{head}",
    "contents_url": "/contents/{+path}",
    "contributors_url": "/contributors",
    "deployments_url": "/deployments",
    "downloads_url": "/downloads",
    "events_url": "/events",
    "forks_url": "/forks",
    "git_commits_url": "/git/commits{/sha}",
    "git_refs_url": "/git/refs{/sha}",
    "git_tags_url": "/git/tags{/sha}",
    "hooks_url": "/hooks",
    "issue_comment_url": "/issues/comments{/number}",
    "issue_events_url": "/issues/events{/number}",
    "issues_url": "/issues{/number}",
    "keys_url": "/keys{/key_id}",
    "labels_url": "/labels{/name}",
    "languages_url": "/languages",
    "merges_url": "/merges",
    "milestones_url": "/milestones{/number}",
    "notifications_url": "/notifications{?since,all,participating}",
    "pulls_url": "/pulls{/number}",
    "releases_url": "/releases{/id}",
    "stargazers_url": "/stargazers",
    "statuses_url": "/statuses/{sha}",
    "subscribers_url": "/subscribers",
    "subscription_url": "/subscription",
    "tags_url": "/tags",
    "teams_url": "/teams",
    "trees_url": "/git/trees{/sha}",
}
COUNTS = (
    *("forks", "forks_count", "open_issues", "open_issues_count"),
    *("stargazers_count", "watchers", "watchers_count", "size"),
)
FEATURES = {"has_downloads": True, "has_issues": True, "has_projects": True, "has_wiki": False, "has_pages": False}


@dataclass(frozen=True, slots=True)
class Site:
    """A world and the addresses it is served at."""

    world: GitHubState
    api_url: str
    server_url: str

    def web(self, repository: Repository) -> str:
        """Return the URL of a repository's page."""
        return f"{self.server_url}/{repository.full_name}"

    def api(self, repository: Repository) -> str:
        """Return the API URL of a repository."""
        return f"{self.api_url}/repos/{repository.full_name}"

    def user(self, ident: int) -> Json:
        """Return a user as JSON (schema simple-user). A deleted user is GitHub's `ghost`."""
        user = self.world.users.get(ident, GHOST)
        url = f"{self.api_url}/users/{quote(user.login)}"
        return {
            "login": user.login,
            "id": user.id,
            "node_id": user.node_id,
            "avatar_url": f"{self.server_url}/avatars/{user.id}",
            "gravatar_id": "",
            "url": url,
            "html_url": f"{self.server_url}/{web_login(user)}",
            **{key: url + path for key, path in USER_LINKS.items()},
            "type": user.type,
            "user_view_type": "public",
            "site_admin": False,
        }

    def whole_user(self, ident: int) -> Json:
        """Return a user as JSON in the form of a single-user request (schema public-user)."""
        names = ("name", "company", "blog", "location", "email", "hireable", "bio")
        zero = dict.fromkeys(("public_repos", "public_gists", "followers", "following"), 0)
        times = dict.fromkeys(("created_at", "updated_at"), "2020-01-01T00:00:00Z")
        return {**self.user(ident), **dict.fromkeys(names), "blog": "", **zero, **times}

    def repository(self, repository: Repository, reader: Role | None = None) -> Json:
        """Return a repository as JSON (schema repository), with the permissions of `reader` if given."""
        url, web = self.api(repository), self.web(repository)
        created_at, host = stamp(repository.created_at), self.server_url.partition("://")[2]
        rights = {} if reader is None else {"permissions": rights_of(reader)}
        return {
            "id": repository.id,
            "node_id": repository.node_id,
            "name": repository.name,
            "full_name": repository.full_name,
            "private": repository.private,
            "owner": self.user(repository.owner),
            "html_url": web,
            "description": None,
            "fork": False,
            "url": url,
            **{key: url + path for key, path in REPOSITORY_LINKS.items()},
            "created_at": created_at,
            "updated_at": created_at,
            "pushed_at": stamp(self.world.pushed_at.get(repository.id, repository.created_at)),
            "git_url": f"git://{host}/{repository.full_name}.git",
            "ssh_url": f"git@{host}:{repository.full_name}.git",
            "clone_url": f"{web}.git",
            "svn_url": web,
            **dict.fromkeys(COUNTS, 0),
            "stargazers_count": self.world.settings_of(repository).stars,
            **dict.fromkeys(("homepage", "language", "license", "mirror_url")),
            **FEATURES,
            "has_discussions": False,
            "archived": repository.archived,
            "disabled": False,
            "allow_forking": True,
            "is_template": False,
            "web_commit_signoff_required": False,
            "topics": [],
            "custom_properties": {},
            "visibility": "private" if repository.private else "public",
            "default_branch": repository.default_branch,
            **rights,
        }

    def whole_repository(self, repository: Repository, reader: Role | None = None) -> Json:
        """Return a repository as JSON in the form of a single-repository request (schema full-repository)."""
        size = {"size": -(-self.world.bare(repository).size() // 1024)}
        return {**self.repository(repository, reader), **size, "network_count": 0, "subscribers_count": 0}

    def label(self, repository: Repository, label: Label) -> Json:
        """Return a label as JSON (schema label)."""
        return {
            "id": label.id,
            "node_id": label.node_id,
            "url": f"{self.api(repository)}/labels/{label.name}",
            "name": label.name,
            "color": label.color,
            "default": False,
            "description": label.description,
        }

    def app(self, app: App) -> Json:
        """Return an App as JSON (schema integration)."""
        created_at = stamp(app.created_at)
        return {
            "id": app.id,
            "client_id": app.client_id,
            "slug": app.slug,
            "node_id": app.node_id,
            "owner": self.user(app.owner),
            "name": app.name,
            "description": "",
            "external_url": app.homepage,
            "html_url": f"{self.server_url}/apps/{app.slug}",
            "created_at": created_at,
            "updated_at": created_at,
            "permissions": dict(app.permissions),
            "events": list(app.events),
        }

    def installation(self, installation: Installation) -> Json:
        """Return an installation as JSON (schema installation)."""
        app, account = self.world.apps[installation.app], self.world.users[installation.account]
        url = f"{self.api_url}/app/installations/{installation.id}"
        return {
            "id": installation.id,
            "client_id": app.client_id,
            "account": self.user(account.id),
            "repository_selection": "all" if installation.repositories is None else "selected",
            "access_tokens_url": f"{url}/access_tokens",
            "repositories_url": f"{self.api_url}/installation/repositories",
            "html_url": f"{self.server_url}/settings/installations/{installation.id}",
            "app_id": app.id,
            "app_slug": app.slug,
            "target_id": account.id,
            "target_type": "Organization" if account.type == "Organization" else "User",
            "permissions": dict(installation.permissions),
            "events": list(app.events),
            "created_at": stamp(installation.created_at),
            "updated_at": stamp(installation.created_at),
            "single_file_name": None,
            "has_multiple_single_files": False,
            "single_file_paths": [],
            "suspended_by": None,
            "suspended_at": stamp(installation.created_at) if installation.suspended else None,
        }


def web_login(user: User) -> str:
    """Return the path of a user's page."""
    return f"apps/{user.login.removesuffix('[bot]')}" if user.type == "Bot" else user.login


def rights_of(role: Role) -> dict[str, bool]:
    """Return a role as the five rights of a repository's `permissions`."""
    names = {"admin": Role.ADMIN, "maintain": Role.MAINTAIN, "push": Role.WRITE, "triage": Role.TRIAGE}
    return {**{name: role.covers(needed) for name, needed in names.items()}, "pull": role.covers(Role.READ)}


def stamp(when: datetime) -> str:
    """Return a time in GitHub's format: UTC, whole seconds."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp_or_none(when: datetime | None) -> str | None:
    """Return a time in GitHub's format, or None."""
    return None if when is None else stamp(when)
