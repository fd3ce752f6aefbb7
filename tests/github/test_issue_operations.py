"""Operations on issues: once each, also after a crash, and not on what changed meanwhile (MT7)."""

from dataclasses import replace

import pytest

from bot.core.maintenance import Operation, OperationKind
from bot.core.marker import Key
from bot.core.names import ThreadNumber
from bot.github.tasks import DONE, SKIPPED, IssueOperations
from tests.github.conftest import HOME, Ground, Signed, no_fence

CASES = (
    Operation(OperationKind.ADD_LABEL, 1, "old"),
    Operation(OperationKind.REMOVE_LABEL, 1, "bug/ui"),
    Operation(OperationKind.COMMENT, 1, "Fixed in 1.2."),
    Operation(OperationKind.CLOSE, 1),
)


@pytest.fixture
def operations(ground: Ground) -> IssueOperations:
    signer = Signed()
    number = ground.issue()
    ground.person("ada").label(HOME, number, "bug/ui")
    return IssueOperations(ground.client, ground.address, ground.bot, Key(signer.key_id, signer.mac), no_fence)


async def seen(operations: IssueOperations) -> str:
    target = await operations.target(1)
    assert target is not None
    return target.digest


@pytest.mark.req("MT7", "E1")
@pytest.mark.parametrize("operation", CASES, ids=lambda each: each.kind)
async def test_operation_of_an_earlier_process_is_not_repeated(
    ground: Ground, operations: IssueOperations, operation: Operation
) -> None:
    before = await seen(operations)
    first = await operations.apply(operation, before, "plan/0")
    assert (first.outcome, first.seen) == (DONE, await seen(operations))
    assert await operations.apply(operation, before, "plan/0") == first
    assert len(ground.comments(ThreadNumber(1))) == (operation.kind == "comment")


@pytest.mark.req("MT7")
@pytest.mark.parametrize("operation", CASES, ids=lambda each: each.kind)
async def test_operation_is_skipped_if_somebody_commented_since(
    ground: Ground, operations: IssueOperations, operation: Operation
) -> None:
    before = await seen(operations)
    ground.person("rea").comment(HOME, 1, "It still happens.")
    result = await operations.apply(operation, before, "plan/0")
    assert (result.outcome, result.seen) == (SKIPPED, before)
    assert ground.comments(ThreadNumber(1)) == []


@pytest.mark.req("MT7")
async def test_operation_without_effect_is_reported_and_changes_nothing(
    ground: Ground, operations: IssueOperations
) -> None:
    """It is told, and changes nothing; two comments of one plan are two."""
    before = await seen(operations)
    label = Operation(OperationKind.ADD_LABEL, 1, "bug/ui")
    assert (await operations.apply(label, before, "plan/0")).outcome == "nothing to do: it is so already"
    assert (await operations.apply(replace(label, number=99), "", "plan/1")).outcome.startswith("failed: there is no")
    closed = await operations.apply(CASES[3], before, "plan/2")
    opened = await operations.apply(Operation(OperationKind.REOPEN, 1), closed.seen, "plan/3")
    assert (opened.outcome, opened.seen) == (DONE, before)
    first = await operations.apply(CASES[2], before, "plan/4")
    await operations.apply(CASES[2], first.seen, "plan/5")
    assert len(ground.comments(ThreadNumber(1))) == 2
