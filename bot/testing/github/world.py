"""The state of one simulated GitHub: its tables, lookups, change listeners, and clock."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from bot.testing.github import entities
from bot.testing.github.bare import Bare, CommitSignature

if TYPE_CHECKING:
    from bot.ports import Clock
    from bot.testing.github.git_objects import FileContents
    from bot.testing.github.person import Person


class TurnedClock:
    """The Clock port for tests. It starts at the real time and moves only through `advance` and `sleep`."""

    def __init__(self, start: datetime | None = None) -> None:
        self._start = start or datetime.now(UTC).replace(microsecond=0)
        self._turned = 0.0
        self._lock = threading.Lock()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._turned)

    def monotonic(self) -> float:
        return self._turned

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(f"a clock does not run backwards: {seconds} s")
        with self._lock:
            self._turned += seconds

    async def sleep(self, seconds: float) -> None:
        self.advance(max(0.0, seconds))
        await asyncio.sleep(0)


# Values are frozen, and a change replaces a value. Every change, and every read of more than one value, holds `lock`. A
# change ends with `emit`, so that `version` grows and listeners (webhooks.py) see the world as of that moment. The
# actions of people are in conversation.py and code_changes.py; tests use them through `world.person("alice")`.

OnThread = TypeVar("OnThread", entities.Comment, entities.Review, entities.ReviewComment)

FIRST_ID = 3_100_000_000  # beyond 31 bits, as the ids of comments on github.com are
FIRST_SMALL_ID = 210_000_000
ACTIONS_BOT = "github-actions[bot]"
ACTIONS_BOT_ID = 41_898_282
"""The number of that account on github.com: https://api.github.com/users/github-actions%5Bbot%5D"""
DEFAULT_LABELS = {"bug": "d73a4a", "documentation": "0075ca", "enhancement": "a2eeef"}


class StateConflictError(Exception):
    """The request conflicts with the state of the world; the message gives the reason in GitHub's words."""


class NotAllowedError(Exception):
    """The web interface would not offer the action, for example because the user's role does not allow it."""


class NotThereError(LookupError):
    """The requested thing does not exist in the world."""


@dataclass(frozen=True, slots=True)
class ActingUser:
    """The user who changes a world, optionally through an App."""

    world: GitHubState
    id: int
    app: int | None = None
    mails: bool = False  # whether the user writes by mail: GitHub sends a mail of every post, and stores the replies

    def write(self, body: str) -> entities.EditableText:
        return entities.EditableText(body, by_mail=self.mails)


