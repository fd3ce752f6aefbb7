"""Runs the scheduled tasks that are due, in one repository or in all served ones (MT10)."""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby, islice
from typing import Final

from bot.config.recipes import with_recipe
from bot.core.configuration import Ask, MaintenanceTask
from bot.core.errors import Broken, Conflict, Misconfigured, PlangateError
from bot.core.gate import ON_ENTER
from bot.core.maintenance import ASKED, Occurrence, Tick
from bot.core.names import ThreadAddress, ThreadNumber
from bot.core.reply_text import (
    REMOVED,
    RUN_NOW,
    TrackingView,
    mistake_warning,
    offer_again_label,
    tracking_body,
    tracking_title,
)
from bot.core.thread.state import ThreadState
from bot.core.thread.task import TaskHistory
from bot.github.activity import RepositoryActivity, repository_activities
from bot.github.client import AT_ONCE
from bot.github.repository import Address, ReachableRepository
from bot.github.responses import RateLimited
from bot.github.tasks import IssueText, TrackingIssues
from bot.service.connections import ServedRepository
from bot.service.github_host import GitHubHost, TrackedTask
from bot.workflow.maintaining import journal_occurrence, offer_again, preview_occurrence, refuse_occurrence, track_task

# --- One pass over a repository's scheduled tasks (MT10) --------------------------------------------------------------
# A pass finds the tasks' tracking issues, runs what is due, and keeps the issues up to date. Any process may run a pass
# at any time, any number of times, because the journal of a tracking issue records what was due and what was decided. A
# pass that finds nothing due reads the configuration, the journals, and the texts of the issues.

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """The state of a task after a pass."""

    task: MaintenanceTask
    tracked: TrackedTask | None
    """None if the pass could not continue with it."""
    began: bool = False
    """Whether this pass took in an occurrence."""
    problem: str = ""
    """Why the pass could not continue with it; "" if it did."""

    @property
    def next_due(self) -> datetime | None:
        """When the task is due next; None if the next pass has work to do."""
        if self.tracked is None or self.tracked.history.open_occurrence is not None:
            return None
        return next(self.task.due_times().times_after(self.tracked.history.since), None)


