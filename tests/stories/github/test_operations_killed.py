"""Kill -9 just before and just after each operation on an issue: each is done once (MT7, E3)."""

import asyncio
from typing import Final

import pytest

from bot.testing.github.faults import Fault, Plan
from bot.testing.model.reply import call, say
from tests.stories.github.deaths import Mortal
from tests.stories.github.ground import HOME, PATIENCE, long, soak
from tests.stories.github.runner import journal_of
from tests.stories.github.test_maintenance import DAY, PATH, SHIPPING, wake_due
from tests.stories.github.test_operations import operation
from tests.stories.ground import until

pytestmark = pytest.mark.req("MT7", "E1", "E3")
REQUESTS: Final = {
    "add_label": "POST /repos/{}/issues/{}/labels",
    "comment": "POST /repos/{}/issues/{}/comments",
    "remove_label": "DELETE /repos/{}/issues/{}/labels/*",
    "close": "PATCH /repos/{}/issues/{}",
}
DEATHS: Final = [(kind, done) for kind in REQUESTS for done in (False, True)]


def maintain(mortal: Mortal) -> None:
    """Run one pass of a service that dies right afterward, and leaves every look to others."""

    async def run() -> None:
        async with mortal.host("disk", run="") as host:
            await wake_due(host, lambda _: None)

    asyncio.run(run())


def plan_operations(mortal: Mortal, target: int) -> None:
    """Have a plan with one operation of each kind on an issue approved."""
    mortal.person("ada").push(HOME, {PATH: f"maintenance:\n{SHIPPING}"})
    maintain(mortal)
    texts = {"add_label": "stale", "comment": "Is this still so?", "remove_label": "bug"}
    work = [operation(kind, target, texts.get(kind, "")) for kind in REQUESTS]
    mortal.model.before = (call("exit_plan_mode", plan="Look after it.", operations=work), say("No."))
    mortal.clock.advance(DAY)
    maintain(mortal)
    mortal.start(2).join()
    mortal.reacts("maya", "+1", *mortal.plans(2))


@pytest.mark.parametrize("mortal", ("service",), indirect=True)
@pytest.mark.parametrize(("kind", "done"), [(long if each == ("comment", True) else soak)(*each) for each in DEATHS])
def test_killed_at_an_operation(mortal: Mortal, kind: str, done: bool) -> None:
    """Nothing is done twice, nothing is left out, and the report says that all are done."""
    target = mortal.opens("rita", "It breaks.", title="A").number
    mortal.person("ada").label(HOME, target, "bug")
    plan_operations(mortal, target)
    faults = mortal.github.faults
    struck = faults.struck
    faults.add(Plan(REQUESTS[kind].format(HOME, target), Fault("reset", done=done, seconds=PATIENCE)))
    dying = mortal.start(2)
    until(lambda: faults.struck > struck and is_done(mortal, target, kind) == done, f"the operation {kind}")
    assert dying.is_alive()
    dying.kill()
    dying.join()
    mortal.start(2).join()
    assert all(is_done(mortal, target, each) for each in REQUESTS)
    assert [each.text.body.partition("\n")[0] for each in mortal.comments(target)] == ["Is this still so?"]
    (told,) = mortal.said("tell", 2)
    assert told.count("| done |") == len(REQUESTS)
    kinds = [entry.kind for entry in journal_of(mortal, mortal.settings("reading"), 2)]
    assert kinds.count("operated") == len(REQUESTS)


def is_done(mortal: Mortal, target: int, kind: str) -> bool:
    """Return whether an operation shows on the issue."""
    issue = mortal.issue(target)
    match kind:
        case "add_label":
            return "stale" in issue.labels
        case "remove_label":
            return "bug" not in issue.labels
        case "comment":
            return bool(mortal.comments(target))
        case _:
            return issue.state == "closed"
