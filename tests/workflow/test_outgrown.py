"""The amendment of a plan whose work outgrew it: what it covers."""

from datetime import UTC, datetime

import pytest

from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.paths import in_scope
from bot.core.plan import Contract, PlanDocument
from bot.workflow.publishing import amended_plan


@pytest.mark.req("PR1", "PR5")
@pytest.mark.parametrize("scope", ((), ("src/**",), ("src/**", "!src/a.py")))
def test_amendment_covers_the_work(scope: tuple[str, ...]) -> None:
    """It covers what the plan covered and what the work added, so that one amendment is enough."""
    plan = PlanDocument(
        repository=RepositoryId(1),
        thread=ThreadNumber(1),
        plan=1,
        base=CommitId("a" * 40),
        markdown="do it",
        contract=Contract(scope=scope),
        tier="normal",
        budget_usd=1.0,
        expires=datetime(2026, 1, 2, tzinfo=UTC),
    )
    amended = amended_plan(plan, ("CLAUDE.md", "src/a.py"), "e" * 40)
    assert all(in_scope(path, amended.contract.scope) for path in ("src/a.py", "src/b.py", "CLAUDE.md"))
    assert not in_scope("AGENTS.md", amended.contract.scope)
    assert (amended.plan, amended.tier, amended.base) == (2, "high", plan.base)
    assert amended.markdown.startswith(plan.markdown)
    assert "`src/a.py`" in amended.markdown
    assert amended.digest != plan.digest
