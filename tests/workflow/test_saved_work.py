"""Which checkout a thread is worked on in, and what git knows there."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final, cast

import pytest

from bot.core.moves import Approved, Planned, Proposed
from bot.core.names import CommitId
from bot.core.plan import Contract, PlanDocument
from bot.core.pull import PullCommits
from bot.core.work import Checkout
from bot.workflow.journal.ledger import append
from bot.workflow.session.saved_work import checkout
from tests.workflow.test_set_back import begun, context

PULL: Final = PullCommits(CommitId("c" * 40), CommitId("d" * 40))


@dataclass(slots=True)
class Checkouts:
    """A workspace that notes which checkouts it is asked for."""

    asked: list[tuple[str, PullCommits | None]] = field(default_factory=list)

    async def checkout(self, name: str, base: CommitId, *_: object, pull: PullCommits | None, **__: object) -> Checkout:
        self.asked.append((name, pull))
        return Checkout("/tree", "/tree", base)


@pytest.mark.req("K6", "K8", "PR1")
@pytest.mark.parametrize("branch", ("", "topic"), ids=("fork", "own branch"))
async def test_approved_work_knows_nothing_of_a_fork(branch: str) -> None:
    """Planning may name its commits; approved work gets another checkout, and the same one each time."""
    thread, made = context(), Checkouts()
    place = replace(thread.location, pull=PULL, branch=branch)
    thread = replace(thread, location=place, workspace=cast("Any", made))
    state, now = await begun(thread), thread.resources.clock.now()
    await checkout(thread, state)
    plan = PlanDocument(
        repository=place.repository,
        thread=place.thread,
        plan=1,
        base=place.base,
        markdown="Do it.",
        contract=Contract(scope=("a.py",)),
        tier="normal",
        budget_usd=1.0,
        expires=now + timedelta(days=7),
    )
    state = await append(thread, state, Planned(plan=plan, digest=plan.digest))
    state = await append(thread, state, Proposed(shown="IC_1", digest=plan.digest))
    state = await append(thread, state, Approved(by=("maya",), approved_at=now, digest=plan.digest))
    for _ in range(2):
        await checkout(thread, state)
    planned, *worked = made.asked
    assert planned[1] == PULL
    assert worked == [planned if branch else (f"{planned[0]}-work", None)] * 2
