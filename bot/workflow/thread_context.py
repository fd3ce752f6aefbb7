"""What every verb gets: the thread's location, the ports, and the settings; and who may say what."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from bot.agent.limits import Limits
from bot.agent.permissions.tool_gate import Mode
from bot.agent.prompts import Environment
from bot.agent.resources import SessionResources
from bot.agent.session_events import AgentEvent
from bot.agent.subagents.types import SubagentSettings
from bot.core import comment
from bot.core.approval import Policy
from bot.core.checks import PublishingFacts
from bot.core.errors import Conflict
from bot.core.gate import Stage
from bot.core.maintenance import ScheduledTask
from bot.core.moves import Drifted, Entry, Failed, Limited
from bot.core.names import CommitId, RepositoryId, SessionId, ThreadNumber
from bot.core.paths import Further
from bot.core.secrets.redaction import Redactor
from bot.core.thread.state import ThreadState, fold_entries
from bot.core.turn import Askers, Role, Turn, Verb
from bot.core.work import ThreadLocation
from bot.ports import CheckAccess, Dialogue, Journal, Pulls, Receipts, TaskAccess, Workspace

# --- Caches the state of each thread, so that a process folds each entry only once, however often it reads it --------

THREADS: Final = 1_000
"""Number of cached threads: those that were read last. Any other journal is folded from its start."""


@dataclass(slots=True)
class StateCache:
    """The newest state of each thread that this process has folded. It is never older than the journal that is read."""

    _states: dict[tuple[RepositoryId, ThreadNumber], tuple[str, ThreadState]] = field(default_factory=dict)
    """The state, and the chain hash of the last entry in it."""

    def fold(self, repository: RepositoryId, thread: ThreadNumber, entries: Sequence[Entry]) -> ThreadState:
        """Return the state after all entries of a thread's journal. Raises as `core.thread.state.apply` does.

        An entry's hash covers all entries before it, so a journal that was set back is folded from its start.
        """
        last, state = self._states.pop((repository, thread), ("", ThreadState()))
        continues = 0 < state.position <= len(entries) and entries[state.position - 1].chain_hash == last
        state = fold_entries(entries[state.position :], state) if last and continues else fold_entries(entries)
        if entries:
            self._states[repository, thread] = entries[-1].chain_hash, state
        while len(self._states) > THREADS:
            del self._states[next(iter(self._states))]
        return state


# --- The fence of one check: it posts and pushes nothing once another process works on the thread (E4) ---------------
# A process that begins to work on a thread journals that first (`writing.take_over`). Everything that creates a
# comment,
# a review, or a reply, and every push, calls `check` just before. So if two jobs work on one thread, only the one that
# took it over last posts.


@dataclass(slots=True)
class Fence:
    """Compares the thread's state after this check's newest entry with the state in the journal now."""

    journal: Journal
    repository: RepositoryId
    thread: ThreadNumber
    states: StateCache
    written: ThreadState | None = None
    """The state after this check's newest entry; None until this check has taken the thread over."""

    async def check(self) -> None:
        """Raise Conflict if another process moved the thread or took it over since then."""
        if self.written is not None and await self.has_moved(self.written):
            raise _taken_over_error(self.thread)

    async def check_run(self) -> None:
        """Raise Conflict if another process took the thread over since then, or if somebody set the journal back.

        What a reader of comments journaled meanwhile, such as a stop, does not matter.
        """
        if self.written is None:
            return
        later = await self._read()
        if later.written < self.written.written or later.work.run != self.written.work.run:
            raise _taken_over_error(self.thread)

    async def has_moved(self, state: ThreadState) -> bool:
        """Return whether another process moved the thread or took it over since this process read `state`.

        Also return True if somebody set the journal back (A4b).
        """
        later = await self._read()
        return later.written < state.written or later.has_moved_since(state)

    async def _read(self) -> ThreadState:
        return self.states.fold(self.repository, self.thread, await self.journal.read(self.thread))


def _taken_over_error(thread: ThreadNumber) -> Conflict:
    return Conflict("another job works on this thread", where=f"#{thread}", fix="try again")


# --- What every verb gets: the thread's location, the ports, and the settings. `bot/compose` makes it ----------------


async def never_changed() -> bool:
    """Return False: without a configuration file, the rules never change."""
    return False


async def do_nothing() -> None:
    """Do nothing: the machine needs no preparation, and no step has to wait."""


async def no_agent_types() -> Mapping[str, str]:
    """Return nothing: the project has no sub-agent types of its own."""
    return {}


async def no_task(name: str) -> ScheduledTask | None:  # noqa: ARG001 - as for every reader of tasks
    """Return None: the default branch has no scheduled tasks."""
    return None


async def nothing_hinders(branch: str) -> PublishingFacts:  # noqa: ARG001 - as for every reader
    """Return no facts: a branch of a local repository needs nobody's leave."""
    return PublishingFacts()


