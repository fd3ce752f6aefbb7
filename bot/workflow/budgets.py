"""Budgets: of a thread over all its sessions, and of a repository for one day (budget.*)."""

import asyncio
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from bot.agent.limits import SharedBudget
from bot.core import comment
from bot.core.errors import Transient
from bot.core.events import decode_entries
from bot.core.gate import Stage
from bot.core.moves import Executed, Limited
from bot.core.names import SessionId
from bot.core.notes import Spent
from bot.core.thread.state import ThreadState
from bot.core.work import Consumption
from bot.ports import Entry
from bot.workflow.thread_run import ThreadRun

# --- The budget of a thread, and cost estimates (budget.*)


def bind_budgets(run: ThreadRun) -> None:
    """Limit the session to its own budget and to what is left of its thread's budget."""
    ledger = run.resources.ledger
    elsewhere = max(0.0, (run.state.costs.total_usd or 0.0) - ledger.cost_usd)
    remaining = max(0.0, _of_thread(run) - elsewhere)
    ledger.budget_usd = min(run.state.costs.budget_usd or run.configuration.budget.session_usd, remaining)


async def limit_move(run: ThreadRun) -> Limited | None:
    """Return the move that ends the work if the thread's or the shared budget has nothing left, else None."""
    spent, budget = run.state.costs.total_usd or 0.0, _of_thread(run)
    if spent >= budget:
        reason = f"this thread has spent ${spent:.2f} of its budget of ${budget:.2f} (budget.thread_usd)"
    else:
        reason = await run.resources.shared_budget.refusal_reason()
        run.resources.ledger.reason = reason  # "" also clears the reason of a day that is over
    return run.limit_move(reason) if reason else None


async def book_stopped(run: ThreadRun, session: SessionId, used: Consumption) -> None:
    """Journal what a stopped session used, because no move of that session carries it."""
    if not used.dollars:
        return
    run = run.beside()
    await run.read()
    if run.state.stage is Stage.STOPPED:
        await run.note(_spent_note(run, session, used))


def _spent_note(run: ThreadRun, session: SessionId, used: Consumption) -> Spent:
    model, cost_usd = run.configuration.models.main, used.dollars
    tokens_input, tokens_output = used.tokens_input, used.tokens_output
    return Spent(
        session=session, cost_usd=cost_usd, model=model, tokens_input=tokens_input, tokens_output=tokens_output
    )


async def estimate_cost(run: ThreadRun, planning_usd: float) -> str:
    """Return a rough estimate of what the work of a new plan will cost, from the journals of a day."""
    if not run.resources.ledger.is_priced:
        return comment.UNPRICED
    try:
        threads = await run.journal.port.since(run.clock.now() - timedelta(days=1))
    except Transient:
        threads = {}
    costs = [cost for entries in threads.values() for cost in _execution_costs(entries)]
    return comment.estimate(
        costs, run.state.costs.by_session.get(run.state.request.planning_session, 0.0) + planning_usd
    )


def _execution_costs(entries: Sequence[Entry]) -> list[float]:
    """List the cost of each finished execution in a thread's journal, where it is known."""
    costs, executions = dict[str, float](), set[str]()
    for _, event in decode_entries(entries):
        if event.cost_usd is not None:
            costs[event.session] = costs.get(event.session, 0.0) + event.cost_usd
        if isinstance(event, Executed):
            executions.add(event.session)
    return [costs[session] for session in executions & costs.keys()]


def _of_thread(run: ThreadRun) -> float:
    return max(run.configuration.budget.thread_usd, run.state.costs.budget_usd)


# --- The budget of a repository for one day (UTC)
# `budget.repository_day_usd` covers all sessions of all threads. Threads of one repository run at the same time, in
# processes that share nothing but the journals. So a session journals its cost as soon as it reaches a tenth of the
# day's remaining budget, and reads the costs of the others at least every few seconds. The less is left, the more often
# each reads, and each exceeds the limit by at most one call.

SHARE: Final = 0.1
"""A session journals its cost when the cost reaches this share of what is left of the day's budget."""


async def share_day_budget(run: ThreadRun, session: SessionId) -> None:
    """Limit the session to what is left of the repository's day. Raises Transient if the journals cannot be read."""
    budget_usd = run.configuration.budget.repository_day_usd
    if not math.isinf(budget_usd):
        day = DayBudget(run.beside(), session, budget_usd)
        await day.read()
        run.resources = replace(run.resources, shared_budget=day)


@dataclass(slots=True)
class DayBudget(SharedBudget):
    """The budget of one session: what its repository has spent today, as far as the session knows."""

    run: ThreadRun
    session: SessionId
    budget_usd: float
    _journaled: float = 0.0
    _spent_before: Consumption = field(init=False)
    """What this process had spent on the thread before this session, all of it journaled."""
    _journaled_of_session: Consumption = field(init=False)
    """The consumption of this session in the thread's journal."""
    _read_at: float = 0.0
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._spent_before = self.run.resources.ledger.own
        self._journaled_of_session = self.run.state.costs.consumption(self.session)

    async def refusal_reason(self) -> str:
        """Return why no further call may be made, or "". If the journals cannot be read, the last reading counts."""
        async with self._lock:
            if self._matters() or self.run.clock.monotonic() - self._read_at >= self.run.conditions.watch_seconds:
                with suppress(Transient):
                    await self.read()
                    await self._journal()
            return self.reason

    async def read(self) -> None:
        """Read the costs that all threads journaled today."""
        clock = self.run.clock
        self._read_at, midnight = clock.monotonic(), clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
        threads = await self.run.journal.port.since(midnight)
        entries = (entry for journal in threads.values() for entry in journal if entry.at >= midnight)
        self._journaled = sum(event.cost_usd or 0.0 for _, event in decode_entries(entries))
        if own := threads.get(self.run.location.thread):
            self._carry(self.run.journal.fold(own))

    @property
    def reason(self) -> str:
        """Why nothing more may be spent today; "" if something is left."""
        total, budget = self._journaled + self._own.usd, self.budget_usd
        if total < budget:
            return ""
        used = f"this repository has spent ${total:.2f} of its ${budget:.2f} for the day"
        return f"{used} (budget.repository_day_usd; the next day begins at midnight UTC)"

    @property
    def _own(self) -> Consumption:
        """The part of this session's consumption that is not journaled."""
        return self.run.resources.ledger.own - self._spent_before

    def _matters(self) -> bool:
        own = self._own.usd
        return own > 0 and own >= SHARE * (self.budget_usd - self._journaled)

    async def _journal(self) -> None:
        if self._matters():
            used = self._own
            await self.run.note(_spent_note(self.run, self.session, used))
            self._journaled += used.dollars
            self._carry(self.run.state)

    def _carry(self, state: ThreadState) -> None:
        """Update the journaled consumption of this session, also for an entry whose append seemed to fail."""
        recorded = self._journaled_of_session.higher(state.costs.consumption(self.session))
        self.run.resources.ledger.carried += recorded - self._journaled_of_session
        self._journaled_of_session = recorded
