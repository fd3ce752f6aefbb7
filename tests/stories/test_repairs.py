"""`plangate run` repairs what its checks find, in the session that planned; kill -9 in between costs nothing twice."""

import signal
from typing import Final

import pytest

from bot.core.checks import FAILING
from bot.core.gate import Move
from bot.testing.model.reply import Fault, Reply, call, say
from bot.testing.model.request_view import ModelRequest
from bot.testing.sample import CHECK
from bot.workflow.verification import NO_TIME
from tests.stories.conftest import Meet
from tests.stories.ground import FIXED, Script, newest, only_the_fix, since_approval, until
from tests.stories.test_interrupted import Held

WRONG: Final = call("Edit", file_path=FIXED, old_string="STANDARD = 4.90", new_string="STANDARD = 0.0")
RIGHT: Final = call(
    "MultiEdit",
    file_path=FIXED,
    edits=[
        {"old_string": "STANDARD = 0.0", "new_string": "STANDARD = 4.90"},
        {"old_string": "total > FREE_FROM", "new_string": "total >= FREE_FROM"},
    ],
)
PLANNING: Final = Script(commands=(CHECK,))


def handed_in(request: ModelRequest) -> bool:
    """Return whether the session has handed in its plan."""
    return "exit_plan_mode" in [result.name for result in request.all_results]


def handed_back(request: ModelRequest) -> int:
    """Return how often failing checks were handed back to the session so far."""
    return sum(FAILING in text for text in request.texts())


def repairing(request: ModelRequest) -> Reply | Fault:
    """Work wrongly, and rightly once a check has failed."""
    if not handed_in(request):
        return PLANNING(request)
    match len(since_approval(request)), handed_back(request):
        case 0, 0:
            return WRONG
        case 1, 1:
            return RIGHT
        case done, _:
            return say(f"Done after {done} edits.")


@pytest.mark.long
@pytest.mark.req("K4", "L9")
def test_killed_before_the_repair(meet: Meet) -> None:
    """Killed when the failures were handed back and nothing was answered: the same request goes out again, once."""
    held = Held(lambda _, request: handed_back(request) > 0, repairing)
    person, model = meet(held)
    process = person.start("--yes")
    until(lambda: held.arrived.is_set() or process.poll() is not None, "the repair")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    struck = model.requests[-1]
    held.released.set()
    ended = person.run("--yes", "--json")
    assert ended.code == 0, ended.err
    first = next(request for request in model.requests[model.requests.index(struck) + 1 :] if request.tools)
    assert first.raw == struck.raw
    assert handed_back(newest(model)) == 1
    before = f"The checks ran on the checkout before your work:\n- `{CHECK}`: failed (exit code 1)"
    assert [text.count(before) for text in newest(model).texts() if before in text] == [1]
    (check,) = ended.result["checks"]
    assert (check["exit_code"], check["before"]["exit_code"]) == (0, 1)
    (branch,) = person.branches()
    assert only_the_fix(person.diff(branch))
    (journal,) = person.journals()
    (executed,) = (entry.body for entry in journal if entry.kind == Move.EXECUTED)
    assert executed["summary"] == "Done after 2 edits."


@pytest.mark.long
@pytest.mark.req("K4", "L9")
@pytest.mark.parametrize("folder", ("base-*", "checks-*"))
def test_killed_while_checks_run(meet: Meet, folder: str) -> None:
    """Killed while a check runs, before the work or after it: it runs again, and what fails comes back once."""
    person, model = meet(_slowly)
    process = person.start("--yes")
    until(lambda: [*person.data.glob(f"checkouts/{folder}/base")] or process.poll() is not None, folder)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    ended = person.run("--yes", "--json")
    assert ended.code == 0, ended.err
    assert handed_back(newest(model)) == 1
    assert [check["before"]["exit_code"] for check in ended.result["checks"]] == [1, 0]
    (branch,) = person.branches()
    assert only_the_fix(person.diff(branch))


@pytest.mark.long
@pytest.mark.req("K4", "L5")
def test_checks_that_take_longer_than_the_session(meet: Meet) -> None:
    """Checks after the work take nothing of the session's time; those before it are left out where they would, and
    that is said."""
    slow = Script(commands=(CHECK, "sleep 8"))
    person, model = meet(lambda request: slow(request) if not handed_in(request) else repairing(request))
    person.commit({".github/plangate.yml": "budget:\n  minutes: 0.2\n"})
    ended = person.run("--yes", "--json")
    assert ended.code == 0, ended.err
    assert handed_back(newest(model)) == 1
    check, sleep = ended.result["checks"]
    assert (check["exit_code"], check["before"]["exit_code"], sleep["exit_code"], "before" in sleep) == (0, 1, 0, False)
    (journal,) = person.journals()
    (executed,) = (entry.body for entry in journal if entry.kind == Move.EXECUTED)
    assert executed["no_baseline"] == NO_TIME


def _slowly(request: ModelRequest) -> Reply | Fault:
    made = repairing(request)
    is_plan = isinstance(made, Reply) and [getattr(block, "name", "") for block in made.blocks] == ["exit_plan_mode"]
    return Script(commands=(CHECK, "sleep 2"))(request) if is_plan else made
