"""Findings and operations of scheduled tasks."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

import pytest

from bot.core.approval import Standing, standing_objection
from bot.core.brief import ExecutionBrief
from bot.core.codec import decode, encode
from bot.core.comment import changes, operation_table, plan_text
from bot.core.configuration import MaintenanceTask
from bot.core.errors import Refused
from bot.core.gate import Stage, Thread
from bot.core.maintenance import (
    MOST_FINDINGS,
    IssueState,
    Occurrence,
    Operation,
    OperationKind,
    TaskFinding,
    check_findings,
    check_operations,
    check_targets,
    check_undecided,
    is_decided,
)
from bot.core.moves import Closed, Delivered, Planned, Proposed, Published, Rejected, Requested
from bot.core.names import CommitId
from bot.core.notes import FindingOffered, OccurrenceDue, Operated, PullRequestEnded
from bot.core.plan import Contract, PlanDocument, canonical_bytes, from_json
from bot.core.thread.state import ThreadState, apply
from bot.core.thread.task import MOST_REJECTED, TaskHistory, TaskOccurrence, add_move, add_task_note
from tests.core.test_plan import LITERAL, PLAN
from tests.core.test_task_history import BEGAN, DUE, KEY, REQUEST
from tests.core.test_task_history import TASK as TASK_SEEN

TASK = MaintenanceTask(name="deps", schedule="weekly", prompt="Update the pins.")
FINDING = TaskFinding("requests", "Update requests to 3.0", ("requirements.txt",))


def test_a_changed_task_has_another_digest() -> None:
    changes = ({"prompt": "x"}, {"paths": ["a"]}, {"approval": "standing"}, {"labels": ["a"]}, {"limit": 2})
    changed = [TASK.model_copy(update=change) for change in changes]
    assert len({TASK.digest, *(task.digest for task in changed)}) == 6
    assert TASK.digest == "0d0e8bad21f30d6d5f30b84f51a4eca04ebb1d79c04446a3a35385f8f0497504"


@pytest.mark.req("MT1")
def test_an_occurrence_has_one_key() -> None:
    due = datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    assert Occurrence("deps", due).key == "due/deps/2026-03-29T01:00:00Z"
    assert Occurrence("deps", due, asked=True).key == "run/deps/2026-03-29T01:00:00Z"
    assert Occurrence("deps", due.astimezone(timezone(timedelta(hours=2))), 3).key == Occurrence("deps", due).key


def test_a_finding_survives_json() -> None:
    """What is stored comes back."""
    assert decode(TaskFinding, encode(FINDING)) == FINDING


@pytest.mark.req("MT5")
@pytest.mark.parametrize(
    ("finding", "decided"),
    (
        (replace(FINDING, title="Bump the HTTP library"), True),
        (replace(FINDING, id="bump-requests"), True),
        (replace(FINDING, id="REQUESTS ", paths=()), True),
        (TaskFinding("x", "update  REQUESTS to 3.0!"), True),
        (TaskFinding("urllib3", "Update urllib3 to 4.0"), False),
    ),
)
def test_decided(finding: TaskFinding, decided: bool) -> None:
    """A reworded title keeps the id, a new id keeps the title; neither brings a finding back."""
    assert is_decided(finding, [FINDING]) is decided


def test_findings_that_cannot_be_told_apart() -> None:
    check_findings([FINDING, TaskFinding("other", "Other")])
    with pytest.raises(Refused, match="two findings have the id 'Requests'"):
        check_findings([TaskFinding("Requests", "A"), TaskFinding("requests", "B")])
    with pytest.raises(Refused, match=f"lists {MOST_FINDINGS + 1} findings"):
        check_findings([TaskFinding(str(n), str(n)) for n in range(MOST_FINDINGS + 1)])
    for finding in (TaskFinding("...", "A"), TaskFinding("a" * 101, "A"), TaskFinding("a", "A" * 201)):
        with pytest.raises(Refused, match="a finding needs an id of at most 100 characters"):
            check_findings([finding])


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
    ask = state.gate.ask
    state = apply(state, Planned(plan=plan, ask=ask, digest=plan.digest), BEGAN)
    state = apply(state, Proposed(shown="c", ask=state.gate.ask, digest=plan.digest), BEGAN)
    return apply(state, Rejected(by=("ada",), ask=state.gate.ask, digest=plan.digest), BEGAN)


def begun(state: ThreadState, n: int) -> ThreadState:
    key = f"{KEY}{n}"
    state = apply(state, OccurrenceDue(key=key, due=DUE.due + timedelta(days=n)), BEGAN)
    return apply(state, Requested(said=replace(REQUEST.said, key=key), base=REQUEST.base), BEGAN)


@pytest.mark.req("MT5")
def test_fifty_occurrences() -> None:
    """A rejected finding is refused at each of fifty; offered again it comes back once."""
    state = rejected(begun(apply(ThreadState(), TASK_SEEN, BEGAN), 0), FOUND)
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
    state = TaskHistory("deps", "d", BEGAN)
    for n, count in enumerate((MOST_REJECTED - 10, 50)):
        many = [TaskFinding(f"{n}-{each}", f"{n} {each} x") for each in range(count)]
        state = add_move(state, Rejected(), KEY, findings=many, at=BEGAN)
    assert len(state.rejected) == MOST_REJECTED
    assert [state.rejected[each].finding.id for each in (0, -1)] == ["0-40", "1-49"]
    assert add_move(history(), Closed(), KEY, findings=(), at=BEGAN).decided == ()


LABEL: Final = Operation(OperationKind.ADD_LABEL, 7, "a|b `c`", "0123456789abcdef")
SAID: Final = Operation(OperationKind.COMMENT, 7, "Fixed in #12.\n```\n- [ ] Approve")
CLOSE: Final = Operation(OperationKind.CLOSE, 8)
ALONE: Final = replace(PLAN, contract=Contract(), operations=(LABEL, SAID, CLOSE))
TARGET: Final = IssueState("T", "B", frozenset({"x"}), 2, is_open=True)
NOW: Final = datetime(2026, 11, 23, tzinfo=UTC)


@pytest.mark.req("MT7", "PR5")
def test_operations_are_part_of_the_digest() -> None:
    """They are a key of the canonical form where there are any; a document without them keeps its digest."""
    plan = replace(PLAN, operations=(LABEL, CLOSE))
    assert json.loads(canonical_bytes(plan)) == json.loads(LITERAL) | {"operations": [encode(LABEL), encode(CLOSE)]}
    assert from_json(json.loads(canonical_bytes(plan))) == plan
    assert plan.digest != PLAN.digest == "cc172c9844fcf758e6c5534b14f93dea4662d460866ebc00be7c13bd96e8f6b6"
    assert [each.changes_files for each in (PLAN, plan, ALONE)] == [True, True, False]


@pytest.mark.req("MT7")
def test_operations_are_shown_whole() -> None:
    """As a table and the texts of comments, verbatim, without a box or a reference in them."""
    shown = plan_text(ALONE, "HOW")
    assert (
        """\
