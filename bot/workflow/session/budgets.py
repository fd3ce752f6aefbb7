"""What a whole thread may cost, and what a repository may cost on one day (UTC), over all sessions (budget.*).

Threads of one repository work side by side, in processes that know of each other by their journals alone. So a session
journals what it has cost whenever that is a tenth of what is left of the day, and reads what the others have at least
every few seconds: the less is left, the closer they look, and each goes over the limit by one call at most.
`budget N` raises what one thread may cost.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from bot.core import comment
from bot.core.errors import Transient
from bot.core.events import decode_entries
from bot.core.gate import Stage
from bot.core.moves import Executed, Limited
from bot.core.names import SessionId
from bot.core.notes import Spent
from bot.core.thread_state import ThreadState
from bot.ports import Entry
from bot.workflow.journal.ledger import current, fold, note
from bot.workflow.thread_context import ThreadContext

SHARE: Final = 0.1
"""What a session has cost is journaled when it is such a part of what is left of the day."""


def bind_budgets(context: ThreadContext, state: ThreadState) -> None:
    """Hold the session that begins, or goes on, to its own budget and to what is left of its thread's."""
    ledger = context.resources.ledger
    elsewhere = max(0.0, (state.cost_usd or 0.0) - ledger.cost_usd)
    left = max(0.0, _of_thread(context, state) - elsewhere)
    ledger.budget_usd = min(state.budget_usd or context.settings.budget_usd, left)


async def move_if_spent(context: ThreadContext, state: ThreadState, session: SessionId) -> Limited | None:
    """Return the move that ends the work if the thread, or the repository today, has no budget left, else None.

    None where both have; then the session is held to what is left of the day, as others spend it too.
    """
    spent, budget = state.cost_usd or 0.0, _of_thread(context, state)
    reason = ""
    if spent >= budget:
        reason = f"this thread has spent ${spent:.2f} of its budget of ${budget:.2f} (budget.thread_usd)"
    elif context.pulls is not None:
        day = _Day(context, state, session)
        await day.read()
        reason = day.reason
        context.resources.ledger.beyond, context.resources.ledger.reason = day.refusal_reason, reason
    return Limited(detail=reason, owes=context.outcome_text(Stage.LIMIT, reason)) if reason else None


async def book_stopped(context: ThreadContext, session: SessionId, *, cost_usd: float) -> None:
    """Journal the cost of a stopped session, which returns no answer that could carry it."""
    if cost_usd and (later := await current(context)).thread.stage is Stage.STOPPED:
        await note(context, later, Spent(cost_usd=cost_usd, session=session))


async def estimate_cost(context: ThreadContext, state: ThreadState, planning_usd: float) -> str:
    """Return a rough estimate of what the work of a new plan will cost, from the journals of a day."""
    if not context.resources.ledger.is_priced:
        return comment.UNPRICED
    try:
        threads = await context.journal.since(context.resources.clock.now() - timedelta(days=1))
    except Transient:
        threads = {}
    costs = [cost for entries in threads.values() for cost in _executions(entries)]
    return comment.estimate(costs, state.session_costs.get(state.planning_session, 0.0) + planning_usd)


def _executions(entries: Sequence[Entry]) -> list[float]:
    """List what each execution cost that a thread's journal has from begin to end."""
    costs = _costs(entries)
    done = {event.session for _, event in decode_entries(entries) if isinstance(event, Executed) and event.session}
    return [costs[session] for session in done]


def _costs(entries: Sequence[Entry]) -> defaultdict[str, float]:
    """Sum what a journal tells of each session's cost."""
    costs = defaultdict[str, float](float)
    for _, event in decode_entries(entries):
        costs[event.session] += event.cost_usd or 0.0
    return costs


@dataclass(slots=True)
class _Day:
    """What a repository has spent today, as one of its sessions knows it."""

    context: ThreadContext
    state: ThreadState
    session: SessionId
    _journaled: float = 0.0
    _spent_before: float = field(init=False)
    """What this process had spent on the thread before, all of it journaled."""
    _journaled_of_session: float = field(init=False)
    """What the thread's journal tells of this session's cost."""
    _read_at: float = 0.0
    _alone: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._spent_before, self._journaled_of_session = (
            self._unjournaled_usd(),
            self.state.session_costs.get(self.session, 0.0),
        )

    async def refusal_reason(self) -> str:
        """Return why no further call may go out, or "". What cannot be read now is taken as it was."""
        async with self._alone:
            settings, clock = self.context.settings, self.context.resources.clock
            if self._matters() or clock.monotonic() - self._read_at >= settings.watch_seconds:
                with suppress(Transient):
                    await self.read()
                    await self._journal()
            return self.reason

    async def read(self) -> None:
        """Read what all threads have journaled today."""
        clock = self.context.resources.clock
        self._read_at, midnight = clock.monotonic(), clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
        threads = await self.context.journal.since(midnight)
        entries = (entry for journal in threads.values() for entry in journal if entry.at >= midnight)
        self._journaled = sum(event.cost_usd or 0.0 for _, event in decode_entries(entries))
        if own := threads.get(self.context.location.thread):
            self._carry(fold(self.context, own))

    @property
    def reason(self) -> str:
        """Why nothing more may be spent today; "" where something is left."""
        spent, budget = self._journaled + self._own, self.context.settings.day_usd
        if spent < budget:
            return ""
        used = f"this repository has spent ${spent:.2f} of its ${budget:.2f} for the day"
        return f"{used} (budget.repository_day_usd; the next day begins at midnight UTC)"

    @property
    def _own(self) -> float:
        """What this session has cost and no journal tells."""
        return self._unjournaled_usd() - self._spent_before

    def _unjournaled_usd(self) -> float:
        ledger = self.context.resources.ledger
        return ledger.cost_usd - ledger.carried

    def _matters(self) -> bool:
        return self._own > 0 and self._own >= SHARE * (self.context.settings.day_usd - self._journaled)

    async def _journal(self) -> None:
        """Journal what this session has cost so far if that matters for the remaining budget."""
        if self._matters():
            cost = round(self._own, 6)
            self.state = await note(self.context, self.state, Spent(session=self.session, cost_usd=cost))
            self._journaled += cost
            self._carry(self.state)

    def _carry(self, state: ThreadState) -> None:
        """Take in what the thread's own journal tells of this session: also an entry whose answer was lost."""
        journaled = max(self._journaled_of_session, state.session_costs.get(self.session, 0.0))
        self.context.resources.ledger.carried += journaled - self._journaled_of_session
        self._journaled_of_session = journaled


def _of_thread(context: ThreadContext, state: ThreadState) -> float:
    return max(context.settings.thread_usd, state.budget_usd)