@dataclass(slots=True)
class GitHubState:
    folder: Path
    clock: Clock = field(default_factory=TurnedClock)
    lock: threading.RLock = field(default_factory=threading.RLock)
    version: int = 0
    users: dict[int, entities.User] = field(default_factory=dict)
    repositories: dict[int, entities.Repository] = field(default_factory=dict)
    roles: dict[tuple[int, int], entities.Role] = field(default_factory=dict)
    """(repository, user) -> the role that was given."""
    teams: dict[tuple[int, str], frozenset[int]] = field(default_factory=dict)  # (organization, slug) -> members
    labels: dict[int, dict[str, entities.Label]] = field(default_factory=dict)
    issues: dict[tuple[int, int], entities.Issue] = field(default_factory=dict)
    comments: dict[int, entities.Comment] = field(default_factory=dict)
    reactions: dict[int, entities.Reaction] = field(default_factory=dict)
    reviews: dict[int, entities.Review] = field(default_factory=dict)
    review_comments: dict[int, entities.ReviewComment] = field(default_factory=dict)
    check_runs: dict[int, entities.CheckRun] = field(default_factory=dict)
    workflow_runs: dict[int, entities.WorkflowRun] = field(default_factory=dict)
    job_logs: dict[int, bytes] = field(default_factory=dict)  # job -> its log. A job has the id of its check run
    workflows: dict[tuple[int, str], str] = field(default_factory=dict)
    settings: dict[int, entities.RepositorySettings] = field(default_factory=dict)
    """repository -> its settings; one without an entry has the defaults of a new repository."""
    plans: dict[int, str] = field(default_factory=dict)
    """account -> the name of its plan, which GitHub shows only to members of the account."""
    apps: dict[int, entities.App] = field(default_factory=dict)
    manifest_codes: dict[str, tuple[entities.App, str, datetime]] = field(default_factory=dict)
    """code -> an App made from a manifest, its webhook's URL, and when; its secrets were not fetched yet."""
    installations: dict[int, entities.Installation] = field(default_factory=dict)
    tokens: dict[str, entities.Token] = field(default_factory=dict)
    seen_refs: dict[int, dict[str, str]] = field(default_factory=dict)
    """repository -> its refs as of the last push that was recorded."""
    pushed_at: dict[int, datetime] = field(default_factory=dict)
    """repository -> the time of the last push to it; no entry before the first push."""
    listeners: list[Callable[[entities.Event], None]] = field(default_factory=list)
    past: list[tuple[int, datetime, entities.Event]] = field(default_factory=list)
    _ids: itertools.count[int] = field(default_factory=lambda: itertools.count(FIRST_ID))

    # --- reading -----------------------------------------------------------------------------------------------

    def now(self) -> datetime:
        return self.clock.now().replace(microsecond=0)

    def user(self, login: str) -> entities.User:
        with self.lock:
            for user in self.users.values():
                if user.login.lower() == login.lower():
                    return user
        raise NotThereError(f"user {login}")

    def repository(self, full_name: str, *, renamed: bool = False) -> entities.Repository:
        with self.lock:
            for repository in self.repositories.values():
                names = (repository.full_name, repository.former) if renamed else (repository.full_name,)
                if full_name.lower() in map(str.lower, names):
                    return repository
        raise NotThereError(f"repository {full_name}")

    def bare(self, repository: entities.Repository) -> Bare:
        return Bare(repository.folder)

    def issue(self, repository: str | entities.Repository, number: int) -> entities.Issue:
        home = self.repository(repository) if isinstance(repository, str) else repository
        issue = self.issues.get((home.id, number))
        if issue is None:
            raise NotThereError(f"{home.full_name}#{number}")
        return issue

    def comments_of(self, issue: entities.Issue) -> list[entities.Comment]:
        return self._on(issue, self.comments)

    def reviews_of(self, issue: entities.Issue) -> list[entities.Review]:
        return self._on(issue, self.reviews)

    def review_comments_of(self, issue: entities.Issue) -> list[entities.ReviewComment]:
        return self._on(issue, self.review_comments)

    def _on(self, issue: entities.Issue, table: Mapping[int, OnThread]) -> list[OnThread]:
        with self.lock:
            place = (issue.repository, issue.number)
            return [each for each in table.values() if (each.repository, each.number) == place]

    def reactions_to(self, subject: str) -> list[entities.Reaction]:
        with self.lock:
            return [reaction for reaction in self.reactions.values() if reaction.subject == subject]

    def role(self, repository: entities.Repository, user: int) -> entities.Role:
        if user == repository.owner:
            return entities.Role.ADMIN
        role = self.roles.get((repository.id, user), entities.Role.NONE)
        return role if repository.private or role.covers(entities.Role.READ) else entities.Role.READ

    def signature(self, user: int) -> CommitSignature:
        who = self.users[user]
        return CommitSignature(who.login, f"{who.id}+{who.login}@users.noreply.github.com", self.now())

    def remove_user(self, login: str) -> None:
        with self.lock:
            del self.users[self.user(login).id]
            self.touch()

    # --- setting up a world ------------------------------------------------------------------------------------

    def add_workflow(self, full_name: str, file: str) -> None:
        self.workflows[self.repository(full_name).id, file] = "active"

    def start_run(self, full_name: str, event: str) -> entities.WorkflowRun:
        home = self.repository(full_name)
        head = self.bare(home).refs()[f"refs/heads/{home.default_branch}"]
        run = entities.WorkflowRun(self.next_id(), home.id, event, head, self.now(), self.now())
        self.workflow_runs[run.id] = run
        return run

    def end_run(self, ident: int, conclusion: str = "success") -> None:
        run = self.workflow_runs[ident]
        self.workflow_runs[ident] = replace(run, status="completed", conclusion=conclusion, updated_at=self.now())

    def next_id(self) -> int:
        return next(self._ids)

    def small_id(self) -> int:
        return next(self._ids) - FIRST_ID + FIRST_SMALL_ID

    def person(self, login: str) -> Person:
        from bot.testing.github.person import Person

        return Person(self, self.add_user(login).id)

    def add_user(self, login: str, type: Literal["User", "Bot", "Organization"] = "User") -> entities.User:
        with self.lock:
            try:
                return self.user(login)
            except NotThereError:
                user = entities.User(ACTIONS_BOT_ID if login == ACTIONS_BOT else self.small_id(), login, type)
                self.users[user.id] = user
                return user

    def add_repository(
        self, full_name: str, files: FileContents | None = None, *, source: Path | None = None, private: bool = False
    ) -> entities.Repository:
        owner_login, _, name = full_name.partition("/")
        with self.lock:
            owner = self.add_user(owner_login)
            ident = self.small_id()
            repository = entities.Repository(
                ident, owner.id, owner.login, name, (self.folder / f"{ident}.git").absolute(), self.now(),
                private=private,
            )  # fmt: skip
            bare = self.bare(repository)
            bare.create(repository.default_branch)
            refs: dict[str, str] = {}
            if source is not None:
                bare.run("fetch", "--quiet", str(source.absolute()), "+refs/*:refs/*")
                refs = bare.refs()
            elif files is not None:
                by = self.signature(owner.id)
                branch = repository.default_branch
                commit = bare.commit(None, files, message="Initial commit\n", by=by, branch=branch)
                refs = {f"refs/heads/{branch}": commit}
            self.repositories[ident] = repository
            self.labels[ident] = {n: entities.Label(self.next_id(), n, color) for n, color in DEFAULT_LABELS.items()}
            self.seen_refs[ident] = refs
            self.touch()
            return repository

    def add_label(self, repository: entities.Repository, name: str) -> entities.Label:
        with self.lock:
            return self.labels[repository.id].setdefault(name, entities.Label(self.next_id(), name))

    def set_role(self, repository: str, login: str, role: entities.Role | str) -> None:
        with self.lock:
            self.roles[self.repository(repository).id, self.add_user(login).id] = entities.Role(role)
            self.touch()

    def settings_of(self, repository: entities.Repository) -> entities.RepositorySettings:
        return self.settings.get(repository.id, entities.RepositorySettings())

    def set_settings(self, repository: str, **changes: object) -> None:
        home = self.repository(repository)
        self.settings[home.id] = replace(self.settings_of(home), **changes)  # type: ignore[arg-type]  # the callers' duty, as below

    def change_repository(self, repository: str, **changes: object) -> entities.Repository:
        with self.lock:
            old = self.repository(repository)
            new = replace(old, **changes)  # type: ignore[arg-type]  # the fields' own types are the callers' duty
            self.repositories[old.id] = new
            self.touch()
            return new

    # --- events and listeners ----------------------------------------------------------------------------------

    def emit(self, event: entities.Event) -> None:
        self.touch()
        self.past.append((self.next_id(), self.now(), event))
        for listener in self.listeners:
            listener(event)

    def touch(self) -> None:
        self.version += 1