def separate_session(state: ThreadState) -> SessionId:
    """Return a separate session for approved work, so that only the approved document passes from planning to it."""
    return state.request.work_session


def planning_session(state: ThreadState) -> SessionId:
    """Return the planning session, for work that was approved by the person who watched the planning."""
    return state.request.planning_session


@dataclass(frozen=True, slots=True)
class WorkSettings:
    """The settings that shape the work (docs/settings.md)."""

    model: str = "claude-opus-5-5"
    light_model: str = ""
    """The model for light calls; "" for none."""
    limits: Limits = Limits()
    budget_usd: float = 5.0
    """Budget of one session in US dollars."""
    thread_usd: float = 10.0
    """Budget of a thread, over all its sessions."""
    day_usd: float | None = None
    """Budget of a repository on one day (UTC), over all its threads; None for no such budget."""
    expires_days: float = 7.0
    mode: Mode = Mode.ACCEPT_EDITS
    subagents: SubagentSettings = SubagentSettings()
    verify: tuple[str, ...] = ()
    """Commands that verify approved work, beside those of its plan."""
    repairs: int = 2
    """How often failing checks go back to the session; 0 for never (K4)."""
    setup: tuple[str, ...] = ()
    """Commands that make a checkout ready for approved work."""
    hosts: tuple[str, ...] = ()
    """The hosts that approved work may reach where its plan names them too (N1a)."""
    classes: Further = ()
    """Further globs of path classes."""
    command_minutes: float = 10.0
    askers: Askers = Askers()
    ask_per_day: int = 0
    """Most requests of one person in a repository on one day (UTC); 0 for no quota."""
    mention: str = "@plangate"
    """How people address the bot; "" at a terminal, where a thread takes no commands."""
    draft: bool = False
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] | None = None
    """Logins of the reviewers of pull requests; None for the people who approved the plan."""
    fix_checks: bool = False
    """Whether red required checks of the bot's own pull requests become turns (MT9)."""
    refusal: str = ""
    """Why no work may run here, such as a mistake in the configuration; "" if it may."""
    watch_seconds: float = 5.0
    """Seconds between two checks of running work whether the thread has moved (a stop, a further turn)."""
    progress_seconds: float = 20.0
    """Seconds of planning before its progress is shown, and between two updates."""
    workflows: bool = True
    """Whether changed workflows of GitHub Actions could be published from here."""
    workflows_wait: bool = False
    """Whether GitHub starts workflows on the bot's pull requests only after a person approves that."""
    run: str = ""
    """The id of the run of GitHub Actions that does the work, or the name that this process made up; "" where nobody
    else can work on the thread, as at a terminal."""
    configuration: str = ""
    """Git blob id of the configuration file in force; "" for the defaults."""
    version: str = ""
    """Plangate's version, as receipts state it."""
    tasks: Mapping[str, ScheduledTask] = field(default_factory=dict)
    """The scheduled tasks of the configuration by name, without the prompts and checks of their recipes."""

    def for_task(self, name: str) -> "WorkSettings":
        """Return the settings for the work of a scheduled task: its own budget, and its labels beside the others."""
        task = self.tasks.get(name)
        if task is None:
            return self
        budget = self.budget_usd if task.budget_usd is None else task.budget_usd
        return replace(self, budget_usd=budget, labels=tuple(dict.fromkeys((*self.labels, *task.labels))))


@dataclass(slots=True)
class ThreadCheck:
    """Mutable facts of one check of a thread."""

    unknown_roles: tuple[str, ...] = ()
    """Logins of the people whose role could not be looked up at the last reading, so that their turns wait."""
    written: set[int] = field(default_factory=set)
    """The numbers of the journal entries that this check wrote. Only their replies are its own to post."""


