"""The run of a thread: what a verb may use, the state that it reads, and how it writes to the journal."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from bot.agent.permissions.tool_gate import Mode
from bot.agent.prompts import Environment
from bot.agent.resources import SessionResources
from bot.agent.session_events import AgentEvent
from bot.core import comment, moves
from bot.core.approval import Policy
from bot.core.codec import encode
from bot.core.configuration import Configuration
from bot.core.errors import Conflict
from bot.core.gate import ANSWERS, AT_WORK, PLAN_MAY_BE_SHOWN, TRANSITIONS, Event, Move, Stage, step
from bot.core.moves import Drifted, Entry, Failed, Limited, ModeChange
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.notes import Note, OccurrenceDue, OccurrenceEnded, OtherTurn, Taken, TextPosted
from bot.core.secrets.redaction import Redactor
from bot.core.thread.state import ThreadState, apply_pending, fold_entries
from bot.core.turn import Turn
from bot.core.work import ThreadLocation
from bot.ports import CheckAccess, Clock, Dialogue, Journal, Pulls, Receipts, RepositoryRules, TaskAccess, Workspace

# --- The journal of one thread, and its fence

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


@dataclass(slots=True)
class ThreadJournal:
    """The journal of one thread as one check reads and writes it, and the fence of that check (E4).

    A check that begins to work on a thread journals that first (`ThreadRun.take_over`). Everything that creates a
    comment, a review, or a reply, and every push, calls `raise_if_moved` just before. So if two processes work on one
    thread, only the one that took it over last posts.
    """

    port: Journal
    repository: RepositoryId
    thread: ThreadNumber
    states: StateCache
    held: ThreadState | None = None
    """The state after this check's newest entry; None until this check has taken the thread over."""
    own: set[int] = field(default_factory=set)
    """The numbers of the entries that this check wrote. Only their replies are its own to post."""

    async def read(self) -> ThreadState:
        """Read the journal, and return the thread's state."""
        return self.fold(await self.port.read(self.thread))

    def fold(self, entries: Sequence[Entry]) -> ThreadState:
        """Return the state that the thread's stored entries lead to. Each is folded once in a process."""
        return self.states.fold(self.repository, self.thread, entries)

    async def append(self, state: ThreadState, new: Sequence[moves.MoveEvent | Note]) -> ThreadState:
        """Append the pending notes of `state` and `new` at its position, and return the state after them.

        Raises Conflict if the journal is elsewhere. A write on top of another process's takeover leaves the fence shut.
        """
        entries = [(str(entry.kind), encode(entry)) for entry in (*state.pending, *new)]
        await self.port.append(self.thread, state.written, entries)
        self.own.update(range(state.written + 1, state.written + 1 + len(entries)))
        written = self.fold(await self.port.cached_entries(self.thread))
        if self.held is not None and state.work.run == self.held.work.run:
            self.held = written
        return written

    async def raise_if_moved(self) -> None:
        """Raise Conflict if another process moved the thread or took it over since this check's newest entry."""
        if self.held is not None and await self.has_moved(self.held):
            raise self._taken_over_error()

    async def check_run(self) -> None:
        """Raise Conflict if another process took the thread over since that entry, or somebody set the journal back.

        What a reader of comments journaled meanwhile, such as a stop, does not matter.
        """
        if self.held is None:
            return
        later = await self.read()
        if later.written < self.held.written or later.work.run != self.held.work.run:
            raise self._taken_over_error()

    async def has_moved(self, state: ThreadState) -> bool:
        """Return whether another process moved the thread or took it over since this process read `state`.

        Also return True if somebody set the journal back (A4b).
        """
        later = await self.read()
        return later.written < state.written or later.has_moved_since(state)

    def _taken_over_error(self) -> Conflict:
        return Conflict("another job works on this thread", where=f"#{self.thread}", fix="try again")


# --- The run


