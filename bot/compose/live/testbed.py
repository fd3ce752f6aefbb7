"""The repository of the live experiments, and the removal of everything that they create in it.

Rules
- The removal of something is registered before it is created, and finds it by its name, so that Ctrl-C leaves nothing
  behind. Requests are sent one at a time, so a request under way ends before the removal begins.
- What a killed run left behind is found by its name (experiments.py), and does not make a repository count as in use.
- What cannot be removed is named. GitHub keeps closed issues and pull requests, and the runs of workflows.
- A repository that somebody uses is refused before anything is written.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bot.clock import SystemClock
from bot.core.errors import Misconfigured, PlangateError
from bot.github import repository_settings
from bot.github.errors import Missing, Unprocessable
from bot.github.live_repository import MESSAGE, LiveRepository
from bot.github.repository_settings import RepositoryProfile
from bot.ports import Clock
from bot.workspace import run
from bot.workspace.remote import RemoteRepository

COMMITS: Final = 10
"""Number of commits on the default branch with which a repository counts as in use."""
NAME: Final = "plangate-live"
"""Name of everything that the experiments create, or its beginning."""
PULL: Final = f"{NAME}: a pull request"
REF: Final = "refs/plangate/live"
"""The ref that is pushed, or the beginning of its name."""
_EMPTY: Final = "name a new repository that holds nothing but a README"
_AUTHOR: Final = ("-c", "user.name=plangate-live", "-c", "user.email=live@localhost")


class NotRun(PlangateError):
    """An experiment that cannot run here; `what` is the reason."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds to wait: for a runner, for a person, and for GitHub's clock to start a scheduled run."""

    runner: float = 300.0
    person: float = 600.0
    schedule: float = 1_800.0


@dataclass(frozen=True, slots=True)
class Console:
    """How the experiments speak with the person who runs them, and how long they wait."""

    tell: Callable[[str], None]
    """Shows a line to the person."""
    confirms: Callable[[str], bool]
    """Returns whether the person wants the experiments in the repository of that name."""
    is_skipped: Callable[[], bool] = lambda: False
    """Returns whether the person no longer wants to wait."""
    patience: Patience = Patience()
    clock: Clock = field(default_factory=SystemClock)


@dataclass(slots=True)
class Testbed:
    """One repository, and everything that the experiments share."""

    repository: LiveRepository
    remote: RemoteRepository
    profile: RepositoryProfile
    console: Console
    issue: int = 0
    branch_head: str = ""
    """The default branch's commit before the experiments."""
    _undo: list[tuple[str, Callable[[], Awaitable[object]]]] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)
    _folder: Path | None = None

    async def require_disposable(self) -> None:
        """Raise Misconfigured unless the repository is disposable. Writes nothing."""
        profile, where = self.profile, self.repository.at.full_name
        reasons = [
            (not profile.may_administer, "this token does not administer it"),
            (profile.archived, "it is archived"),
            (profile.stars > 0, f"it has {profile.stars} stars"),
            (profile.forks > 0 or profile.is_fork, "it has forks, or is one"),
            (not profile.has_issues, "it has no issues"),
        ]
        for bad, reason in reasons:
            if bad:
                raise Misconfigured(f"not a disposable repository: {reason}", where=where, fix=_EMPTY)
        try:
            commits = await self.repository.commits(COMMITS)
        except (Missing, Unprocessable):
            raise Misconfigured("it has no commit yet", where=where, fix="add a README") from None
        if len(commits) >= COMMITS:
            raise Misconfigured(f"not a disposable repository: {COMMITS} commits or more", where=where, fix=_EMPTY)
        is_own = [message == MESSAGE for _, message in commits]
        if is_own != sorted(is_own, reverse=True):
            what = "not a disposable repository: commits of others after those of an earlier run"
            raise Misconfigured(what, where=where, fix=_EMPTY)
        if await self.repository.open_titles() - {NAME, PULL}:
            raise Misconfigured("not a disposable repository: open issues or pull requests", where=where, fix=_EMPTY)
        if refs := sorted(ref for ref in await self.repository.refs("plangate/") if not ref.startswith(REF)):
            what = f"the bot's state is there already ({', '.join(refs[:3])})"
            raise Misconfigured(what, where=where, fix=_EMPTY)
        rules = await repository_settings.rulesets(self.repository.client, self.repository.at)
        if any(rule.target == "branch" and rule.name != NAME for rule in rules):
            raise Misconfigured("rules for branches are there already", where=where, fix="remove them")

    async def open(self) -> None:
        """Open the issue of the experiments, and store the head of the default branch."""
        heads = await self.repository.refs(f"heads/{self.profile.default_branch}")
        self.branch_head = heads[f"refs/heads/{self.profile.default_branch}"]
        self.undo_with(f"the issue {NAME}", lambda: self.repository.close_threads(NAME))
        self.issue = await self.repository.open_issue(NAME, "Experiments of plangate doctor --live.")

    def undo_with(self, what: str, undo: Callable[[], Awaitable[object]]) -> None:
        """Register how to remove something that is about to be made. The newest is removed first."""
        self._undo.append((what, undo))

    async def undo_since(self, mark: int) -> list[str]:
        """Remove what was made after a mark, newest first. Return what could not be removed, with the reason."""
        failures: list[str] = []
        while len(self._undo) > mark:
            what, undo = self._undo.pop()
            try:
                await undo()
            except Missing:
                continue
            except PlangateError as error:
                failures.append(f"{what} ({error.what})")
        return failures

    @property
    def mark(self) -> int:
        """A mark for `undo_since`: what was made until now stays."""
        return len(self._undo)

    async def close(self) -> list[str]:
        """Remove everything. Return what could not be removed."""
        try:
            return await self.undo_since(0)
        finally:
            self._stack.close()

    async def git(self, *arguments: str, check: bool = False) -> bool:
        """Run git in a repository of its own, with the token. Return whether it succeeded."""
        if self._folder is None:
            self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
            await run.git(self._folder, "init", "-q")
        settings = self.remote.settings()
        answer = await run.git(self._folder, *_AUTHOR, *arguments, settings=settings, check=check)
        return answer.code == 0

    async def push(self, *refspecs: str, lease: str = "") -> bool:
        """Push from that repository. `lease` names a ref that must not exist. Return whether GitHub accepted it."""
        options = (f"--force-with-lease={lease}:",) if lease else ()
        return await self.git("push", "-q", *options, self.remote.url, *refspecs)

    async def wait(self, seconds: float, look: Callable[[], Awaitable[str | None]], what: str) -> str:
        """Return what `look` finds, within a time limit. Raises NotRun after it, or if the person skips it."""
        clock = self.console.clock
        until = clock.monotonic() + seconds
        while (answer := await look()) is None:
            if self.console.is_skipped():
                raise NotRun(f"skipped: {what}")
            if clock.monotonic() >= until:
                raise NotRun(f"not seen within {seconds:.0f} seconds: {what}")
            await clock.sleep(5.0)
        return answer


async def run_and_clean(testbed: Testbed, experiment: Callable[[], Awaitable[str]]) -> str:
    """Return the result of an experiment, after removing what it created. Reports at once what could not be removed."""
    mark = testbed.mark
    try:
        return await experiment()
    finally:
        for failure in await asyncio.shield(testbed.undo_since(mark)):
            testbed.console.tell(f"could not be removed: {failure}")
