"""The effects on issues that no comment is: labels, states, and the switch of the sweep (E1, MT7)."""

from collections.abc import Awaitable, Callable
from typing import Final

from bot.core.maintenance import Operation, OperationKind
from bot.core.marker import Key
from bot.github.tasks import OPEN_LABEL, IssueOperations, label_as_open, unlabel_as_open
from tests.github.conftest import HOME, Ground, Signed, no_fence
from tests.github.effect_cases import Case, Effect, crowded


async def an_open_label(ground: Ground, size: int) -> Case:
    thread = await crowded(ground, size)

    def made() -> int:
        return ground.github.world.issue(HOME, thread).labels.count(OPEN_LABEL)

    return Case(lambda: label_as_open(ground.client, ground.address, thread), made)


async def no_open_label(ground: Ground, size: int) -> Case:
    thread = await crowded(ground, size)
    ground.person("ada").label(HOME, thread, OPEN_LABEL)

    def made() -> int:
        return int(OPEN_LABEL not in ground.github.world.issue(HOME, thread).labels)

    return Case(lambda: unlabel_as_open(ground.client, ground.address, thread), made)


def an_operation(kind: OperationKind, text: str = "") -> Callable[[Ground, int], Awaitable[Case]]:
    """Carry out an approved operation on an issue that has the label ``bug``."""

    async def prepare(ground: Ground, size: int) -> Case:
        thread, signer = await crowded(ground, size), Signed()
        ground.person("ada").label(HOME, thread, "bug")
        operations = IssueOperations(
            ground.client, ground.address, ground.bot, Key(signer.key_id, signer.mac), no_fence
        )
        target = await operations.target(thread)
        assert target is not None
        operation, seen = Operation(kind, thread, text), target.digest

        def made() -> int:
            issue = ground.github.world.issue(HOME, thread)
            wanted = target.after(operation)
            return int((frozenset(issue.labels), issue.state == "open") == (wanted.labels, wanted.is_open))

        return Case(lambda: operations.apply(operation, seen, "plan/0"), made)

    return prepare


_PERFORM: Final = "bot/github/tasks.py:_perform"
ISSUE_EFFECTS: Final = {
    "open label": Effect(
        "POST */issues/*/labels", "bot/github/tasks.py:label_as_open:post", an_open_label, containing=OPEN_LABEL
    ),
    "no open label": Effect(
        "DELETE */issues/*/labels/plangate*", "bot/github/tasks.py:unlabel_as_open:delete", no_open_label
    ),
    "added label": Effect(
        "POST */issues/*/labels", f"{_PERFORM}:post", an_operation(OperationKind.ADD_LABEL, "stale"), containing="stale"
    ),
    "removed label": Effect(
        "DELETE */issues/*/labels/*", f"{_PERFORM}:delete", an_operation(OperationKind.REMOVE_LABEL, "bug")
    ),
    "closed issue": Effect(
        "PATCH */issues/[0-9]*", f"{_PERFORM}:change", an_operation(OperationKind.CLOSE), containing='"state"'
    ),
    "sweep on": Effect("PUT */actions/workflows/*/enable", "bot/github/repository.py:enable:put"),
    "sweep off": Effect("PUT */actions/workflows/*/disable", "bot/github/repository.py:disable:put"),
}
"""Part of the matrix of tests/github/effects.py."""