async def do_nothing() -> None:
    """Do nothing: the machine needs no preparation, and no step has to wait."""


@dataclass(frozen=True, slots=True)
class WorkControl:
    """What the process that runs a check decides about its work. By default, nothing has to wait."""

    begin_session: Callable[[], bool] = lambda: True
    """Called before each session. Returns False if no slot is free: then the check ends, and a later one begins it."""
    before_work: Callable[[], Awaitable[None]] = do_nothing
    """Called before each step that needs a sandbox, to prepare the machine for one. Never raises."""
    before_step: Callable[[], Awaitable[None]] = do_nothing
    """Called before each step of a session. Raises Transient if another process is to continue the session."""


@dataclass(frozen=True, slots=True)
class WorkConditions:
    """What the work on a thread depends on besides its configuration."""

    refusal: str = ""
    """Why no work may run here, such as a mistake in the configuration; "" if it may."""
    configuration_blob: str = ""
    """Git blob id of the configuration file in force; "" for the defaults."""
    watch_seconds: float = 5.0
    """While work runs, seconds between two checks whether the thread moved (a stop, a further turn); 0 for none."""
    progress_seconds: float = 20.0
    """Seconds of planning before its progress is shown, and between two updates."""
    workflows: bool = True
    """Whether changed workflows of GitHub Actions could be published from here."""
    workflows_wait: bool = False
    """Whether GitHub starts workflows on the bot's pull requests only after a person approves that."""
    run: str = ""
    """The id of the run of GitHub Actions that does the work, or the name that this process made up; "" where nobody
    else can work on the thread, as at a terminal."""
    version: str = ""
    """Plangate's version, as receipts state it."""


_OF_PLANNING: Final = frozenset({Move.PLANNED, Move.ANSWERED})


