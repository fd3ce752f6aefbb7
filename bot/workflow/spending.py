"""Spending: what a whole thread may cost, over all its sessions (budget.thread_usd); `budget N` raises it."""

from bot.core.gate import Move, Stage
from bot.workflow.desk import Desk, Done
from bot.workflow.record import Record


def bound(desk: Desk, now: Record) -> None:
    """Hold the session that begins, or goes on, to its own budget and to what is left of its thread's."""
    ledger, raised = desk.world.ledger, _raised(now)
    elsewhere = max(0.0, (now.cost_usd or 0.0) - ledger.cost_usd)
    ledger.budget_usd = min(raised or desk.orders.budget_usd, max(0.0, _of_thread(desk, now) - elsewhere))


def exhausted(desk: Desk, now: Record) -> Done | None:
    """Give the move that ends the work where its thread has nothing left to spend; None where it has."""
    spent, budget = now.cost_usd or 0.0, _of_thread(desk, now)
    if spent < budget:
        return None
    detail = f"this thread has spent ${spent:.2f} of its budget of ${budget:.2f} (budget.thread_usd)"
    return Done(Move.LIMITED, {"detail": detail, "owes": desk.ended(Stage.LIMIT, detail)})


def _of_thread(desk: Desk, now: Record) -> float:
    return max(desk.orders.thread_usd, _raised(now))


def _raised(now: Record) -> float:
    """Give what somebody raised the budget to; 0 for nobody."""
    return float(now.fact("budget_usd", "0"))