@dataclass(frozen=True, slots=True)
class MaintenancePass:
    """One pass over the tasks of one repository."""

    host: GitHubHost
    repository: ServedRepository
    run_now: str = ""
    """The name of a task that runs whether it is due or not; "" for none."""
    wake: Callable[[ThreadAddress], None] | None = None
    """Makes the service check a thread. None: the pass itself checks it, which may take as long as a session."""
    only: str = ""
    """The name of the only task that runs; "" for all."""

    async def run(self) -> list[TaskStatus]:
        """Run what is due, and bring each tracking issue up to date. One task's failure does not stop the others.

        Raises Misconfigured for a `run_now` that names no task.
        """
        keys, mistake, _ = await self.host.current_configuration(self.repository)
        tasks = [self._task_to_run(keys.maintenance)] if self.run_now else keys.maintenance
        tracked = dict(await self.host.tracked_tasks(self.repository))
        issues = await self.host.tracking_issues(self.repository)
        if mistake:
            for task in tracked.values():
                await issues.warn(task.issue, mistake_warning(mistake))
            return []
        texts = await issues.read_all([task.issue for task in tracked.values()])
        configured = {task.name for task in keys.maintenance}
        await self._mark_removed([task for name, task in tracked.items() if name not in configured], issues, texts)
        statuses = list[TaskStatus]()
        for scheduled in [task for task in tasks if self.only in {"", task.name}]:
            try:
                status = await self._run_task(scheduled, keys.ask, issues, tracked, texts=texts)
            except PlangateError as error:
                status = _stopped_task(scheduled, error)
            statuses.append(status)
            if status.tracked is not None:
                tracked[scheduled.name] = status.tracked  # ticks on its issue count for the next tasks
            if status.began:
                texts = {}  # people may have ticked boxes during the session
        return statuses

    async def _mark_removed(
        self, removed: Sequence[TrackedTask], issues: TrackingIssues, texts: Mapping[ThreadNumber, IssueText]
    ) -> None:
        """Show on the issue of each task that was removed from the configuration that the task no longer runs."""
        for task in removed:
            if task.issue in texts and REMOVED not in texts[task.issue].body:
                await issues.warn(task.issue, REMOVED)

    async def preview(self) -> str:
        """Return what the task `run_now` would do now. Asks the model nothing, and changes nothing on GitHub.

        Raises Misconfigured if there is no such task, or if no pass has seen it yet.
        """
        task = self._task_to_run((await self.host.current_configuration(self.repository)).keys.maintenance)
        tracked = (await self.host.tracked_tasks(self.repository)).get(task.name)
        if tracked is None:
            raise Misconfigured(
                f"the task {task.name!r} has no tracking issue yet", where="maintenance", fix="run plangate sweep"
            )
        full = with_recipe(task, await self.host.own_recipe(self.repository, task.recipe))
        async with self.host.open_run(self.repository.thread(tracked.issue)) as run:
            await run.read()
            return await preview_occurrence(run, full)

    def _task_to_run(self, tasks: Sequence[MaintenanceTask]) -> MaintenanceTask:
        """Return the task `run_now`. Raises Misconfigured if there is none of that name."""
        requested = next((task for task in tasks if task.name == self.run_now), None)
        if requested is None:
            names = ", ".join(task.name for task in tasks) or "none"
            raise Misconfigured(f"no task {self.run_now!r}", where="maintenance", fix=f"there are: {names}")
        return requested

    async def _run_task(
        self,
        task: MaintenanceTask,
        ask: Ask,
        issues: TrackingIssues,
        every: Mapping[str, TrackedTask],
        *,
        texts: Mapping[ThreadNumber, IssueText],
    ) -> TaskStatus:
        """Run one task if it is due, and bring its tracking issue up to date.

        `every` holds all tracked tasks, and `texts` the texts of their issues when they were read.
        """
        if (tracked := every.get(task.name)) is None:
            return TaskStatus(task, await self._begin(task, issues))
        text = texts.get(tracked.issue) or await issues.read(tracked.issue)
        ticks = await self._allowed_ticks(text.ticks, ask)
        tracked = await self._offer_again(tracked, ticks)
        run_now = next((tick for tick in ticks if tick.label == RUN_NOW), None)
        occurrence = self._next_occurrence(task, tracked.history, run_now)
        if began := occurrence is not None:
            tracked = await self._run_occurrence(task, tracked, occurrence, _ticked_today(every.values(), occurrence))
        await issues.show(tracked.issue, task.name, self._body(task, tracked.history), shown=text.body)
        return TaskStatus(task, tracked, began=began)

    async def _begin(self, task: MaintenanceTask, issues: TrackingIssues) -> TrackedTask:
        """Create the tracking issue of a task that was not seen before. Its due times count from now on."""
        body = self._body(task, TaskHistory(task.name, "", self.host.clock.now()))
        number = await issues.open(task.name, tracking_title(task.name), body)
        async with self.host.open_run(self.repository.thread(number)) as run:
            await run.read()
            await track_task(run, task)
            return _tracking_issue(number, run.state)

    async def _run_occurrence(
        self, task: MaintenanceTask, tracked: TrackedTask, occurrence: Occurrence, elsewhere: Collection[str]
    ) -> TrackedTask:
        """Take in what people said on the thread, and then the occurrence. A mistake in the recipe ends the latter."""
        address = self.repository.thread(tracked.issue)
        await (self.host.check_thread(address) if self.wake is None else self.host.read_comments(address))
        async with self.host.open_run(address) as run:
            await run.read()
            try:
                full = with_recipe(task, await self.host.own_recipe(self.repository, task.recipe))
            except Misconfigured as error:
                await refuse_occurrence(run, occurrence, f"could not begin: {error}")
            else:
                await track_task(run, full)
                await journal_occurrence(run, full, occurrence, elsewhere=elsewhere)
            state = run.state
        if state.stage in ON_ENTER and self.wake is not None:
            self.wake(address)
        elif state.stage in ON_ENTER:
            state = await self.host.check_thread(address)
        return _tracking_issue(tracked.issue, state)

    async def _allowed_ticks(self, ticks: Sequence[Tick], ask: Ask) -> Sequence[Tick]:
        """Return the ticks of people who may ask."""
        roles = await self.host.roles(self.repository)
        return [tick for tick in ticks if ask.may_ask(tick.by, await roles.of(tick.by))]

    async def _offer_again(self, tracked: TrackedTask, ticks: Sequence[Tick]) -> TrackedTask:
        """Journal the rejected findings that people allow again. A tick before the rejection does not count."""
        boxes = {offer_again_label(rejection.finding): rejection for rejection in tracked.history.rejected}
        for tick in ticks:
            box = boxes.get(tick.label)
            if box is not None and tick.at > box.at:
                async with self.host.open_run(self.repository.thread(tracked.issue)) as run:
                    await run.read()
                    await offer_again(run, box.finding, tick.by.login)
                tracked = _tracking_issue(tracked.issue, run.state)
        return tracked

    def _next_occurrence(self, task: MaintenanceTask, history: TaskHistory, tick: Tick | None) -> Occurrence | None:
        """Return the occurrence to take in now: an open one, one that was asked for, or one that is due; else None."""
        if (unfinished := history.open_occurrence) is not None:
            return Occurrence(task.name, unfinished.due, unfinished.missed, asked=unfinished.key.startswith(ASKED))
        now, newest = self.host.clock.now(), history.newest_key
        if self.run_now == task.name:
            return Occurrence(task.name, now, asked=True, follows=newest)
        if tick is not None:
            occurrence = Occurrence(task.name, tick.at, asked=True, by=tick.by, follows=newest)
            if history.occurrence(occurrence.key) is None:
                return occurrence
        due = task.due_times().due(history.since, now)
        return Occurrence(task.name, due.at, due.missed, follows=newest) if due is not None else None

    def _body(self, task: MaintenanceTask, history: TaskHistory) -> str:
        """Return the text of the task's tracking issue."""
        after = max(self.host.clock.now(), history.since)
        rejected = [rejection.finding for rejection in history.rejected]
        due, words = next_due(task, after)[0], task.due_times().words()
        return tracking_body(TrackingView(task, words, due, history.occurrences[::-1], rejected))


