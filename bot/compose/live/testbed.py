"""What the bot expects of GitHub where only a live repository can prove it, and the repository of the experiments."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from bot.clock import SystemClock
from bot.core.errors import Misconfigured, PlangateError
from bot.github.live_repository import LiveRepository
from bot.github.repository import RepositoryProfile, rulesets
from bot.github.responses import Missing, Unprocessable
from bot.ports import Clock
from bot.workspace import run
from bot.workspace.remote import RemoteRepository

# --- Expectations that only a live repository can prove ---------------------------------------------------------------
# Nothing else in the tree states these expectations. `plangate doctor --live` compares GitHub with the rows, and
# tests/compose/live compares the simulated GitHub with them.

REFS: Final = "branch refused, ref pushed, fetched, late push refused"
WORDS: Final = "comment minimized, reply made"
SWITCHED: Final = "disabled_manually, then active"
_DOCS: Final = "https://docs.github.com/en"
_BRANCHES: Final = f"{_DOCS}/repositories/configuring-branches-and-merges-in-your-repository"
_RULES: Final = f"{_BRANCHES}/managing-rulesets/about-rulesets#branch-and-tag-rulesets"
_WORDING: Final = (
    f"{_DOCS}/graphql/reference/mutations#minimizecomment",
    f"{_DOCS}/rest/pulls/comments#create-a-reply-for-a-review-comment",
)
_SWITCHING: Final = (f"{_DOCS}/rest/actions/workflows#disable-a-workflow",)
_DEPLOYING: Final = (
    f"{_DOCS}/actions/how-tos/deploy/configure-and-manage-deployments/control-deployments"
    "#using-environments-without-deployments"
)


@dataclass(frozen=True, slots=True)
class Expectation:
    """One row: a question, the expected answers, the consequence of any other answer, and GitHub's own pages."""

    key: str
    experiment: int
    question: str
    expected: tuple[str, ...]
    consequence: str
    sources: tuple[str, ...]
    """The addresses of GitHub's pages about it, if there are any."""


EXPECTATIONS: Final = (
    Expectation(
        "refs",
        1,
        "this token pushes and fetches refs/plangate while a ruleset protects every branch",
        (REFS,),
        "the bot cannot keep its state: let it bypass the ruleset. A late push that is accepted breaks the lock",
        (_RULES,),
    ),
    Expectation(
        "refs of a job",
        1,
        "the token of a job does the same",
        (REFS,),
        "the Action cannot keep its state: give it a token of its own, or let Actions bypass the ruleset",
        (_RULES,),
    ),
    Expectation(
        "tick",
        2,
        "who edited a comment after somebody else ticked its box, and what the edits hold",
        ("edited by the person, newest edit first, with the whole text",),
        "a ticked box cannot be told from other edits: approve by a comment or by a reaction",
        (
            f"{_DOCS}/graphql/reference/objects#usercontentedit",
            f"{_DOCS}/communities/moderating-comments-and-conversations/tracking-changes-in-a-comment",
        ),
    ),
    Expectation(
        "identity",
        3,
        "who the token of a job is",
        ("41898282 github-actions[bot] Bot",),
        "the bot does not know its own comments in the Action: report the id (bot/service/connections.py, JOB_ID)",
        ("https://github.com/actions/checkout#push-a-commit-using-the-built-in-token",),
    ),
    Expectation(
        "words",
        4,
        "this token hides a comment, and replies in a review",
        (WORDS,),
        "superseded plans stay visible, or questions in reviews stay without a reply",
        _WORDING,
    ),
    Expectation(
        "words of a job",
        4,
        "the token of a job does the same",
        (WORDS,),
        "superseded plans stay visible in the Action, or questions in reviews stay without a reply",
        _WORDING,
    ),
    Expectation(
        "schedule",
        5,
        "the sender in the payload of a scheduled run",
        ("none", "User"),
        "conditions on the sender must not reach schedules; the shipped ones do not",
        (f"{_DOCS}/actions/reference/workflows-and-actions/events-that-trigger-workflows#schedule",),
    ),
    Expectation(
        "review",
        6,
        "how many runs a review with three comments starts",
        ("1",),
        "a review costs as many jobs as runs: docs/api-cost.md counts one",
        (f"{_DOCS}/webhooks/webhook-events-and-payloads#pull_request_review",),
    ),
    Expectation(
        "switch",
        7,
        "this token disables and enables a workflow",
        (SWITCHED,),
        "the scheduled check cannot be switched: it stays as it is, and costs minutes while nothing waits",
        _SWITCHING,
    ),
    Expectation(
        "switch of a job",
        7,
        "the token of a job does the same",
        (SWITCHED,),
        "the scheduled check cannot be switched by the Action: it stays as it is",
        _SWITCHING,
    ),
    Expectation(
        "secret",
        8,
        "a job reads the secret of an environment without making a deployment",
        ("read, 0 deployments",),
        "run plangate init --secret repository where it is not read; each job makes a deployment where it is not 0",
        (_DEPLOYING,),
    ),
    Expectation(
        "pushes",
        9,
        "twenty pushes to refs/plangate within a minute",
        ("20 of 20 accepted",),
        "GitHub slows pushes down: save work less often",
        (f"{_DOCS}/repositories/creating-and-managing-repositories/repository-limits#activity",),
    ),
)


