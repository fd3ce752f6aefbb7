"""Operating: carries out the approved operations on issues, each once, and reports their results (MT7)."""

from dataclasses import replace

from bot.core import comment
from bot.core.maintenance import Operation
from bot.core.moves import Delivered
from bot.core.notes import Operated
from bot.core.plan import PlanDocument
from bot.core.thread.state import ThreadState
from bot.workflow.journal import append_notes
from bot.workflow.thread_context import ThreadContext


async def record_targets(context: ThreadContext, plan: PlanDocument) -> PlanDocument:
    """Return the plan with the current digest of each operation's target."""
    digests: dict[int, str] = {}
    for number in dict.fromkeys(operation.number for operation in plan.operations):
        target = await context.tasks.target(number)
        digests[number] = target.digest if target is not None else ""
    return replace(
        plan, operations=tuple(replace(operation, seen=digests[operation.number]) for operation in plan.operations)
    )


async def carry_out(context: ThreadContext, state: ThreadState) -> ThreadState | None:
    """Carry out the operations of the approved plan that the journal does not hold yet, in order.

    Each is journaled before the next one begins. None when the thread was moved meanwhile.
    """
    plan = state.plan.current
    for n, operation in enumerate(plan.operations):
        if n in {finished.operation for finished in state.work.finished_operations}:
            continue
        if await context.fence.has_moved(state):
            return None
        result = await context.tasks.apply(operation, _seen(state, operation), f"{plan.digest}/{n}")
        entry = Operated(digest=plan.digest, operation=n, outcome=result.outcome, seen=result.seen)
        state = await append_notes(context, state, entry)
    return state


async def finish_operations(context: ThreadContext, state: ThreadState) -> Delivered | None:
    """Carry out a plan that changes no files, and end its round with a report; None when the thread was moved."""
    operated = await carry_out(context, state)
    if operated is None:
        return None
    commit, digest = state.request.base, state.plan.current.digest
    return Delivered(branch="", commit=commit, owes=operations_report(operated), digest=digest)


def operations_report(state: ThreadState) -> str:
    """Return the results of the plan's operations as a table."""
    outcomes = [finished.outcome for finished in state.work.finished_operations]
    return f"The approved operations:\n\n{comment.operation_table(state.plan.current.operations, outcomes)}"


def _seen(state: ThreadState, operation: Operation) -> str:
    """Return the digest that the target must have: from the plan, or after the last operation on it."""
    seen = operation.seen
    for finished in state.work.finished_operations:
        if state.plan.current.operations[finished.operation].number == operation.number:
            seen = finished.seen
    return seen
