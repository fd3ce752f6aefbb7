"""The state of a thread: everything that a verb of `bot/workflow` must know of the thread's past.

An *ask* is the number of an effect that a move asks for (glossary).

`core.thread_fold` computes it from the journal's entries, and `core.move_fold` has the part of that for moves. Each
fact is a field or a property of `ThreadState`; nothing is remembered elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeVar

from bot.core.comment import work_begun_line
from bot.core.consumption import Consumption
from bot.core.entry import JournaledTurn
from bot.core.errors import Broken, Refused
from bot.core.gate import ON_ENTER, TRANSITIONS, WAITS_FOR_PEOPLE, Move, Stage, Thread
from bot.core.moves import Approved, Asked, Executed, Instructed, Noted, Published, Replied, Requested
from bot.core.names import CommitId, SessionId
from bot.core.notes import Heard, Note, Operated, Prepared, Shown
from bot.core.plan import Hidden, PlanDocument
from bot.core.question import Asking
from bot.core.task_history import TaskHistory
from bot.core.thread_parts import (
    NEVER,
    PlanDecision,
    PlannerAnswer,
    RequestEntry,
    RequestResult,
    UnpostedText,
    VoidedPlan,
)
from bot.core.work import PushedWork

LEFT_BEHIND: Final = timedelta(minutes=2)
"""After this time, a reply that nobody posted counts as left behind by a process that died."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ThreadState:
    """A thread as its journal records it."""

    thread: Thread = Thread()
    """The state of the gate."""
    position: int = 0
    """Number of entries, including those in `pending`."""
    pending: tuple[Note, ...] = ()
    """The newest entries that are not in the journal yet. The next write appends them first."""

    # --- the request
    request: Requested | None = None
    """The newest request."""
    request_position: int = 0
    """The number of the newest request's entry; 0 if there was no request."""
    requested_at: datetime = NEVER
    """When the newest request was journaled."""
    planning_ask: int = 0
    """The ask of the newest request or retry. One progress comment shows all planning from there on."""
    is_planned: bool = False
    """Whether the planning since then has produced a plan."""
    newest_request_entries: tuple[RequestEntry, ...] = ()
    """The newest request, and what people added while it was planned."""
    earlier_request_entries: tuple[RequestEntry, ...] = ()
    """The requests of the earlier plans that the newest request builds on."""
    planned_request_entries: tuple[RequestEntry, ...] = ()
    """The requests that are in a plan of this round and were not carried out. A further request builds on them."""
    unplanned_request_entries: tuple[RequestEntry, ...] = ()
    """The requests that are in no plan yet."""
    answers: tuple[PlannerAnswer, ...] = ()
    """The answers to planners' questions in this round that belong to no finished work, oldest first."""
    kept_turns: tuple[Noted, ...] = ()
    """Turns that arrived while approved work ran and that no request has begun with yet, oldest first."""
    untrusted: bool = False
    """Whether strangers' words may be part of anything since the newest request (S9)."""
    setup: Prepared | None = None
    """The result of the first set-up for the newest request; None before it ran."""
    result: RequestResult = RequestResult()
    """The results of the newest request so far."""

    # --- what was said
    seen: frozenset[str] = frozenset()
    """The keys of all turns that were taken in or set aside."""
    last_request_at: datetime = NEVER
    """When somebody last asked for work, added to a request, or asked for a retry."""
    newest_turn_at: datetime = NEVER
    """The time of the newest turn in the journal."""
    waiting_since: str = ""
    """The time (ISO 8601) of the oldest turn that waits because its author's role is unknown; "" if none waits."""
    opening_accepted: tuple[datetime, datetime] | None = None
    """When the issue's own text was accepted: the time of its entry, and the time of the text. None if it was not."""
    requests: frozenset[tuple[int, str, str]] = frozenset()
    """One (author's id, day, key) for every turn that asked for work."""
    refusals: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Number of refused turns by day and author's id."""
    over_quota: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Number of requests beyond the author's quota, by day and author's id."""
    answered: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Number of turns that were answered, or that resumed or retried, without a request, by day and author's id."""
    budget_usd: float = 0.0
    """The budget that the newest `budget` command set; 0 for none."""
    chosen_mode: str = ""
    """The mode that the newest `mode` command set for approved work; "" for none."""
    finishing_ask: int = 0
    """The ask whose work the newest `finish` command finishes early, as far as it is done; 0 for none."""
    forgotten_comment: int = 0
    """If the journal was set back: the number of the bot's newest comment that it no longer records; else 0 (A4b)."""
    branch_suffix: int = 0
    """A suffix of new branch names, so that they differ from branches that such a journal forgot; 0 for none (A4b)."""

    # --- the plan
    newest_plan: PlanDocument | None = None
    """The newest plan document, with its estimate; None if there is none or this version cannot read it."""
    plan_to_replace: PlanDocument | None = None
    """The plan that the next plan replaces: the newest one; None once its work was done or its round ended."""
    plans: int = 0
    """Number of plan versions in this round. An approval without a digest counts only if there is exactly one."""
    rejected_by: tuple[str, ...] = ()
    """Logins of the people who rejected the newest plan."""
    unproposed_asks: tuple[int, ...] = ()
    """The asks whose plan was to be shown, without an entry that says it was."""
    plan_comment: str = ""
    """The newest comment known to show a plan: journaled when it was posted, or found when it was folded."""
    plan_comment_url: str = ""
    """URL of the newest plan comment that was journaled when it was posted."""
    awaits_decision: bool = False
    """Whether the plan that was shown last was never approved."""
    posted_explanation: str = ""
    """The newest posted explanation of why the plan waits; "" for none."""
    voided: VoidedPlan | None = None
    """The visible plan that is no longer valid; None if there is none, or once another plan is shown."""
    posted_notices: frozenset[str] = frozenset()
    """The texts already posted to people who approved a plan that cannot be approved."""

    # --- approval and work
    approval: Approved | None = None
    """The newest approval."""
    approvals: tuple[Approved, ...] = ()
    """The approvals of the plan in force, oldest first."""
    decision: PlanDecision | None = None
    """The newest approval or rejection."""
    mode: str = "plan"
    """The permission mode that the thread is in (P8); every thread starts in plan mode (P2)."""
    mode_by: tuple[str, ...] = ()
    """Logins of the people who set the mode of approved work: its approvers, or who chose another mode since (P8)."""
    granted: frozenset[tuple[str, str]] = frozenset()
    """The calls that people permitted for the plan in force: (tool, command or path)."""
    has_finished_work: bool = False
    """Whether the work of the plan in force was finished once, so that its pull request may exist."""
    work: Executed | None = None
    """The newest finished work."""
    pushing: PushedWork | None = None
    """The commit that was about to be pushed to a pull request's branch for the plan in force. It may be there."""
    finished_operations: tuple[Operated, ...] = ()
    """The finished operations on issues of the plan in force, in the order of the plan."""
    published: Published | None = None
    """The newest pull request of this round."""
    pull_request_url: str = ""
    """URL of the thread's newest pull request; "" for none."""
    failed_at: datetime = NEVER
    """When work last failed."""

    # --- questions
    newest_question: Asked | None = None
    """The newest question to people."""
    question_asked_at: datetime = NEVER
    """When it was journaled."""
    shown_question: Shown | None = None
    """Where the open question is shown; None before it is shown."""
    question_comment: str = ""
    """The comment that shows or showed the newest question."""
    replies: tuple[Replied | Instructed, ...] = ()
    """The answers of people to sessions, newest first."""

    # --- the scheduled task
    task: TaskHistory | None = None
    """The scheduled task and its occurrences, if the thread is a task's tracking issue; else None."""

    # --- texts to post, and costs
    unposted_texts: tuple[UnpostedText, ...] = ()
    """The entries whose text was not posted yet, oldest first."""
    queued_ask: int = 0
    """The ask for which the thread shows that its session waits for a free slot; 0 for none."""
    run: str = ""
    """Who last journaled that they work on the thread: the id of a run of GitHub Actions, or the name that a process
    made up; "" if nobody did."""
    cost_usd: float | None = None
    """The journaled cost of the thread in US dollars; None if no cost was journaled."""
    session_costs: Mapping[str, float] = field(default_factory=dict)
    """The journaled cost by session, in US dollars; under "" the cost that belongs to no session."""
    session_tokens: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The journaled tokens by session: of prompts, and of answers."""

    @property
    def written(self) -> int:
        """Number of entries that are in the journal, which is the position that the next append expects."""
        return self.position - len(self.pending)

    @property
    def stage(self) -> Stage:
        """Where the thread stands."""
        return self.thread.stage

    @property
    def current_request(self) -> Requested:
        """The newest request. Raises Broken if there is none."""
        return _expect(self.request, Move.REQUESTED)

    @property
    def turn(self) -> JournaledTurn:
        """The turn of the newest request."""
        return self.current_request.said

    @property
    def base(self) -> CommitId:
        """The commit on which the newest request is planned and carried out."""
        return self.current_request.base

    @property
    def onto(self) -> str:
        """The branch of the pull request that the newest request adds to; "" if its work gets a branch of its own."""
        return self.current_request.onto

    @property
    def plan(self) -> PlanDocument:
        """The newest plan document.

        Raises Broken if there is none, and Refused if this version cannot read its format.
        """
        if self.newest_plan is None and self.thread.plan:
            raise Refused(
                "the journal has a plan in a format that this version cannot read",
                fix="use the version that wrote it or a newer one, or ask again for a new plan",
            )
        return _expect(self.newest_plan, Move.PLANNED)

    @property
    def current_approval(self) -> Approved:
        """The newest approval. Raises Broken if there is none."""
        return _expect(self.approval, Move.APPROVED)

    @property
    def finished_work(self) -> Executed:
        """The newest finished work. Raises Broken if there is none."""
        return _expect(self.work, Move.EXECUTED)

    @property
    def current_question(self) -> Asked:
        """The newest question to people, and the session that asks it. Raises Broken if there is none."""
        return _expect(self.newest_question, Move.ASKED)

    @property
    def asking(self) -> Asking:
        """The text and choices of the newest question to people. Raises Broken if there is none."""
        return self.current_question.asking

    @property
    def unconfirmed_asks(self) -> tuple[int, ...]:
        """The asks of earlier plans whose comment may exist although no entry records it.

        The thread moved while such a comment was being posted.
        """
        return tuple(ask for ask in self.unproposed_asks if ask < self.thread.ask)

    @property
    def has_void_plan(self) -> bool:
        """Whether no effect is due, and the thread may still show a plan that is not valid any more and was not
        replaced."""
        return self.voided is not None and self.stage not in ON_ENTER

    @property
    def work_begun_lines(self) -> tuple[str, ...]:
        """The lines above the newest plan that say that its work began: one per approval, oldest first (A4b)."""
        return tuple(work_begun_line(approval.by, approval.approved_at) for approval in self.approvals)

    @property
    def planning_session(self) -> SessionId:
        """The session that plans for the newest request. A retry continues the same session."""
        _expect(self.request, Move.REQUESTED)
        return SessionId(f"plan-{self.request_position}")

    @property
    def work_session(self) -> SessionId:
        """The session that carries the plan out, unless the planning session itself does."""
        _expect(self.request, Move.REQUESTED)
        return SessionId(f"work-{self.request_position}")

    @property
    def has_approved_work(self) -> bool:
        """Whether approved work is under way or waits for people, so that what people say now would steer it."""
        return self.thread.approved is not None and self.thread.approved == self.thread.digest

    @property
    def is_finishing(self) -> bool:
        """Whether the approved work that is under way is to end with what is there."""
        return self.stage is Stage.EXECUTING and self.finishing_ask == self.thread.ask

    @property
    def waits_for_session(self) -> bool:
        """Whether the thread shows that the session of the open ask waits for a free slot."""
        return bool(self.queued_ask) and self.queued_ask == self.thread.ask

    @property
    def request_entries(self) -> tuple[RequestEntry, ...]:
        """The requests and additions that the plan covers.

        Each plan builds on the one before it, until one is carried out or its round ends.
        """
        return (*self.earlier_request_entries, *self.newest_request_entries)

    @property
    def requesters(self) -> frozenset[int]:
        """Numeric ids of the people whose words the plan covers. With four eyes, none of them may approve it."""
        asked = {who for entry in self.request_entries for who in (entry.said.actor.id, *entry.said.editors)}
        return frozenset(asked.union(*(answer.editors for answer in self.answers)))

    @property
    def hidden(self) -> Hidden:
        """The invisible text that was removed from the requests, and from the rest of the thread that was read."""
        *_, newest = (self.current_request, *self.newest_request_entries)
        if newest.beside is not None:  # it covers the whole thread, so also the other requests
            return newest.said.hidden + newest.beside
        return sum((entry.said.hidden for entry in self.newest_request_entries), start=Hidden())

    @property
    def heard_until(self) -> datetime | None:
        """The time up to which every turn was taken in: that of the oldest turn that waits, else of the newest turn."""
        if self.waiting_since:
            return datetime.fromisoformat(self.waiting_since)
        return None if self.newest_turn_at == NEVER else self.newest_turn_at

    @property
    def can_begin_kept_turn(self) -> bool:
        """Whether there is a kept turn and it can begin now, because no work is under way or waits for people."""
        is_free = Move.REQUESTED in TRANSITIONS[self.stage] and self.stage not in WAITS_FOR_PEOPLE
        return is_free and bool(self.kept_turns)

    @property
    def is_finished(self) -> bool:
        """Whether the round has ended and everything was posted, so that repeating the request begins a new round."""
        return self.stage in {Stage.DONE, Stage.ANSWERED, Stage.REJECTED} and not self.unposted_texts

    @property
    def tokens(self) -> tuple[int, int]:
        """What all that is journaled has used, in tokens of prompts and of answers."""
        return (
            sum(tokens for tokens, _ in self.session_tokens.values()),
            sum(n for _, n in self.session_tokens.values()),
        )

    def consumption(self, session: str) -> Consumption:
        """Return what is journaled that a session has used."""
        return Consumption(self.session_costs.get(session, 0.0), *self.session_tokens.get(session, (0, 0)))

    def reply(self, session: str, call: str) -> Replied | Instructed | None:
        """Return the answer of people to a session's pending call; None before there is one."""
        return next((reply for reply in self.replies if (reply.session, reply.call) == (session, call)), None)

    def texts_to_post(self, at: datetime) -> tuple[UnpostedText, ...]:
        """Return what a look at that time must post: the texts of moves, and replies that were left behind."""
        return tuple(
            unposted
            for unposted in self.unposted_texts
            if not isinstance(unposted.event, Heard) or unposted.at < at - LEFT_BEHIND
        )


def _expect(value: _T | None, kind: str) -> _T:
    if value is None:
        raise Broken(f"the journal has no entry that is {kind}")
    return value
