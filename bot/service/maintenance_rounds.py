"""Runs due tasks in all served repositories again and again, and reads only those that may have something to do (MT10).

Rules
- A repository rests after a pass until GitHub lists a newer push or a newer change of an issue, or its next due time.
- Repositories are listed every ROUND. A round in between reads only those in which a task has become due.
- A repository with a change less than SETTLED ago does not rest: it may change again within the same second.
- The memory of this only saves requests. It holds for at most LONGEST_REST, and a new process begins without it.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby, islice
from typing import Final

from bot.core.errors import PlangateError
from bot.core.names import ThreadAddress, ThreadNumber
from bot.core.thread.state import ThreadState
from bot.github.activity import RepositoryActivity, repository_activities
from bot.github.client import AT_ONCE
from bot.github.errors import RateLimited
from bot.github.reach import ReachableRepository
from bot.github.repository import Address
from bot.service.connections import ServedRepository
from bot.service.github_host import GitHubHost
from bot.service.maintenance_pass import MaintenancePass, TaskStatus

SETTLED: Final = timedelta(minutes=1)
ROUND: Final = timedelta(minutes=5)
LONGEST_REST: Final = timedelta(hours=3)
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Rest:
    """What GitHub showed of a repository when a pass over it began, and how long it may rest."""

    shown: ServedRepository
    newest: datetime | None
    """When an issue changed last."""
    has_tasks: bool
    began: datetime
    until: datetime

    def holds(self, served: ServedRepository, now: datetime) -> bool:
        """Return whether nothing was pushed since, and no due time has come. A clock that was set back ends it."""
        return self.shown == served and self.began <= now < self.until


@dataclass(slots=True)
class MaintenanceRounds:
    """The rounds of one service. Resting repositories are not read: a thousand of them cost 30 requests a round."""

    host: GitHubHost
    _resting: dict[int, _Rest] = field(default_factory=dict)
    _due: dict[int, dict[str, datetime | None]] = field(default_factory=dict)
    """When each task is due next, by repository, as of the newest pass over it."""
    _listed: datetime | None = None
    """When the repositories were listed."""

    def next_due(self, repository: int, task: str) -> datetime | None:
        """Return when a task of a repository is due next; None if no pass of this process has read its schedule."""
        return self._due.get(repository, {}).get(task)

    async def run(self, wake: Callable[[ThreadAddress], None]) -> None:
        """Take in what is due in all served repositories. The checks that `wake` starts run the sessions.

        One repository's failure does not stop the others.
        """
        served, now = self._due_repositories(), self.host.clock.now()
        if self._listed is None or not timedelta() <= now - self._listed < ROUND:
            served = await self.host.served_repositories()
            self._resting = {at.id: rest for at in served if (rest := self._resting.get(at.id)) is not None}
            self._listed = now
        for _, of_one in groupby(served, key=lambda repository: repository.installation):
            for batch in _batches(of_one):
                await self._run_batch([repository for repository in batch if not self._has_no_tasks(repository)], wake)

    def _due_repositories(self) -> tuple[ServedRepository, ...]:
        """Return the repositories in which a task has become due since the pass over them."""
        now, resting = self.host.clock.now(), self._resting.values()
        return tuple(rest.shown for rest in resting if rest.has_tasks and not rest.holds(rest.shown, now))

    def _has_no_tasks(self, served: ServedRepository) -> bool:
        """Return whether a repository is known to have no tasks, so that changes of its issues do not matter."""
        rest = self._resting.get(served.id)
        return rest is not None and not rest.has_tasks and rest.holds(served, self.host.clock.now())

    async def _run_batch(self, batch: Sequence[ServedRepository], wake: Callable[[ThreadAddress], None]) -> None:
        """Run a pass over each of these repositories, of one installation, that does not rest."""
        try:
            moved = await self._newest_changes(batch)
        except RateLimited as error:  # the rest of the hour's points belongs to the work
            _log.warning("scheduled tasks wait: %s", error)
            return
        for served in batch:
            rest, newest = self._resting.pop(served.id, None), moved.get(served.id)
            now = self.host.clock.now()
            if rest is None or newest is None or newest.issues != rest.newest or not rest.holds(served, now):
                rest = await self._run_pass(served, newest, wake)
            if rest is not None:
                self._resting[served.id] = rest

    async def _newest_changes(self, batch: Sequence[ServedRepository]) -> Mapping[int, RepositoryActivity]:
        """Return when issues changed last, by one query; nothing if GitHub cannot say. Raises RateLimited."""
        if not batch:
            return {}
        try:
            poller = self.host.connections.poller(batch[0].installation)
            return {
                activity.id: activity
                for activity in await repository_activities(poller, [repository.listed.node for repository in batch])
            }
        except RateLimited:
            raise
        except PlangateError as error:
            _log.warning("what changed cannot be read: %s", error)
            return {}

    async def _run_pass(
        self, served: ServedRepository, newest: RepositoryActivity | None, wake: Callable[[ThreadAddress], None]
    ) -> _Rest | None:
        """Run a pass over a repository, and return its rest; None if the next round must read it again."""
        began = self.host.clock.now()
        try:
            statuses = await MaintenancePass(self.host, served, wake=wake).run()
        except PlangateError as error:
            _log.warning("scheduled tasks of %s: %s", served.at.full_name, error)
            return None
        self._due[served.id] = {status.task.name: status.next_due for status in statuses}
        until = _next_due(statuses, began + LONGEST_REST)
        changes = [served.listed.pushed, newest.issues if newest is not None and statuses else None]
        settled = all(at is None or began - at > SETTLED for at in changes)
        if until is None or not settled or (statuses and newest is None):
            return None
        return _Rest(served, newest.issues if newest is not None else None, bool(statuses), began, until)


def _next_due(statuses: Sequence[TaskStatus], latest: datetime) -> datetime | None:
    """Return when the first task is due, at most `latest`; None if one has something to do at the next round."""
    times = [status.next_due for status in statuses]
    return None if None in times else min([latest, *(time for time in times if time is not None)])


def _batches(repositories: Iterator[ServedRepository]) -> Iterator[list[ServedRepository]]:
    """Yield the repositories in batches of the size that one query takes."""
    while batch := list(islice(repositories, AT_ONCE)):
        yield batch


class ServiceHost(GitHubHost):
    """The host of a service. A box that somebody ticks on a tracking issue is taken in by the check of that issue."""

    async def check_thread(
        self, address: ThreadAddress, begin_session: Callable[[], bool] = lambda: True
    ) -> ThreadState:
        """Check a thread; if it is a tracking issue with a ticked box, take that in and check again."""
        state = await GitHubHost.check_thread(self, address, begin_session)
        if state.task is None:
            return state
        listed = ReachableRepository(address.repository, "", Address.of_thread(address))
        served = ServedRepository(address.installation, listed)
        issues = await self.tracking_issues(served)
        if not (await issues.read(ThreadNumber(address.number))).ticks:
            return state
        await MaintenancePass(self, served, wake=lambda _: None, only=state.task.task).run()
        return await GitHubHost.check_thread(self, address, begin_session)