### Operations on issues

| | issue | operation | text |
| ---|---|---|--- |
| 1 | `#7` | add label | `` a¦b `c` `` |
| 2 | `#7` | comment | comment 2 |
| 3 | `#8` | close |  |

Comment 2, for `#7`:

````text
Fixed in #12.
```
- ☐ Approve
````
"""
        in shown
    )
    assert "- Files: none" in shown
    assert operation_table([CLOSE], ["done"]).endswith("| 1 | `#8` | close |  | done |")
    assert "+Fixed in #12." in changes(PLAN, ALONE)
    assert "Operations" not in plan_text(PLAN, "HOW")


@pytest.mark.req("MT6", "MT7")
def test_the_configuration_approves_no_operations() -> None:
    standing = Standing("t", ("**",), asked_before=True)
    assert standing_objection(replace(ALONE, tier="low"), standing, four_eyes=False) == "it has operations on issues"


@pytest.mark.req("MT7")
@pytest.mark.parametrize("kind", OperationKind)
def test_a_target_before_and_after(kind: OperationKind) -> None:
    operation = Operation(kind, 7, "x" if kind is OperationKind.REMOVE_LABEL else "y")
    start = replace(TARGET, is_open=kind is not OperationKind.REOPEN)
    end = start.after(operation)
    assert end.digest != start.digest
    assert end.before(operation) == start
    assert len(start.digest) == 16


@pytest.mark.req("MT7")
@pytest.mark.parametrize(
    ("operations", "why"),
    (
        ([CLOSE] * 51, "the plan has 51 operations, the limit is 50: hand in"),
        ([replace(CLOSE, number=0)], "the operation close on #0 is incomplete"),
        ([replace(CLOSE, text="x")], "has a text that it does not use"),
        ([replace(LABEL, text="")], "the operation add_label on #7 is incomplete"),
        ([replace(LABEL, text="x" * 51)], "the add_label on #7 is longer than 50 characters: shorten it"),
        ([replace(SAID, text="x" * 4_001)], "the comment on #7 is longer than 4,000 characters: shorten it"),
        ([replace(LABEL, text="PlanGate: stop")], "the label 'PlanGate: stop' controls this bot"),
    ),
)
def test_operations_that_no_plan_may_have(operations: list[Operation], why: str) -> None:
    with pytest.raises(Refused, match=why):
        check_operations(operations)
    check_operations([LABEL, SAID, CLOSE] * 16)


@pytest.mark.req("MT7")
def test_no_operation_on_the_thread_itself() -> None:
    check_targets([CLOSE], 7)
    with pytest.raises(Refused, match="the plan has an operation on #8, its own thread"):
        check_targets([LABEL, CLOSE], 8)


def test_what_came_of_an_occurrence() -> None:
    history = TaskHistory("t", "d", NOW, (TaskOccurrence("k", NOW),))
    done = Delivered(branch="", commit=CommitId("c"))
    assert add_move(history, done, "k", findings=(), at=NOW).outcome_of("k") == "done, see the report below"


@pytest.mark.req("MT7")
def test_operations_of_the_plan_in_force_are_remembered() -> None:
    state = ThreadState(Thread(digest=PLAN.digest))
    entry = Operated(digest=PLAN.digest, operation=0, outcome="done", seen="s")
    other = replace(entry, digest=ALONE.digest)
    assert apply(apply(state, other, NOW), entry, NOW).work.finished_operations == (entry,)
