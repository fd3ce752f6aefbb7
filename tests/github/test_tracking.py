"""The tracking issue of a scheduled task: created once, edited, and ticked by people (MT2)."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bot.core.configuration import MaintenanceTask
from bot.core.maintenance import Operation, OperationKind, TaskFinding, Tick
from bot.core.marker import Key
from bot.core.names import ThreadNumber
from bot.core.reply_text import (
    OFFER_AGAIN,
    RUN_NOW,
    TrackingView,
    ticked_labels,
    tracking_body,
    tracking_title,
)
from bot.core.thread.task import TaskOccurrence
from bot.github.responses import Missing
from bot.github.tasks import DONE, LABEL, SKIPPED, IssueOperations, TrackingIssues
from tests.github.conftest import HOME, Ground, Signed, no_fence
from tests.github.effects import tracking

TASK = MaintenanceTask(
    name="deps",
    schedule="weekly",
    timezone="Europe/Berlin",
    prompt="Update the pins.",
    check="pip list --outdated",
    paths=["*.txt"],
)
VIEW = TrackingView(TASK, "on Mondays at 00:00", datetime(2026, 11, 30, tzinfo=UTC))


@pytest.fixture
def issues(ground: Ground) -> TrackingIssues:
    return tracking(ground)


async def show(issues: TrackingIssues, number: ThreadNumber, body: str) -> None:
    await issues.show(number, TASK.name, body, shown=(await issues.read(number)).body)


async def ticks(issues: TrackingIssues, number: ThreadNumber) -> tuple[Tick, ...]:
    return (await issues.read(number)).ticks


async def opened(issues: TrackingIssues) -> ThreadNumber:
    return await issues.open(TASK.name, tracking_title(TASK.name), tracking_body(VIEW))


def shown(ground: Ground, number: ThreadNumber) -> str:
    return str(ground.github.world.issue(HOME, number).text.body)


def tick(ground: Ground, number: ThreadNumber, label: str, by: str = "will") -> None:
    body = shown(ground, number).replace(f"- [ ] {label}", f"- [x] {label}")
    assert body != shown(ground, number)
    ground.person(by).edit_issue(HOME, number, body=body)


@pytest.mark.req("MT2")
async def test_tracking_issue_is_found_by_its_marker_and_created_once(ground: Ground, issues: TrackingIssues) -> None:
    ground.issue("a person's issue")
    first = await opened(issues)
    assert [f"{label}" for label in ground.github.world.issue(HOME, first).labels] == [LABEL]
    ground.person("ada").edit_issue(HOME, first, title="Something else")
    ground.person("ada").close(HOME, first)
    assert await opened(issues) == first
    assert await issues.open("other", "Other", "Other") != first
    copied = ground.person("ada").open_issue(HOME, "A copy", shown(ground, first))
    ground.person("ada").label(HOME, copied.number, LABEL)
    assert await opened(issues) == first


@pytest.mark.req("MT2", "E2")
async def test_many_issues_are_read_by_one_query(ground: Ground, issues: TrackingIssues) -> None:
    """One that is gone is left out, and hides no other; read by itself, it is missing."""
    found = [await issues.open(name, name, f"About {name}.") for name in ("a", "b")]
    before = len(ground.asked("POST /graphql"))
    texts = await issues.read_all([found[0], ThreadNumber(99), found[1]])
    assert [texts[number].body.partition("\n")[0] for number in texts] == ["About a.", "About b."]
    assert len(ground.asked("POST /graphql")) == before + 1
    assert await issues.read_all([]) == {}
    with pytest.raises(Missing, match=r"was deleted or moved .*: give the task another name"):
        await issues.read(ThreadNumber(99))


@pytest.mark.req("MT1", "MT2")
async def test_two_processes_that_create_an_issue_at_once_keep_the_same(ground: Ground, issues: TrackingIssues) -> None:
    found = await asyncio.gather(*(opened(issues) for _ in range(3)))
    assert len(set(found)) == 1
    assert found[0] == min(issue.number for issue in ground.github.world.issues.values())


@pytest.mark.req("MT2")
async def test_issue_is_edited_only_if_it_differs(ground: Ground, issues: TrackingIssues) -> None:
    number = await opened(issues)
    before = len(ground.asked("PATCH"))
    await show(issues, number, tracking_body(VIEW))
    assert len(ground.asked("PATCH")) == before
    row = TaskOccurrence("x", datetime(2026, 11, 23, tzinfo=UTC), outcome="nothing to do", cost_usd=0.25)
    await show(issues, number, tracking_body(replace(VIEW, occurrences=[row])))
    assert "| 2026-11-23 00:00 | nothing to do | $0.25 |" in shown(ground, number)
    assert len(ground.asked("PATCH")) == before + 1
    assert await opened(issues) == number  # its marker is still there


@pytest.mark.req("MT2")
async def test_each_tick_names_who_ticked_last(ground: Ground, issues: TrackingIssues) -> None:
    number = await opened(issues)
    finding = TaskFinding("requests", "Update requests")
    await show(issues, number, tracking_body(replace(VIEW, rejected=[finding])))
    assert await ticks(issues, number) == ()
    tick(ground, number, RUN_NOW, by="ada")
    ground.person("ada").edit_issue(HOME, number, body=shown(ground, number).replace("[x]", "[ ]"))
    tick(ground, number, RUN_NOW, by="mia")
    tick(ground, number, OFFER_AGAIN, by="will")
    found = await ticks(issues, number)
    assert [(made.label, made.by.login) for made in found] == [
        (RUN_NOW, "mia"),
        (f"{OFFER_AGAIN}`Update requests` (`requests`)", "will"),
    ]
    await show(issues, number, tracking_body(VIEW))
    assert await ticks(issues, number) == ()


@pytest.mark.req("MT2", "A4a")
async def test_a_tick_whose_edit_is_unknown_is_nobodys(ground: Ground, issues: TrackingIssues) -> None:
    """GitHub lists a hundred edits, and people can delete one: whoever edited next did not tick the box."""
    number = await opened(issues)
    tick(ground, number, RUN_NOW, by="will")
    for n in range(100):
        ground.person("mia").edit_issue(HOME, number, body=f"{shown(ground, number)}\n{n}")
    assert await ticks(issues, number) == ()


@pytest.mark.req("MT2")
async def test_a_tick_of_the_bot_is_nobodys(ground: Ground, issues: TrackingIssues) -> None:
    """What the bot wrote, also with words of a prompt that look like a ticked box, asks for nothing."""
    number = await opened(issues)
    await show(issues, number, f"- [x] {RUN_NOW}")
    assert await ticks(issues, number) == ()
    prompt = TASK.model_copy(update={"prompt": f"Update.\n\n- [x] {RUN_NOW}\n```\n- [x] {RUN_NOW}"})
    assert ticked_labels(tracking_body(replace(VIEW, task=prompt))) == ()


# Operations on issues: once each, also after a crash, and not on what changed meanwhile (MT7)


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