@dataclass(slots=True)
class ThreadRun:
    """One run of the engine on one thread: the one object that every verb gets.

    `state` is the thread as this run has read or written it last. Only the methods below replace it.

    Positions. Every write names the position of `state`, and fails with Conflict if others have appended since. A note,
    and the answer to an effect that is still open, then read on and try again at the end; any other move raises
    Conflict. Nothing is written to a journal that became shorter: somebody set it back, and it must not catch up (A4b).

    Deferred notes. Each write is a push. A note that can be looked up elsewhere, such as that a comment was posted, may
    be deferred: it is written with the next entry, before work that takes long, and at the end of a check. If the
    process dies before that, the next one looks the fact up, so nothing is done twice (E1).

    Several writers. A run belongs to one coroutine at a time. A verb compares `state` with the journal to find out that
    its thread was moved, such as by a stop. If a second writer replaced `state` while the verb waits, the verb could
    continue past that stop. So whatever writes while a verb goes on, such as the recorder of a session's network
    decisions or its budget, gets a run of its own by `beside`. Those runs share the journal and its fence, and each has
    its own `state`: the journal puts their entries in order, as it does for processes. A reader of comments
    (`engine.read_comments`) is made from its own parts, and shares nothing but the cache of states.
    """

    location: ThreadLocation
    journal: ThreadJournal
    dialogue: Dialogue
    workspace: Workspace
    resources: SessionResources
    environment: Callable[[CommitId], Awaitable[Environment]]
    """Describes the job for a session that begins, with the project memory of that commit."""
    pulls: Pulls = field(default_factory=Pulls)
    receipts: Receipts = field(default_factory=Receipts)
    tasks: TaskAccess = field(default_factory=TaskAccess)
    checks: CheckAccess = field(default_factory=CheckAccess)
    rules: RepositoryRules = field(default_factory=RepositoryRules)
    configuration: Configuration = Configuration()
    conditions: WorkConditions = WorkConditions()
    policy: Policy = Policy()
    listener: Callable[[AgentEvent], None] = lambda _: None
    redactor: Redactor = field(default_factory=Redactor)
    control: WorkControl = WorkControl()
    state: ThreadState = ThreadState()
    unknown_roles: tuple[str, ...] = ()
    """Logins of the people whose role could not be looked up at the last reading, so that their turns wait."""

    @property
    def clock(self) -> Clock:
        """The clock of the process."""
        return self.resources.clock

    @property
    def working_mode(self) -> Mode:
        """The mode in which approved work runs: chosen on the thread, else as configured."""
        return Mode(self.state.approval.chosen_mode or self.configuration.execution.mode)

    def beside(self) -> "ThreadRun":
        """Return a run for a second writer, which begins at this state."""
        return replace(self)

    async def read(self) -> None:
        """Read the journal. Deferred notes are dropped."""
        self.state = await self.journal.read()

    async def append(self, event: moves.MoveEvent) -> None:
        """Journal one move.

        An answer to an effect still counts if other entries came meanwhile, such as a noted turn, as long as its ask is
        open. A plan or an answer is dropped if people added to the request meanwhile: `state` then lacks it. Raises
        Conflict if another process moved the thread, IllegalEvent if the gate has no such move.
        """
        ask = self.state.gate.ask if event.kind in ANSWERS else None
        is_heard = isinstance(event, moves.Noted)  # a reader of comments notes turns, and does not work on the thread
        event = replace(event, ask=ask, run="" if is_heard else self.conditions.run)
        while True:
            before = self.state
            after, _ = step(before.gate, Event(event.kind, ask, event.digest))
            try:
                return await self._write(self._with_mode_change(after.stage, event))
            except Conflict:
                later = await self._read_on()
                if ask is None or later.gate != before.gate or later.written <= before.written:
                    raise
            self.state = later
            if event.kind in _OF_PLANNING and len(later.request.entries) > len(before.request.entries):
                return None  # the planner may not know what was added: it plans again

    async def restart(self, request: moves.Requested) -> None:
        """Journal a request at any stage of the thread. If the stage allows none, the same write stops it first.

        Raises Conflict if another process moved the thread.
        """
        gate = self.state.gate
        stops = [] if request.kind in TRANSITIONS[gate.stage] else [moves.Stopped()]
        stopped, _ = step(gate, Event(Move.STOPPED)) if stops else (gate, None)
        after, _ = step(stopped, Event(request.kind))
        await self._write(*stops, self._with_mode_change(after.stage, replace(request, run=self.conditions.run)))

    async def take_over(self) -> None:
        """Journal that this run works on the thread, unless it did so last. Raises Conflict if the thread moved.

        From then on, the fence keeps this check from posting if another process takes the thread over.
        """
        if self.conditions.run not in {"", self.state.work.run}:
            await self._write(Taken(run=self.conditions.run))
        self.journal.held = self.state

    async def has_moved(self) -> bool:
        """Return whether another process moved the thread, or took it over, since `state`."""
        return await self.journal.has_moved(self.state)

    async def note(self, *notes: Note) -> None:
        """Append notes at the journal's current end, all at once, except for those that it holds already."""
        self.defer(*notes)
        await self.flush()

    async def note_at_position(self, event: Note) -> None:
        """Append a note only at the position of `state`. Raises Conflict if another process appended anything since."""
        await self._write(event)

    def defer(self, *notes: Note) -> None:
        """Leave notes to the next write, without those that the journal holds.

        Call `flush` before the text of a note is posted: no comment may be ahead of the journal (A4b).
        """
        self.state = _with_pending(self.state, notes, self.clock.now())

    async def flush(self) -> None:
        """Append the deferred notes at the journal's current end, except for those that it holds already."""
        while self.state.pending:
            try:
                await self._write()
            except Conflict:
                later = await self._read_on()
                if later.written <= self.state.written:
                    raise
                self.state = later

    async def _write(self, *new: moves.MoveEvent | Note) -> None:
        """Append the deferred notes, and then the given entries."""
        self.state = await self.journal.append(self.state, new)

    async def _read_on(self) -> ThreadState:
        """Read the thread again. Deferred notes stay so, except for those that the journal holds by now."""
        return _with_pending(await self.journal.read(), self.state.pending, self.clock.now())

    def _with_mode_change(self, stage: Stage, event: moves.MoveEvent) -> moves.MoveEvent:
        """Return the move. If the mode changes with it, add the new mode and who caused the change (P2, P8)."""
        if stage is Stage.PLANNING or stage in PLAN_MAY_BE_SHOWN:
            mode = Mode.PLAN
        elif stage in AT_WORK:
            mode = self.working_mode
        else:
            return event  # nothing runs at rest, so the mode stays
        approval = self.state.approval
        if mode == approval.mode:
            return event
        goes_on = Mode.PLAN not in {mode, approval.mode}  # work goes on in another mode than it began in
        by = approval.mode_by if goes_on else _people(event)
        return replace(event, mode_change=ModeChange(approval.mode, str(mode), by))

    # who may say what (docs/commands.md); `intake.may_command` has the rules for commands

    def may_ask(self, turn: Turn) -> bool:
        """Return whether the turn's author may ask for work."""
        return self.configuration.ask.may_ask(turn.actor, turn.role)

    def may_approve(self, turn: Turn) -> bool:
        """Return whether the turn's author may decide about plans. The verdict says whether an opinion counts."""
        return self.policy.may_decide(turn.actor, turn.role, listed=turn.listed)

    # the moves that end work, with what people can say next

    def failure_move(self, detail: str) -> Failed:
        """Return the move that ends work as failed, and tells people why."""
        return Failed(detail=detail, text_to_post=self.outcome_text(Stage.FAILED, detail))

    def limit_move(self, detail: str) -> Limited:
        """Return the move that ends work at a limit, and tells people which."""
        return Limited(detail=detail, text_to_post=self.outcome_text(Stage.LIMIT, detail))

    def drift_move(self, detail: str, pull_request: int = 0) -> Drifted:
        """Return the move that ends a plan as stale, and tells people why.

        `pull_request` is the number of one that was made from the plan already; 0 for none.
        """
        return Drifted(detail=detail, branch_suffix=pull_request, text_to_post=self.outcome_text(Stage.STALE, detail))

    def outcome_text(self, stage: Stage, detail: str) -> str:
        """Return how a request ended, with what people can say next."""
        return comment.outcome(stage, detail=detail, mention=self.configuration.mention)


