"""The entities of the simulated GitHub as frozen values; a change replaces a value in its table (world.py).

Ids are numeric and never reused. A user or repository is referred to by id, a thread by repository and number.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Literal

REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes")
"""https://docs.github.com/en/rest/reactions/reactions#about-reactions"""

PREFIXES: Mapping[str, str] = MappingProxyType({
    "User": "U", "Bot": "BOT", "Organization": "O", "Repository": "R", "Issue": "I", "PullRequest": "PR",
    "IssueComment": "IC", "Reaction": "REA", "PullRequestReview": "PRR", "PullRequestReviewComment": "PRRC",
    "CheckRun": "CR", "App": "A", "Label": "LA", "UserContentEdit": "UCE", "Ref": "REF",
    "IssueEvent": "IE", "WorkflowRun": "WFR",
})  # fmt: skip


def node_id(kind: str, number: int) -> str:
    return f"{PREFIXES[kind]}_kw{base64.urlsafe_b64encode(f'{kind}:{number}'.encode()).decode().rstrip('=')}"


def from_node_id(text: str) -> tuple[str, int] | None:
    coded = text.partition("_kw")[2]
    try:
        kind, _, number = base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode().partition(":")
        return kind, int(number)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Entity:
    kind: ClassVar[str]
    id: int

    @property
    def node_id(self) -> str:
        return node_id(self.kind, self.id)


class Role(StrEnum):
    NONE = "none"
    READ = "read"
    TRIAGE = "triage"
    WRITE = "write"
    MAINTAIN = "maintain"
    ADMIN = "admin"

    def covers(self, needed: Role) -> bool:
        order = list(Role)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class User(Entity):
    login: str
    type: Literal["User", "Bot", "Organization"] = "User"

    @property
    def kind(self) -> str:  # type: ignore[override]  # not the same for all
        return self.type


@dataclass(frozen=True, slots=True)
class Label(Entity):
    kind = "Label"
    name: str
    color: str = "ededed"
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Repository(Entity):
    kind = "Repository"
    owner: int
    owner_login: str
    name: str
    folder: Path
    created_at: datetime
    private: bool = False
    archived: bool = False
    default_branch: str = "main"
    protected: frozenset[str] = frozenset()
    push_protection: bool = False
    required_checks: tuple[tuple[str, int | None], ...] = ()
    ruled_checks: tuple[tuple[str, int | None], ...] = ()  # what a ruleset requires on every branch
    signed: bool = False
    """Whether a ruleset requires signed commits on every branch. Pushes are not checked for who signed."""
    former: str = ""
    """The repository's "owner/name" before a rename. GraphQL resolves it, and git requests are redirected."""

    @property
    def full_name(self) -> str:
        return f"{self.owner_login}/{self.name}"


@dataclass(frozen=True, slots=True)
class Edit(Entity):
    kind = "UserContentEdit"
    editor: int | None
    edited_at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class EditableText:
    """A body that people can edit. `edits` is empty until the first edit, and then starts with the posted text."""

    body: str
    edits: tuple[Edit, ...] = ()
    by_mail: bool = False  # whether it was sent by mail; edits do not change this

    @property
    def last_edited_at(self) -> datetime | None:
        return self.edits[-1].edited_at if self.edits else None

    @property
    def editor(self) -> int | None:
        return self.edits[-1].editor if self.edits else None


@dataclass(frozen=True, slots=True)
class Pull:
    """The pull request part of a thread. Its commits are as of the last recorded push."""

    head_repository: int
    head_ref: str
    base_ref: str
    head_sha: str
    base_sha: str
    draft: bool = False
    merged_at: datetime | None = None
    merged_by: int | None = None
    merge_commit_sha: str | None = None
    requested_reviewers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Issue(Entity):
    repository: int
    number: int
    title: str
    text: EditableText
    author: int
    created_at: datetime
    updated_at: datetime
    state: Literal["open", "closed"] = "open"
    state_reason: str | None = None
    closed_at: datetime | None = None
    closed_by: int | None = None
    locked: bool = False
    labels: tuple[str, ...] = ()
    assignees: tuple[int, ...] = ()
    pull: Pull | None = None

    @property
    def kind(self) -> str:  # type: ignore[override]  # not the same for all
        return "PullRequest" if self.pull else "Issue"


@dataclass(frozen=True, slots=True)
class Comment(Entity):
    kind = "IssueComment"
    repository: int
    number: int
    text: EditableText
    author: int
    created_at: datetime
    updated_at: datetime
    app: int | None = None
    minimized: str | None = None  # the reason it was minimized, such as "outdated", or None while it is shown