# --- The repository of the experiments --------------------------------------------------------------------------------
# The removal of something is registered before it is created, and finds it by its name, so that Ctrl-C leaves nothing
# behind. Requests are sent one at a time, so a request under way ends before the removal begins. What cannot be removed
# is named. A repository that somebody uses, or that a killed run left as it was, is refused before anything is written.

COMMITS: Final = 10
"""A repository with this many commits on its default branch counts as in use."""
NAME: Final = "plangate-live"
"""Name, or beginning of the name, of everything that the experiments create."""
PULL: Final = f"{NAME}: a pull request"
REF: Final = "refs/plangate/live"
"""The ref that is pushed, or the beginning of its name."""
_AUTHOR: Final = ("-c", "user.name=plangate-live", "-c", "user.email=live@localhost")

T = TypeVar("T")


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
    folder: Path
    """An empty folder for a clone."""
    issue: int = 0
    branch_head: str = ""
    """The default branch's commit before the experiments."""
    _undo: list[tuple[str, Callable[[], Awaitable[object]]]] = field(default_factory=list)

    async def require_disposable(self) -> None:
        """Raise Misconfigured unless the repository is disposable. Writes nothing."""
        profile, repository = self.profile, self.repository
        self._refuse(
            (not profile.may_administer, "this token does not administer it"),
            (profile.archived, "it is archived"),
            (profile.stars > 0, f"it has {profile.stars} stars"),
            (profile.forks > 0 or profile.is_fork, "it has forks, or is one"),
            (not profile.has_issues, "it has no issues"),
        )
        try:
            commits = await repository.commit_count(COMMITS)
        except (Missing, Unprocessable):
            commits = 0
        rules = await rulesets(repository.client, repository.at)
        self._refuse(
            (commits == 0, "it has no commit yet"),
            (commits >= COMMITS, f"{COMMITS} commits or more"),
            (await repository.open_thread_count() > 0, "open issues or pull requests"),
            (bool(await repository.refs("plangate/")), "the bot's state is there"),
            (any(rule.target == "branch" for rule in rules), "rules for branches are there"),
        )

    def _refuse(self, *reasons: tuple[bool, str]) -> None:
        for is_so, reason in reasons:
            if is_so:
                what, where = f"not a disposable repository: {reason}", self.repository.at.full_name
                raise Misconfigured(what, where=where, fix="name a new repository that holds nothing but a README")

    async def open(self) -> None:
        """Open the issue of the experiments, store the head of the default branch, and make the clone."""
        await self.git("init", "-q", check=True)
        self.branch_head = await self.default_head()
        self.undo_with(f"the issue {NAME}", lambda: self.repository.close_threads(NAME))
        self.issue = await self.repository.open_issue(NAME, "Experiments of plangate doctor --live.")

    async def default_head(self) -> str:
        branch = self.profile.default_branch
        return (await self.repository.refs(f"heads/{branch}"))[f"refs/heads/{branch}"]

    def undo_with(self, what: str, undo: Callable[[], Awaitable[object]]) -> None:
        """Register how to remove something that is about to be made. The cleanup runs newest first."""
        self._undo.append((what, undo))

    async def clean(self, experiment: Callable[[], Awaitable[T]]) -> T:
        """Return the result of an experiment, after removing everything that it created.

        Reports at once what could not be removed. Cancelling this also removes what the experiment created.
        """
        mark = len(self._undo)
        try:
            return await experiment()
        finally:
            await asyncio.shield(self._undo_since(mark))

    async def _undo_since(self, mark: int) -> None:
        while len(self._undo) > mark:
            what, undo = self._undo.pop()
            try:
                await undo()
            except Missing:
                continue
            except PlangateError as error:
                self.console.tell(f"could not be removed: {what} ({error.what})")

    async def git(self, *arguments: str, check: bool = False) -> bool:
        """Run git in the clone, with the token. Return whether it succeeded."""
        settings = self.remote.settings()
        answer = await run.git(self.folder, *_AUTHOR, *arguments, settings=settings, check=check)
        return answer.code == 0

    async def push(self, *refspecs: str, lease: str = "") -> bool:
        """Push from the clone. `lease` names a ref that must not exist. Return whether GitHub accepted it."""
        options = (f"--force-with-lease={lease}:",) if lease else ()
        return await self.git("push", "-q", *options, self.remote.url, *refspecs)

    async def wait(self, seconds: float, probe: Callable[[], Awaitable[str | None]], what: str) -> str:
        """Return what `probe` finds within `seconds`. Raises NotRun if it finds nothing, or if the person skips it."""
        clock = self.console.clock
        until = clock.monotonic() + seconds
        while (answer := await probe()) is None:
            if self.console.is_skipped():
                raise NotRun(f"skipped: {what}")
            if clock.monotonic() >= until:
                raise NotRun(f"not seen within {seconds:.0f} seconds: {what}")
            await clock.sleep(5.0)
        return answer