@dataclass(frozen=True, slots=True)
class ThreadContext:
    """Everything a verb may use for one thread."""

    location: ThreadLocation
    environment: Callable[[CommitId], Awaitable[Environment]]
    """Describes the job for a session that begins, with the project memory of that commit."""
    journal: Journal
    dialogue: Dialogue
    workspace: Workspace
    resources: SessionResources
    fence: Fence
    """Called before anything is posted or pushed (E4)."""
    pulls: Pulls
    receipts: Receipts
    tasks: TaskAccess
    checks: CheckAccess
    settings: WorkSettings = WorkSettings()
    policy: Policy = Policy()
    listener: Callable[[AgentEvent], None] = lambda _: None
    redactor: Redactor = field(default_factory=Redactor)
    agents: Callable[[], Awaitable[Mapping[str, str]]] = no_agent_types
    """Reads the project's own types of sub-agents, on the default branch: path -> text."""
    work_session: Callable[[ThreadState], SessionId] = separate_session
    """Chooses the session that carries approved work out."""
    read_task: Callable[[str], Awaitable[ScheduledTask | None]] = no_task
    """Reads a scheduled task, with what its recipe adds, as the default branch has it now; None if it has none."""
    have_rules_changed: Callable[[], Awaitable[bool]] = never_changed
    """Returns whether the default branch's configuration now lets other people approve, or has a mistake."""
    publishing_facts: Callable[[str], Awaitable[PublishingFacts]] = nothing_hinders
    """Reads what decides whether work can be published on a branch (CL1). Never raises."""
    begin_session: Callable[[], bool] = lambda: True
    """Called before each session. Returns False if no slot is free: then the check ends, and a later one begins it."""
    before_work: Callable[[], Awaitable[None]] = do_nothing
    """Called before each step that needs a sandbox, to prepare the machine for one. Never raises."""
    before_step: Callable[[], Awaitable[None]] = do_nothing
    """Called before each step of a session. Raises Transient if another process is to continue the session."""
    states: StateCache = field(default_factory=StateCache)
    """The states of journals that this process has read, in this check or an earlier one."""
    thread_check: ThreadCheck = field(default_factory=ThreadCheck)

    def outcome_text(self, stage: Stage, detail: str) -> str:
        """Return how a request ended, with what people can say next."""
        return comment.outcome(stage, detail=detail, mention=self.settings.mention)

    def failure_move(self, detail: str) -> Failed:
        """Return the move that ends work as failed, and tells people why."""
        return Failed(detail=detail, owes=self.outcome_text(Stage.FAILED, detail))

    def limit_move(self, detail: str) -> Limited:
        """Return the move that ends work at a limit, and tells people which."""
        return Limited(detail=detail, owes=self.outcome_text(Stage.LIMIT, detail))

    def drift_move(self, detail: str, pull_request: int = 0) -> Drifted:
        """Return the move that ends a plan as stale, and tells people why.

        `pull_request` is the number of one that was made from the plan already; 0 for none.
        """
        return Drifted(detail=detail, apart=pull_request, owes=self.outcome_text(Stage.STALE, detail))


def working_mode(context: ThreadContext, state: ThreadState) -> Mode:
    """Return the mode in which approved work runs: chosen on the thread, else as configured."""
    return Mode(state.approval.chosen_mode or context.settings.mode)


# --- Who may say what on a thread, by their role, and how often (docs/commands.md) -----------------------------------
# Some commands do not need the right to ask: people who may approve can approve, and people can stop what they asked
# for.


def may_ask(context: ThreadContext, turn: Turn) -> bool:
    """Return whether the turn's author may ask for work."""
    return context.settings.askers.may_ask(turn.actor, turn.role)


def may_approve(context: ThreadContext, turn: Turn) -> bool:
    """Return whether the turn's author may decide about plans. The verdict says whether an opinion counts."""
    return context.policy.may_decide(turn.actor, turn.role, listed=turn.listed)


def may_act(context: ThreadContext, state: ThreadState, turn: Turn) -> bool:
    """Return whether the turn's author may say anything here. Called before the text is read."""
    return any(may_command(context, state, turn, verb) for verb in (Verb.REVISE, Verb.APPROVE, Verb.STOP))


def may_command(context: ThreadContext, state: ThreadState, turn: Turn, verb: Verb) -> bool:
    """Return whether the turn's author may give this command."""
    match verb:
        case Verb.APPROVE | Verb.REJECT | Verb.BUDGET | Verb.MODE:
            return may_approve(context, turn)
        case Verb.STOP | Verb.FINISH | Verb.RETRY:
            return (turn.role or Role.NONE) >= Role.WRITE or turn.actor.id in _requesters(state)
        case Verb.REVISE | Verb.STATUS | Verb.HELP:
            return may_ask(context, turn)


def _requesters(state: ThreadState) -> frozenset[int]:
    """Return the ids of the people who made the newest request or added to it."""
    return frozenset(entry.said.actor.id for entry in state.request.entries)


async def is_over_quota(
    context: ThreadContext, state: ThreadState, turn: Turn, *, elsewhere: Collection[str] = ()
) -> bool:
    """Return whether the turn's author has already used up the requests of one person and day.

    `elsewhere` lists requests on other threads that were not made by comments, each as ``thread/key``.
    """
    limit = context.settings.ask_per_day
    if not limit:
        return False
    here = {*elsewhere, *(f"{context.location.thread}/{key}" for key in _asked_here(state, turn))}
    return len(here) >= limit or len(here | set(await context.dialogue.asked_before(turn))) >= limit


def _asked_here(state: ThreadState, turn: Turn) -> set[str]:
    """Return the keys of the author's other requests on that day, including those of deleted comments."""
    today = turn.actor.id, f"{turn.at:%Y-%m-%d}"
    return {key for *day, key in state.heard.requests if tuple(day) == today and key != turn.key}