@dataclass(frozen=True, slots=True)
class Reaction(Entity):
    kind = "Reaction"
    subject: str
    user: int
    content: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Review(Entity):
    kind = "PullRequestReview"
    repository: int
    number: int
    text: EditableText
    author: int
    state: Literal["APPROVED", "CHANGES_REQUESTED", "COMMENTED", "DISMISSED"]
    commit_id: str
    submitted_at: datetime


@dataclass(frozen=True, slots=True)
class ReviewComment(Entity):
    kind = "PullRequestReviewComment"
    review: int
    repository: int
    number: int
    text: EditableText
    author: int
    path: str
    line: int
    commit_id: str
    created_at: datetime
    updated_at: datetime
    in_reply_to: int | None = None
    minimized: str | None = None


@dataclass(frozen=True, slots=True)
class CheckRun(Entity):
    kind = "CheckRun"
    repository: int
    app: int
    name: str
    head_sha: str
    status: str
    started_at: datetime
    conclusion: str | None = None
    completed_at: datetime | None = None
    external_id: str = ""
    details_url: str | None = None
    title: str | None = None
    summary: str | None = None
    body: str | None = None


@dataclass(frozen=True, slots=True)
class WorkflowRun(Entity):
    kind = "WorkflowRun"
    repository: int
    event: str
    head_sha: str
    started_at: datetime
    updated_at: datetime
    status: str = "in_progress"
    conclusion: str | None = None


@dataclass(frozen=True, slots=True)
class App(Entity):
    kind = "App"
    slug: str
    name: str
    owner: int
    bot: int
    pem: str = field(repr=False)
    public_keys: tuple[str, ...] = field(repr=False)
    webhook_secret: str = field(repr=False)
    created_at: datetime
    permissions: Mapping[str, str]
    events: tuple[str, ...]
    client_secret: str = field(default="", repr=False)
    older_client_secrets: tuple[str, ...] = field(default=(), repr=False)
    callback_urls: tuple[str, ...] = ()
    homepage: str = "https://example.com"

    @property
    def client_id(self) -> str:
        return f"Iv23li{self.id:014d}"


@dataclass(frozen=True, slots=True)
class Installation:
    id: int
    app: int
    account: int
    created_at: datetime
    permissions: Mapping[str, str]
    repositories: frozenset[int] | None = None
    suspended: bool = False


@dataclass(frozen=True, slots=True)
class Token:
    """A credential: its user, repositories, and permissions. Permissions of None mean everything its user may do."""

    value: str = field(repr=False)
    kind: Literal["installation", "personal", "job", "oauth"]
    user: int
    installation: int | None = None
    app: int | None = None
    repositories: frozenset[int] | None = None
    permissions: Mapping[str, str] | None = None
    expires_at: datetime | None = None
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Push:
    ref: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    action: str | None
    sender: int
    repository: Repository | None = None
    issue: Issue | None = None
    comment: Comment | None = None
    review: Review | None = None
    review_comment: ReviewComment | None = None
    check_run: CheckRun | None = None
    installation: Installation | None = None
    label: str | None = None
    assignee: int | None = None
    push: Push | None = None
    changed: Mapping[str, str] = field(default_factory=dict)


# https://docs.github.com/en/rest/actions/permissions and .../repos/rules
@dataclass(frozen=True, slots=True)
class EnvironmentSettings:
    secrets: frozenset[str] = frozenset()
    reviewed: bool = False
    limited: bool = False


@dataclass(frozen=True, slots=True)
class RulesetSettings:
    name: str
    rules: tuple[str, ...] = ()
    target: Literal["branch", "tag", "push", "repository"] = "branch"
    prefix: str = ""
    enforcement: Literal["disabled", "active", "evaluate"] = "active"
    pattern: str = ""  # how the names of branches must begin, for the rule `branch_name_pattern`
    bypassed: bool = False  # whether every caller bypasses it


@dataclass(frozen=True, slots=True)
class RepositorySettings:
    actions: bool = True
    allowed_actions: Literal["all", "local_only", "selected"] = "all"
    pinned: bool = False  # whether actions must be named by the full id of a commit
    actions_open_pulls: bool = False
    environments: Mapping[str, EnvironmentSettings] = field(default_factory=dict)
    secrets: frozenset[str] = frozenset()
    shared_secrets: frozenset[str] = frozenset()  # secrets of the organization that this repository may read
    rulesets: tuple[RulesetSettings, ...] = ()
    stars: int = 0