def _with_pending(state: ThreadState, notes: Sequence[Note], now: datetime) -> ThreadState:
    """Return the state with new notes pending, without those that the journal holds."""
    for note in notes:
        state = state if _is_journaled(state, note) else apply_pending(state, note, now)
    return state


def _people(event: moves.MoveEvent) -> tuple[str, ...]:
    """Return the logins of the people who caused a move; none if the work itself did."""
    match event:
        case moves.Approved() | moves.PlanEnd() | moves.Stopped() | moves.Replied() | moves.Instructed() if event.by:
            return event.by
        case moves.Replied() | moves.Instructed() if event.login:
            return (event.login,)
        case moves.Requested() | moves.Noted() | moves.Stopped() | moves.Retried() | moves.Resumed() if (
            event.said is not None
        ):
            return (event.said.actor.login,)
        case _:
            return ()


def _is_journaled(state: ThreadState, new: Note) -> bool:
    """Return whether the journal already holds this turn, posted text, occurrence, or end of an occurrence."""
    match new:
        case OtherTurn():
            return new.said.key in state.turns.seen
        case TextPosted():
            return all(unposted.n != new.answers for unposted in state.turns.unposted_texts)
        case OccurrenceDue():
            return state.task is not None and state.task.outcome_of(new.key) is not None
        case OccurrenceEnded():
            return state.task is not None and bool(state.task.outcome_of(new.key))
        case _:
            return False
