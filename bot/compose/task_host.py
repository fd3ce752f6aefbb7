"""What a pass over scheduled tasks needs from its host: `GitHubHost` on GitHub, and a host in memory in tests."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from bot.compose.thread_contexts import CurrentConfiguration
from bot.core.actor import Actor, Role
from bot.core.names import ThreadAddress, ThreadNumber
from bot.core.task_history import TaskHistory
from bot.core.thread_state import ThreadState
from bot.github.tracking import IssueText
from bot.ports import Clock
from bot.service.connections import ServedRepository
from bot.workflow.thread_context import ThreadContext


@dataclass(frozen=True, slots=True)
class TrackedTask:
    """The tracking issue of a scheduled task, and what its journal knows."""

    issue: ThreadNumber
    history: TaskHistory


class TaskIssues(Protocol):
    """The tracking issues of one repository (bot/github/tracking.py)."""

    async def open(self, task: str, title: str, body: str) -> ThreadNumber:
        """Return the number of a task's issue. Creates it unless it exists."""

    async def read(self, number: ThreadNumber) -> IssueText:
        """Return what an issue shows now, with the ticks of people."""

    async def read_all(self, numbers: Sequence[ThreadNumber]) -> dict[ThreadNumber, IssueText]:
        """Return what issues show now, by one request; those that are gone are left out."""

    async def show(self, number: ThreadNumber, task: str, body: str, *, shown: str) -> None:
        """Set an issue's text, unless `shown`, its text when it was read, is the same."""

    async def warn(self, number: ThreadNumber, warning: str) -> None:
        """Show above an issue's text why its task does not run, unless it does so already. "" removes the warning."""


class RoleLookup(Protocol):
    """The roles of people on one repository."""

    async def of(self, actor: Actor) -> Role | None:
        """Return an account's role, or None if it cannot be looked up."""


class TaskHost(Protocol):
    """Everything that a pass over the tasks of a repository may use."""

    @property
    def clock(self) -> Clock:
        """The clock of this process."""

    async def current_configuration(self, served: ServedRepository) -> CurrentConfiguration:
        """Return the configuration on a repository's default branch now. One with a mistake has no tasks."""

    async def tracked_tasks(self, served: ServedRepository) -> dict[str, TrackedTask]:
        """Return the tasks that a journal of the repository tracks."""

    async def tracking_issues(self, served: ServedRepository) -> TaskIssues:
        """Return access to the tracking issues of a repository."""

    async def roles(self, served: ServedRepository) -> RoleLookup:
        """Return the roles of people on a repository, as they are now."""

    async def own_recipe(self, served: ServedRepository, name: str | None) -> dict[str, str]:
        """Return the project's own recipe of that name, if there is one: name -> text."""

    def thread_context(self, address: ThreadAddress) -> AbstractAsyncContextManager[ThreadContext]:
        """Return the context of one thread."""

    async def look(self, address: ThreadAddress) -> ThreadState:
        """Carry a thread on until it rests."""

    async def listen(self, address: ThreadAddress) -> ThreadState:
        """Only read what people said."""
