"""The state of a thread: one fold over the typed entries of its journal.

`apply` takes one entry in; everything that a verb must know of the past is a field or a property of `ThreadState`, and
nothing is remembered elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeVar

from bot.core.comment import work_begun_line
from bot.core.entry import JournaledTurn
from bot.core.errors import Broken, Refused
from bot.core.gate import ON_ENTER, TRANSITIONS, WAITS_FOR_PEOPLE, Move, Stage, Thread
from bot.core.moves import Approved, Asked, Executed, Instructed, Noted, Published, Replied, Requested
from bot.core.names import CommitId, SessionId
from bot.core.notes import Heard, Note, Operated, Prepared, Shown
from bot.core.plan import Hidden, PlanDocument
from bot.core.question import Asking
from bot.core.task_history import TaskHistory
from bot.core.thread_parts import NEVER, Debt, Decision, PlannerAnswer, RequestResult, VoidedPlan, Wish
from bot.core.work import PushedWork

LEFT_BEHIND: Final = timedelta(minutes=2)
"""A reply that is owed for longer was left by a process that died."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ThreadState:
    """A thread as its journal tells it."""

    thread: Thread = Thread()
    """The state of the gate."""
    position: int = 0
    """How many entries there are, with those that are pending."""
    pending: tuple[Note, ...] = ()
    """The newest entries, which the journal does not have yet: they go with the next one that is written."""

    # --- the request
    request: Requested | None = None
    """The newest request."""
    request_position: int = 0
    """The number of its entry; 0 where there was none."""
    requested_at: datetime = NEVER
    """When it was journaled."""
    planning_ask: int = 0
    """The first ask to plan it, or to try it again: one progress comment shows all of that planning."""
    is_planned: bool = False
    """Whether that planning came to a plan."""
    asked_for: tuple[Wish, ...] = ()
    """The newest request, and what was added while it was planned."""
    earlier_wishes: tuple[Wish, ...] = ()
    """What the plans asked for which the newest request builds on."""
    planned_wishes: tuple[Wish, ...] = ()
    """What the plans of this round asked for which no work has carried out: a further request builds on them."""
    unplanned_wishes: tuple[Wish, ...] = ()
    """What was asked for since, and is in no plan yet."""
    answers: tuple[PlannerAnswer, ...] = ()
    """What people answered to planners in this round and no work has carried out, oldest first."""
    kept: tuple[Noted, ...] = ()
    """The turns that came while approved work ran and that nobody has worked on yet, oldest first."""
    untrusted: bool = False
    """Whether strangers have a say, or may have, in anything since the newest request (S9)."""
    setup: Prepared | None = None
    """What the set-up for the newest request came to, the first time; None before it ran."""
    result: RequestResult = RequestResult()
    """What the newest request has led to so far."""

    # --- what was said
    seen: frozenset[str] = frozenset()
    """The keys of all turns that were taken in or set aside."""
    asked_at: datetime = NEVER
    """When people last asked for work, added to it, or had it tried again."""
    newest_turn_at: datetime = NEVER
    """The time of the newest turn in the journal."""
    waits: str = ""
    """When the oldest turn was said (ISO 8601) that still waits to be heard; "" where none does."""
    opening_accepted: tuple[datetime, datetime] | None = None
    """When the issue's own words were journaled as accepted, and when they were said; None where they were not."""
    requests: frozenset[tuple[int, str, str]] = frozenset()
    """The author's id, the day, and the key of every turn that asked for work."""
    refusals: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """How many turns were refused, by day and author's id."""
    over_quota: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """How many requests were beyond their author's quota, by day and author's id."""
    budget_usd: float = 0.0
    """What somebody raised the budget to; 0 for nobody."""
    chosen_mode: str = ""
    """The mode that somebody chose for approved work; "" for nobody."""
    forgotten: int = 0
    """The bot's last comment that a journal which was set back does not know of; 0 for none (A4b)."""
    apart: int = 0
    """What tells the branches of such a journal from those that it does not know of; 0 for nothing (A4b)."""

    # --- the plan
    newest_plan: PlanDocument | None = None
    """The newest plan document, with its estimate; None where there is none, or none that this version can read."""
    replaced: PlanDocument | None = None
    """The plan that a new one takes the place of: the newest, unless it was carried out or its round is over."""
    plans: int = 0
    """How many plan versions this round's request has had: an approval without a digest needs exactly one."""
    rejected_by: tuple[str, ...] = ()
    """Who rejected the newest plan, as logins."""
    unproposed: tuple[int, ...] = ()
    """The asks to show a plan that no entry answers."""
    plan_comment: str = ""
    """The newest comment that is known to show a plan, whether it was journaled when shown or found when folded."""
    plan_comment_url: str = ""
    """The address of the newest comment that was journaled when a plan was shown."""
    awaits_decision: bool = False
    """Whether the plan that was journaled as shown last was never approved."""
    explained: str = ""
    """Why the newest plan waits, as it was said last; "" where nothing was said."""
    voided: VoidedPlan | None = None
    """The plan that lost its force while people could see it; None for none, or once another is shown."""
    notices: frozenset[str] = frozenset()
    """The answers to those who approved what cannot be approved."""

    # --- approval and work
    approval: Approved | None = None
    """The newest approval."""
    approvals: tuple[Approved, ...] = ()
    """The approvals of the plan in force, oldest first."""
    decision: Decision | None = None
    """The newest approval or rejection."""
    mode: str = "plan"
    """The permission mode that the thread is in (P8); every thread starts in plan mode (P2)."""
    mode_by: tuple[str, ...] = ()
    """Who brought approved work into its mode: whoever approved it, or chose another mode since (P8)."""
    granted: frozenset[tuple[str, str]] = frozenset()
    """The calls that people allowed for the plan in force: (tool, command or path)."""
    executed: bool = False
    """Whether the work of the plan in force was done once: then its pull request may be there."""
    work: Executed | None = None
    """The newest work that was done."""
    pushing: PushedWork | None = None
    """What of the work in force was about to be pushed last to a pull request's branch, and may be there."""
    operated: tuple[Operated, ...] = ()
    """The operations on issues of the plan in force that are over."""
    published: Published | None = None
    """The newest pull request of this round."""
    pull_request_url: str = ""
    """The address of the newest pull request of the thread; "" for none."""
    detail: str = ""
    """Why a request of the thread ended otherwise than asked, the last time."""
    failed_at: datetime = NEVER
    """When work failed last."""

    # --- questions
    asked: Asked | None = None
    """What people were asked last."""
    asked_on: datetime = NEVER
    """When that was journaled."""
    question: Shown | None = None
    """Where the open question is shown; None before it is."""
    question_comment: str = ""
    """The comment that the newest question is, or was, shown in."""
    replies: tuple[Replied | Instructed, ...] = ()
    """What people answered to sessions, newest first."""

    # --- the scheduled task
    task: TaskHistory | None = None
    """The task whose tracking issue the thread is, and its occurrences; None for every other thread."""

    # --- what people are owed, and what was spent
    debts: tuple[Debt, ...] = ()
    """The entries that owe the people a text which was not posted yet, oldest first."""
    queued: int = 0
    """The ask of which people were told that its session waits for a free slot; 0 for none."""
    run: str = ""
    """The run of GitHub Actions that is at this thread, or was; "" where no job said so."""
    cost_usd: float | None = None
    """What all that is journaled has cost, in dollars; None where nothing was priced."""
    session_costs: Mapping[str, float] = field(default_factory=dict)
    """What is journaled of each session's cost, in dollars; under "" what belongs to none."""

    @property
    def written(self) -> int:
        """How many of the entries the journal has."""
        return self.position - len(self.pending)

    @property
    def stage(self) -> Stage:
        """Where the thread stands."""
        return self.thread.stage

    @property
    def current_request(self) -> Requested:
        """The newest request; raises Broken where there is none."""
        return _expect(self.request, Move.REQUESTED)

    @property
    def turn(self) -> JournaledTurn:
        """The newest turn that is worked on."""
        return self.current_request.said

    @property
    def base(self) -> CommitId:
        """The commit that the newest turn is planned and worked on."""
        return self.current_request.base

    @property
    def onto(self) -> str:
        """The branch of the pull request that the newest turn adds to; "" for a branch of its own."""
        return self.current_request.onto

    @property
    def plan(self) -> PlanDocument:
        """The newest plan document.

        Raises Broken where there is none, and Refused where it is in a format that this version cannot read.
        """
        if self.newest_plan is None and self.thread.plan:
            raise Refused(
                "the journal has a plan in a format that this version cannot read",
                fix="use the version that wrote it or a newer one, or ask again for a new plan",
            )
        return _expect(self.newest_plan, Move.PLANNED)

    @property
    def current_approval(self) -> Approved:
        """The newest approval; raises Broken where there is none."""
        return _expect(self.approval, Move.APPROVED)

    @property
    def finished_work(self) -> Executed:
        """The newest work that was done; raises Broken where there is none."""
        return _expect(self.work, Move.EXECUTED)

    @property
    def current_question(self) -> Asked:
        """What people were asked last, and by which session; raises Broken where they were not."""
        return _expect(self.asked, Move.ASKED)

    @property
    def asking(self) -> Asking:
        """What people were asked last; raises Broken where they were not."""
        return self.current_question.asking

    @property
    def lost(self) -> tuple[int, ...]:
        """The asks of earlier plans that may be shown, and no entry says so: the thread moved while one was posted."""
        return tuple(ask for ask in self.unproposed if ask < self.thread.ask)

    @property
    def has_void_plan(self) -> bool:
        """Whether the thread rests while a plan that lost its force may still be shown, since no other replaced it."""
        return self.voided is not None and self.stage not in ON_ENTER

    @property
    def begun(self) -> tuple[str, ...]:
        """What stands above the newest plan since its work began, for each of its approvals, oldest first (A4b)."""
        return tuple(work_begun_line(each.by, each.approved_at) for each in self.approvals)

    @property
    def planning_session(self) -> SessionId:
        """The session that plans for the newest turn; a retry goes on in the same one."""
        self.current_request  # noqa: B018 - raises Broken where nothing was asked for
        return SessionId(f"plan-{self.request_position}")

    @property
    def work_session(self) -> SessionId:
        """The session that works on the newest turn's plan, where that is another one than planned."""
        self.current_request  # noqa: B018 - the same
        return SessionId(f"work-{self.request_position}")

    @property
    def steers(self) -> bool:
        """Whether approved work is under way or waits for people: what is said now would steer it."""
        return self.thread.approved is not None and self.thread.approved == self.thread.digest

    @property
    def waits_for_session(self) -> bool:
        """Whether people were told that the session of the open ask waits for a free slot, and nothing since."""
        return bool(self.queued) and self.queued == self.thread.ask

    @property
    def wishes(self) -> tuple[Wish, ...]:
        """All whose words are in what is planned: each plan builds on the one before, until one is carried out or its
        round is over."""
        return (*self.earlier_wishes, *self.asked_for)

    @property
    def requesters(self) -> frozenset[int]:
        """Whose words are planned for, as numeric ids: with four eyes none of them approves the plan."""
        return frozenset(who for each in self.wishes for who in (each.said.actor.id, *each.said.hands))

    @property
    def hidden(self) -> Hidden:
        """What was removed from what is planned for, and from what else of the thread was read, as nobody sees it."""
        *_, newest = (self.current_request, *self.asked_for)
        if newest.beside is not None:  # which holds what is hidden in all others
            return newest.said.hidden + newest.beside
        return sum((each.said.hidden for each in self.asked_for), start=Hidden())

    @property
    def heard_to(self) -> datetime | None:
        """The time to which all that was said was heard: the newest turn's, or that of the oldest that waits."""
        if self.waits:
            return datetime.fromisoformat(self.waits)
        return None if self.newest_turn_at == NEVER else self.newest_turn_at

    @property
    def takes_kept(self) -> bool:
        """Whether a kept turn can begin now: approved work is over, one way or another."""
        over = Move.REQUESTED in TRANSITIONS[self.stage] and self.stage not in WAITS_FOR_PEOPLE
        return over and bool(self.kept)

    @property
    def is_finished(self) -> bool:
        """Whether the round is over, the people know, and the same request would mean a new one."""
        return self.stage in {Stage.DONE, Stage.ANSWERED, Stage.REJECTED} and not self.debts

    def reply(self, session: str, call: str) -> Replied | Instructed | None:
        """Return what people answered to a session's pending call; None before they did."""
        return next((each for each in self.replies if (each.session, each.call) == (session, call)), None)

    def owed(self, at: datetime) -> tuple[Debt, ...]:
        """Return the debts that a look at that time posts: what moves owe, and replies that were left behind."""
        return tuple(debt for debt in self.debts if not isinstance(debt.event, Heard) or debt.at < at - LEFT_BEHIND)


def _expect(value: _T | None, kind: str) -> _T:
    if value is None:
        raise Broken(f"the journal has no entry that is {kind}")
    return value
