"""The budget of a thread over all its sessions, and an estimate of what its next work will cost (budget.*).

The command `budget N` raises the budget of one thread. `day_budget.py` holds that of a repository for one day.
"""

from collections.abc import Sequence
from datetime import timedelta

from bot.core import comment
from bot.core.consumption import Consumption
from bot.core.errors import Transient
from bot.core.events import decode_entries
from bot.core.gate import Stage
from bot.core.moves import Executed, Limited
from bot.core.names import SessionId
from bot.core.notes import Spent
from bot.core.thread.state import ThreadState
from bot.ports import Entry
from bot.workflow.journal.writing import append_notes, read_state
from bot.workflow.thread_context import ThreadContext


def bind_budgets(context: ThreadContext, state: ThreadState) -> None:
    """Limit the session to its own budget and to what is left of its thread's budget."""
    ledger = context.resources.ledger
    elsewhere = max(0.0, (state.costs.total_usd or 0.0) - ledger.cost_usd)
    remaining = max(0.0, _of_thread(context, state) - elsewhere)
    ledger.budget_usd = min(state.costs.budget_usd or context.settings.budget_usd, remaining)


async def limit_move(context: ThreadContext, state: ThreadState) -> Limited | None:
    """Return the move that ends the work if the thread's or the shared budget has nothing left, else None."""
    spent, budget = state.costs.total_usd or 0.0, _of_thread(context, state)
    if spent >= budget:
        reason = f"this thread has spent ${spent:.2f} of its budget of ${budget:.2f} (budget.thread_usd)"
    else:
        reason = await context.resources.shared_budget.refusal_reason()
        context.resources.ledger.reason = reason  # "" also clears the reason of a day that is over
    return context.limit_move(reason) if reason else None


async def book_stopped(context: ThreadContext, session: SessionId, used: Consumption) -> None:
    """Journal what a stopped session used, which returns no answer that could carry it."""
    if used.dollars and (later := await read_state(context)).gate.stage is Stage.STOPPED:
        await append_notes(context, later, spent_note(session, used, context.settings.model))


def spent_note(session: SessionId, used: Consumption, model: str) -> Spent:
    """Return the journal entry about what a session with that main model used."""
    return Spent(
        session=session,
        cost_usd=used.dollars,
        model=model,
        tokens_input=used.tokens_input,
        tokens_output=used.tokens_output,
    )


async def estimate_cost(context: ThreadContext, state: ThreadState, planning_usd: float) -> str:
    """Return a rough estimate of what the work of a new plan will cost, from the journals of a day."""
    if not context.resources.ledger.is_priced:
        return comment.UNPRICED
    try:
        threads = await context.journal.since(context.resources.clock.now() - timedelta(days=1))
    except Transient:
        threads = {}
    costs = [cost for entries in threads.values() for cost in _execution_costs(entries)]
    return comment.estimate(costs, state.costs.by_session.get(state.request.planning_session, 0.0) + planning_usd)


def _execution_costs(entries: Sequence[Entry]) -> list[float]:
    """List the cost of each finished execution in a thread's journal, as far as it is known."""
    costs, executions = dict[str, float](), set[str]()
    for _, event in decode_entries(entries):
        if event.cost_usd is not None:
            costs[event.session] = costs.get(event.session, 0.0) + event.cost_usd
        if isinstance(event, Executed):
            executions.add(event.session)
    return [costs[session] for session in executions & costs.keys()]


def _of_thread(context: ThreadContext, state: ThreadState) -> float:
    return max(context.settings.thread_usd, state.costs.budget_usd)
