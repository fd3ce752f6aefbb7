"""A repository that is served, and the scheduled tasks that its journals track."""

from dataclasses import dataclass

from bot.core.names import RepositoryId, ThreadNumber
from bot.core.task_history import TaskHistory
from bot.github import repository
from bot.github.reach import ReachableRepository


@dataclass(frozen=True, slots=True)
class ServedRepository:
    """A repository that is served, and the App installation that reaches it (None with a plain token)."""

    installation: int | None
    listed: ReachableRepository

    @property
    def id(self) -> RepositoryId:
        """Its number on GitHub."""
        return RepositoryId(self.listed.id)

    @property
    def at(self) -> repository.Address:
        """Its address at the time of the listing."""
        return self.listed.address


@dataclass(frozen=True, slots=True)
class TrackedTask:
    """The tracking issue of a scheduled task, and what its journal knows."""

    issue: ThreadNumber
    history: TaskHistory
