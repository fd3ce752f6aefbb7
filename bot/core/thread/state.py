"""The state of a thread: everything that a verb of `bot/workflow` must know of the thread's past.

It is the fold over the thread's journal: `apply` returns the state after one more entry. Each fact is a field of one
part; nothing is remembered elsewhere.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from bot.core import moves, notes
from bot.core.events import JournalEvent, decode_entries
from bot.core.gate import ON_ENTER, TRANSITIONS, WAITS_FOR_PEOPLE, Event, Move, Stage, Thread, step
from bot.core.moves import Entry
from bot.core.notes import Note
from bot.core.thread import EntryStep
from bot.core.thread.approval import ApprovalState
from bot.core.thread.plan import PlanState
from bot.core.thread.question import QuestionState
from bot.core.thread.request import RequestState
from bot.core.thread.task import TaskHistory, TaskNote, add_move, add_task_note
from bot.core.thread.turns import TurnState
from bot.core.thread.work import CostState, WorkState

_PLAN_MOVES: Final = frozenset({Move.PLANNED, Move.OUTGREW})


@dataclass(frozen=True, slots=True)
class ThreadState:
    gate: Thread = Thread()
    position: int = 0
    """Number of entries, including those in `pending`."""
    pending: tuple[Note, ...] = ()
    """The newest entries that are not in the journal yet. The next write appends them first."""
    request: RequestState = RequestState()
    plan: PlanState = PlanState()
    approval: ApprovalState = ApprovalState()
    work: WorkState = WorkState()
    question: QuestionState = QuestionState()
    turns: TurnState = TurnState()
    costs: CostState = CostState()
    task: TaskHistory | None = None
    """The scheduled task and its occurrences, if the thread is a task's tracking issue; else None."""

    @property
    def written(self) -> int:
        """Number of entries that are in the journal, which is the position that the next append expects."""
        return self.position - len(self.pending)

    @property
    def stage(self) -> Stage:
        return self.gate.stage

    @property
    def unconfirmed_asks(self) -> tuple[int, ...]:
        """The asks of earlier plans whose comment may exist although no entry records it.

        The thread moved while such a comment was being posted.
        """
        return tuple(ask for ask in self.plan.unproposed_asks if ask < self.gate.ask)

    @property
    def requesters(self) -> frozenset[int]:
        """Numeric ids of the people whose words the plan covers. With four eyes, none of them may approve it."""
        asked = {who for entry in self.request.entries for who in (entry.said.actor.id, *entry.said.editors)}
        return frozenset(asked.union(*(answer.editors for answer in self.question.planner_answers)))

    @property
    def has_void_plan(self) -> bool:
        """Whether no effect is due, and the thread may still show a plan that is not valid any more and was not
        replaced."""
        return self.plan.voided is not None and self.stage not in ON_ENTER

    @property
    def has_approved_work(self) -> bool:
        """Whether approved work is under way or waits for people, so that what people say now would steer it."""
        return self.gate.approved is not None and self.gate.approved == self.gate.digest

    @property
    def is_finishing(self) -> bool:
        """Whether the approved work that is under way is to end with what is there."""
        return self.stage is Stage.EXECUTING and self.work.finishing_ask == self.gate.ask

    @property
    def waits_for_session(self) -> bool:
        """Whether the thread shows that the session of the open ask waits for a free slot."""
        return bool(self.work.queued_ask) and self.work.queued_ask == self.gate.ask

    @property
    def can_begin_kept_turn(self) -> bool:
        """Whether there is a kept turn and it can begin now, because no work is under way or waits for people."""
        is_free = Move.REQUESTED in TRANSITIONS[self.stage] and self.stage not in WAITS_FOR_PEOPLE
        return is_free and bool(self.request.kept_turns)

    @property
    def has_unfinished_turns(self) -> bool:
        """Whether a text is not posted yet, or a kept turn has not begun."""
        return bool(self.turns.unposted_texts or self.request.kept_turns)

    @property
    def is_finished(self) -> bool:
        """Whether the round has ended and everything was posted, so that repeating the request begins a new round."""
        return self.stage in {Stage.DONE, Stage.ANSWERED, Stage.REJECTED} and not self.turns.unposted_texts

    def has_moved_since(self, earlier: "ThreadState") -> bool:
        """Return whether the thread was moved, or another process took it over, since an earlier state."""
        return (self.stage, self.gate.ask, self.work.run) != (earlier.stage, earlier.gate.ask, earlier.work.run)


def fold_entries(entries: Iterable[Entry], state: ThreadState | None = None) -> ThreadState:
    """Return the state after stored entries. `state` is the state before the first one; None for an empty journal.

    Raises as `apply` does.
    """
    state = state or ThreadState()
    for at, event in decode_entries(entries):
        state = apply(state, event, at)
    return state


def apply(state: ThreadState, event: JournalEvent, at: datetime) -> ThreadState:
    """Return the state after one more entry, journaled at that time.

    Raises IllegalEvent if the gate refuses it. A plan whose format this version cannot read moves the thread like any
    other plan; only reading it (`PlanState.current`) raises Refused.
    """
    gate = state.gate
    if isinstance(event, moves.MoveEvent) or (isinstance(event, notes.Unknown) and event.kind in _PLAN_MOVES):
        gate, _ = step(gate, Event(Move(event.kind), event.ask, event.digest))
    entry = EntryStep(event, state.position + 1, at, state.gate, gate)
    request, plan, approval = state.request.apply(entry), state.plan.apply(entry), state.approval.apply(entry)
    work, turns, costs = state.work.apply(entry), state.turns.apply(entry), state.costs.apply(entry)
    key = request.newest.said.key if request.newest is not None else ""
    question, task = state.question.apply(entry, key), _apply_to_task(state.task, entry, key, plan)
    return ThreadState(gate, entry.n, state.pending, request, plan, approval, work, question, turns, costs, task)


def apply_pending(state: ThreadState, note: Note, at: datetime) -> ThreadState:
    """Return the state after a note that is not in the journal yet."""
    return replace(apply(state, note, at), pending=(*state.pending, note))


def _apply_to_task(task: TaskHistory | None, entry: EntryStep, request: str, plan: PlanState) -> TaskHistory | None:
    """Return the history of the thread's task after one more entry; None if it has none."""
    if isinstance(entry.event, TaskNote):
        return add_task_note(task, entry.event, entry.at)
    if task is None or not request or not isinstance(entry.event, moves.MoveEvent):
        return task
    findings = plan.newest.findings if plan.newest is not None else ()
    return add_move(task, entry.event, request, findings=findings, at=entry.at)
