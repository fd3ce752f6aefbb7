"""Publishing while the thread moves: copying and screening the work takes its time, and a stop meanwhile counts."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final, cast

import pytest

from bot.core.actor import Actor, Role
from bot.core.approval import ApprovedPlan, Candidate, Opinion, Shown, Snapshot, Way
from bot.core.moves import Approved, Executed, MoveEvent, Planned, Proposed, Stopped
from bot.core.names import CommitId
from bot.core.plan import Contract, PlanDocument
from bot.core.thread_state import ThreadState
from bot.core.work import Checkout, CommitOrder, PushedWork
from bot.ports import BeforePush
from bot.workflow import publishing
from bot.workflow.journal.fence import Fence
from bot.workflow.journal.ledger import append, current
from bot.workflow.thread_context import ThreadContext
from tests.workflow.test_set_back import begun, context

MAYA: Final = Actor(2, "maya")
BASE: Final = CommitId("a" * 40)


@dataclass(slots=True)
class Slow:
    """A workspace and a thread on GitHub: somebody says stop while the work is copied."""

    thread: ThreadContext
    """As another process has it."""
    pushed: list[str] = field(default_factory=list)

    async def checkout(self, *_: object, **__: object) -> Checkout:
        return Checkout("/tree", "/tree", BASE)

    async def publish(self, _: ApprovedPlan, __: Checkout, order: CommitOrder, *, before: BeforePush) -> PushedWork:
        await append(self.thread, await current(self.thread), Stopped(owes="Stopped."))
        made = PushedWork(order.branch, CommitId("b" * 40), ("a.py",))
        await before(made)
        self.pushed.append(order.branch)
        return made

    def interrupt(self, _: object) -> None:
        """Do nothing: people are told on the thread."""

    async def snapshot(self, *_: object, **__: object) -> Snapshot:
        now = self.thread.resources.clock.now()
        said = Candidate(MAYA, Way.REACTION, Opinion.APPROVE, now, Role.ADMIN)
        return Snapshot(Shown(now - timedelta(hours=1)), (said,))


async def executed(thread: ThreadContext) -> tuple[ThreadContext, ThreadState, Slow]:
    """A thread whose approved work is done, and the job that is about to publish it on a branch of its own."""
    now, location = thread.resources.clock.now(), thread.location
    plan = PlanDocument(
        repository=location.repository,
        thread=location.thread,
        plan=1,
        base=BASE,
        markdown="Do it.",
        contract=Contract(scope=("a.py",)),
        tier="normal",
        budget_usd=1.0,
        expires=now + timedelta(days=7),
    )
    slow = Slow(replace(thread, fence=Fence(thread.journal, location.repository, location.thread, thread.states)))
    job = replace(thread, workspace=cast("Any", slow), dialogue=cast("Any", slow))
    state = await begun(job)
    moves: tuple[MoveEvent, ...] = (
        Planned(plan=plan, digest=plan.digest),
        Proposed(shown="IC_1", digest=plan.digest),
        Approved(by=("maya",), approved_at=now, digest=plan.digest),
        Executed(title="Do it", summary="Done.", checks=(), digest=plan.digest),
    )
    for move in moves:
        state = await append(job, state, move)
    job.fence.written = state
    return job, state, slow


@pytest.mark.req("E4", "PR1")
async def test_a_stop_while_the_work_is_copied() -> None:
    """Nothing is pushed after it, also where the branch is the bot's own and nobody else writes there."""
    job, state, slow = await executed(replace(context(), pulls=cast("Any", object())))
    assert await publishing.perform(job, state) is None
    assert slow.pushed == []
