"""Operations on issues as data of a plan (MT7)."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import pytest

from bot.core.approval import Standing, standing_objection
from bot.core.codec import encode
from bot.core.comment import changes, operation_table, plan_text
from bot.core.errors import Refused
from bot.core.gate import Thread
from bot.core.maintenance import IssueState, Operation, OperationKind, check_operations, check_targets
from bot.core.moves import Delivered
from bot.core.names import CommitId
from bot.core.notes import Operated
from bot.core.plan import Contract, canonical_bytes, from_json
from bot.core.thread.state import ThreadState, apply
from bot.core.thread.task import TaskHistory, TaskOccurrence, add_move
from tests.core.test_plan import LITERAL, PLAN

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
    """People decide on them."""
    standing = Standing("t", ("**",), asked_before=True)
    assert standing_objection(replace(ALONE, tier="low"), standing, four_eyes=False) == "it has operations on issues"


@pytest.mark.req("MT7")
@pytest.mark.parametrize("kind", OperationKind)
def test_a_target_before_and_after(kind: OperationKind) -> None:
    """What an operation changes can be told from the target alone, in both directions."""
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
    """Each with what to change."""
    with pytest.raises(Refused, match=why):
        check_operations(operations)
    check_operations([LABEL, SAID, CLOSE] * 16)


@pytest.mark.req("MT7")
def test_no_operation_on_the_thread_itself() -> None:
    """An approved plan does not close the issue that it waits on."""
    check_targets([CLOSE], 7)
    with pytest.raises(Refused, match="the plan has an operation on #8, its own thread"):
        check_targets([LABEL, CLOSE], 8)


def test_what_came_of_an_occurrence() -> None:
    """A plan of operations alone leaves a report, and no branch."""
    history = TaskHistory("t", "d", NOW, (TaskOccurrence("k", NOW),))
    done = Delivered(branch="", commit=CommitId("c"))
    assert add_move(history, done, "k", findings=(), at=NOW).outcome_of("k") == "done, see the report below"


@pytest.mark.req("MT7")
def test_operations_of_the_plan_in_force_are_remembered() -> None:
    """An entry about another plan says nothing of this one."""
    state = ThreadState(Thread(digest=PLAN.digest))
    entry = Operated(digest=PLAN.digest, operation=0, outcome="done", seen="s")
    other = replace(entry, digest=ALONE.digest)
    assert apply(apply(state, other, NOW), entry, NOW).work.finished_operations == (entry,)
