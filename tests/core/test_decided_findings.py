"""What people decided on stays decided, however often and under whatever name it comes back (MT5)."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest

from bot.core.brief import ExecutionBrief
from bot.core.codec import encode
from bot.core.comment import changes, plan_text
from bot.core.errors import Refused
from bot.core.gate import Stage
from bot.core.maintenance import TaskFinding, check_undecided
from bot.core.moves import Closed, Planned, Proposed, Published, Rejected, Requested
from bot.core.names import CommitId
from bot.core.notes import FindingOffered, OccurrenceDue, PullRequestEnded
from bot.core.plan import PlanDocument, canonical_bytes, from_json
from bot.core.thread.state import ThreadState, apply
from bot.core.thread.task import MOST_REJECTED, TaskHistory, add_move, add_task_note
from tests.core.test_plan import LITERAL, PLAN
from tests.core.test_task_history import BEGAN, DUE, KEY, REQUEST, TASK

LODASH: Final = TaskFinding("lodash", "Update lodash to 5.0", ("package.json",))
TYPES: Final = TaskFinding("tests/test_a.py::test_b", "Fix `test_b`")
FOUND: Final = replace(PLAN, findings=(LODASH, TYPES))
MADE: Final = Published(branch="b", commit=CommitId("c"), pull_request="u", pull_number=7)


@pytest.mark.req("MT5", "PR5")
def test_findings_are_part_of_the_digest() -> None:
    """They are a key of the canonical form where there are any; a document without them keeps its digest."""
    rows = [encode(LODASH), encode(TYPES)]
    assert json.loads(canonical_bytes(FOUND)) == json.loads(LITERAL) | {"findings": rows}
    assert FOUND.digest != PLAN.digest == "cc172c9844fcf758e6c5534b14f93dea4662d460866ebc00be7c13bd96e8f6b6"
    assert from_json(json.loads(canonical_bytes(FOUND))) == FOUND


@pytest.mark.req("MT5")
def test_findings_are_shown() -> None:
    """As a list below the plan's text, in the changes since the version before, and to who carries the plan out."""
    listed = "- `Update lodash to 5.0` (`lodash`): `package.json`\n- `` Fix `test_b` `` (`tests/test_a.py::test_b`)"
    assert f"- step\n\n### Findings\n\n{listed}\n\n### What it may do\n\n" in plan_text(FOUND, "HOW")
    assert "Findings" not in plan_text(PLAN, "HOW")
    assert "+- `Update lodash to 5.0`" in changes(PLAN, FOUND)
    assert f"## Findings\n\n{listed}" in ExecutionBrief(FOUND, None).render()


def rejected(state: ThreadState, plan: PlanDocument) -> ThreadState:
    """Let the thread plan that, and people reject it."""
    ask = state.gate.ask
    state = apply(state, Planned(plan=plan, ask=ask, digest=plan.digest), BEGAN)
    state = apply(state, Proposed(shown="c", ask=state.gate.ask, digest=plan.digest), BEGAN)
    return apply(state, Rejected(by=("ada",), ask=state.gate.ask, digest=plan.digest), BEGAN)


def begun(state: ThreadState, n: int) -> ThreadState:
    """Let the next occurrence begin."""
    key = f"{KEY}{n}"
    state = apply(state, OccurrenceDue(key=key, due=DUE.due + timedelta(days=n)), BEGAN)
    return apply(state, Requested(said=replace(REQUEST.said, key=key), base=REQUEST.base), BEGAN)


@pytest.mark.req("MT5")
def test_fifty_occurrences() -> None:
    """A rejected finding is refused at each of fifty; offered again it comes back once."""
    state = rejected(begun(apply(ThreadState(), TASK, BEGAN), 0), FOUND)
    for n in range(1, 51):
        state = begun(state, n)
        assert state.task is not None
        reworded = TaskFinding("Lodash", f"Bring lodash up to date, attempt {n}")
        renamed = TaskFinding(f"npm-{n}", "update: LODASH to 5.0!")
        for finding in (reworded, renamed):
            with pytest.raises(Refused, match=r"people decided on this before: .*: leave it out"):
                check_undecided([TaskFinding("other", "x"), finding], state.task.decided)
        state = rejected(state, replace(PLAN, plan=n + 1, findings=(TaskFinding(f"other-{n}", "x"),)))
    assert state.stage is Stage.REJECTED
    state = apply(state, FindingOffered(finding="lodash", by="ada"), BEGAN)
    assert state.task is not None
    check_undecided([LODASH], state.task.decided)
    state = rejected(begun(state, 51), replace(FOUND, plan=52))
    assert state.task is not None
    with pytest.raises(Refused):
        check_undecided([LODASH], state.task.decided)
    assert [each.finding.id for each in state.task.rejected].count("lodash") == 1


def history(*findings: TaskFinding) -> TaskHistory:
    return add_move(TaskHistory("deps", "d", BEGAN), MADE, KEY, findings=findings, at=BEGAN)


@pytest.mark.req("MT5")
@pytest.mark.parametrize(("merged", "left"), ((True, ()), (False, (LODASH,))))
def test_the_end_of_a_pull_request(*, merged: bool, left: tuple[TaskFinding, ...]) -> None:
    """While it is open its findings are decided; a merge settles them, and closing it rejects them."""
    other = replace(MADE, pull_number=8)
    shown = add_move(history(LODASH), other, KEY, findings=(TYPES,), at=BEGAN)
    assert shown.decided == (LODASH, TYPES)
    ended = add_task_note(shown, PullRequestEnded(pull_number=7, merged=merged), BEGAN)
    assert ended is not None
    assert ended.decided == (TYPES, *left)


def test_what_is_remembered_is_bounded() -> None:
    """However many plans are rejected; one without findings is not remembered."""
    state = TaskHistory("deps", "d", BEGAN)
    for n, count in enumerate((MOST_REJECTED - 10, 50)):
        many = [TaskFinding(f"{n}-{each}", f"{n} {each} x") for each in range(count)]
        state = add_move(state, Rejected(), KEY, findings=many, at=BEGAN)
    assert len(state.rejected) == MOST_REJECTED
    assert [state.rejected[each].finding.id for each in (0, -1)] == ["0-40", "1-49"]
    assert add_move(history(), Closed(), KEY, findings=(), at=BEGAN).decided == ()