LISTED_TIMES: Final = 5
"""Number of due times of a task that people are shown."""


def next_due(task: MaintenanceTask, after: datetime, count: int = 1) -> list[datetime]:
    """Return the next due times of a task after a moment, in its time zone."""
    schedule = task.due_times()
    return [time.astimezone(schedule.zone) for time in islice(schedule.times_after(after), count)]


def _stopped_task(task: MaintenanceTask, error: PlangateError) -> TaskStatus:
    """Return the status of a task that cannot go on, and log why."""
    if isinstance(error, Conflict):
        _log.info("another process runs the scheduled task %s", task.name)
        return TaskStatus(task, None, problem="another process runs it")
    _log.warning("the scheduled task %s cannot go on: %s", task.name, error)
    return TaskStatus(task, None, problem=str(error))


def _ticked_today(tracked: Iterable[TrackedTask], occurrence: Occurrence) -> set[str]:
    """Return the other requests that the same person made by ticks on that day (UTC), each as ``issue/key``."""
    if occurrence.by is None:
        return set()
    occurrences = [(task.issue, row) for task in tracked for row in task.history.occurrences]
    own = [(issue, row) for issue, row in occurrences if row.by_id == occurrence.by.id and row.key != occurrence.key]
    return {f"{issue}/{row.key}" for issue, row in own if row.due.date() == occurrence.due.date()}


def _tracking_issue(number: ThreadNumber, state: ThreadState) -> TrackedTask:
    if state.task is None:
        raise Broken(f"the journal of the tracking issue #{number} names no task")
    return TrackedTask(number, state.task)


# --- Repeated passes over all served repositories (MT10) --------------------------------------------------------------
# Only repositories in which a task may have something to do are read.
# Rules
# - A repository rests after a pass until GitHub lists a newer push or a newer change of an issue, or its next due time.
# - Repositories are listed every ROUND. A round in between reads only those in which a task has become due.
# - A repository with a change less than SETTLED ago does not rest: it may change again within the same second.
# - The memory of this only saves requests. It holds for at most LONGEST_REST, and a new process begins without it.

SETTLED: Final = timedelta(minutes=1)
ROUND: Final = timedelta(minutes=5)
LONGEST_REST: Final = timedelta(hours=3)


@dataclass(frozen=True, slots=True)
class _Rest:
    """The state of a repository when a pass over it began, and until when the repository may rest."""

    shown: ServedRepository
    newest: datetime | None
    """When an issue changed last."""
    has_tasks: bool
    began: datetime
    until: datetime

    def holds(self, served: ServedRepository, now: datetime) -> bool:
        """Return whether nothing was pushed since, and no due time has come. A clock that was set back ends a rest."""
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
        """Run a pass over each of these repositories that does not rest. All belong to one installation."""
        try:
            moved = await self._newest_changes(batch)
        except RateLimited as error:  # the points that are left in this hour are for other work
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
    """The host of a service. The check of a tracking issue takes in a box that somebody ticked there."""

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


# --- Periodic work in all repositories --------------------------------------------------------------------------------
# Deliveries do not report all red required checks of the bot's pull requests (MT9): a check of the base names no pull
# request, and a check that a job's own token started sends no webhook. Reading them takes at most two requests for each
# of the newest pull requests, and none if the bot made none.


async def run_periodic_work(host: GitHubHost, *, only: str | None = None) -> None:
    """Run the scheduled tasks that are due, then read red checks, in all repositories or in one (OWNER/REPO)."""
    await run_due_tasks(host, only=only)
    await check_red_pulls(host, only=only)


async def run_due_tasks(host: GitHubHost, *, only: str | None = None) -> None:
    """Run what is due in all served repositories, or in one (OWNER/REPO)."""
    await _visit_repositories(host, "scheduled tasks", lambda served: MaintenancePass(host, served).run(), only)


async def check_red_pulls(
    host: GitHubHost, wake: Callable[[ThreadAddress], None] | None = None, *, only: str | None = None
) -> None:
    """Check each open pull request of the bot on which red checks lead to something.

    With `wake`, it only wakes them, and the worker checks them.
    """

    async def check_pulls(served: ServedRepository) -> None:
        for address in await host.pulls_to_check(served):
            if wake is None:
                await host.check_thread(address)
            else:
                wake(address)

    await _visit_repositories(host, "red checks", check_pulls, only)


async def _visit_repositories(
    host: GitHubHost, what: str, visit: Callable[[ServedRepository], Awaitable[object]], only: str | None
) -> None:
    """Visit all served repositories, or one (OWNER/REPO). One repository's failure does not stop the others."""
    for served in await host.served_repositories():
        if only is not None and served.at.full_name.casefold() != only.casefold():
            continue
        try:
            await visit(served)
        except PlangateError as error:
            _log.warning("%s of %s: %s", what, served.at.full_name, error)
