"""kill -9, SIGTERM and Ctrl-C at every kind of moment: the same command afterwards ends the work, once.

A moment comes about by what the outside sees: a request that arrives at the model and waits there, a command of the
work or a check that holds itself up the first time it runs, a line on the screen, a folder or a ref that appears.
"""

import random
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

from bot.core.checks import FAILING
from bot.core.gate import Move
from bot.testing.model.reply import Fault, Policy, Reply, call, say, several
from bot.testing.model.request_view import ModelRequest
from bot.testing.model.server import ScriptedModel
from bot.testing.sample import CHECK
from bot.workflow.verification import NO_TIME
from tests.stories.conftest import Meet
from tests.stories.ground import (
    FIX,
    FIXED,
    PATIENCE,
    Held,
    Person,
    Script,
    approved,
    newest,
    only_the_fix,
    processes,
    since_approval,
    state,
    until,
)

HOLD: Final = "if [ ! -e .git/held-{0} ]; then touch .git/held-{0}; sleep 600; fi"
"""A shell line that stands still the first time, and says so by a file that no publisher looks at."""
COMMAND: Final = HOLD.format("command")
HOLDING_CHECK: Final = HOLD.format("check")
EXITS: Final = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: -signal.SIGTERM, signal.SIGINT: 130}


@dataclass(frozen=True, slots=True)
class Moment:
    """When to strike: when a request arrives, or else when something can be seen on the screen or in the folders."""

    request: Callable[[int, ModelRequest], bool] | None = None
    seen: Callable[[Person], object] = lambda _: False
    policy: Policy = Script()
    fault: Fault | None = None


def crew(request: ModelRequest) -> Reply | Fault:
    """Send an explorer, hand in a plan, send a writer."""
    if "sub-agent that explores" in request.system:
        return call("Read", file_path=FIXED) if request.step == 0 else say("It is line 10.")
    if "sub-agent that writes code" in request.system:
        return (call("Read", file_path=FIXED), FIX, say("Changed."))[min(request.step, 2)]
    if request.step == 0 and request.tools:
        return several(say("I look."), _task("explore", "Find the rule", "Where is free shipping decided, and how?"))
    return Script(work=(_task("code", "Fix it", "Compare with >= there."),))(request)


def _task(kind: str, description: str, prompt: str) -> Reply:
    return call("Task", subagent_type=kind, description=description, prompt=prompt)


def _file(pattern: str, *, repository: bool = False) -> Callable[[Person], bool]:
    return lambda person: any((person.repository / ".git" if repository else person.data).glob(pattern))


def _screen(text: str) -> Callable[[Person], bool]:
    return lambda person: text in person.screen


def _of(text: str) -> Callable[[int, ModelRequest], bool]:
    return lambda _, request: text in request.system


MOMENTS: Final = {
    "the thread is begun": Moment(seen=_file("refs/plangate/threads/*", repository=True)),
    "the first request": Moment(lambda number, _: number == 1),
    "an explorer asks": Moment(_of("sub-agent that explores"), policy=crew),
    "in the middle of an answer": Moment(lambda number, _: number == 2, fault=Fault.stall(2 * PATIENCE)),
    "the plan is shown": Moment(seen=_screen("plan mode: plan 1")),
    "the work begins": Moment(lambda _, request: approved(request)),
    "a writer asks": Moment(_of("sub-agent that writes code"), policy=crew),
    "a command runs": Moment(
        seen=_file("checkouts/*/tree/.git/held-command"), policy=Script(work=(FIX, call("Bash", command=COMMAND)))
    ),
    "a check runs": Moment(seen=_file("checkouts/*/tree/.git/held-check"), policy=Script(commands=(HOLDING_CHECK,))),
    "the clone is made": Moment(seen=_file("publishing/*/clone")),
    "the commit is made": Moment(seen=_file("publishing/*/clone/.git/index")),
    "the branch is there": Moment(seen=_file("refs/heads/plangate/*", repository=True)),
}
KINDS: Final = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
EVERY_DAY: Final = ("a command runs", signal.SIGINT)
OFTEN: Final = (("an explorer asks", signal.SIGKILL), ("the branch is there", signal.SIGKILL))
REST: Final = tuple((name, kind) for name in MOMENTS for kind in KINDS if (name, kind) not in (EVERY_DAY, *OFTEN))
SAMPLED: Final = (
    EVERY_DAY,
    *(pytest.param(*each, marks=pytest.mark.long) for each in OFTEN),
    *(pytest.param(*each, marks=pytest.mark.soak) for each in REST),
)


@pytest.mark.req("PR2", "L6", "L9")
@pytest.mark.parametrize(("name", "kind"), SAMPLED)
def test_the_same_command_goes_on_whatever_ended_the_program(meet: Meet, name: str, kind: signal.Signals) -> None:
    moment = MOMENTS[name]
    held = Held(moment.request or (lambda _, __: False), moment.policy, moment.fault)
    person, model = meet(held)
    before = state(person.repository)
    assert person.die(lambda: held.arrived.is_set() or moment.seen(person), kind) == EXITS[kind]
    held.released.set()
    _goes_on(person, model, before)


@pytest.mark.long
@pytest.mark.req("L9", "S4", "S11")
def test_a_writer_that_was_killed_is_asked_again_with_the_same_bytes(meet: Meet) -> None:
    held = Held(lambda _, request: "sub-agent that writes code" in request.system and request.step == 2, crew)
    person, model = meet(held)
    before = state(person.repository)
    person.die(held.arrived.is_set)
    asked = len(model.requests)
    held.released.set()
    _goes_on(person, model, before)
    struck, first, then = (model.requests[asked - 1], *model.requests[asked : asked + 2])
    assert first.raw == struck.raw
    assert "that writes code" not in then.system
    assert "Changed." in then.results[-1].text
    assert [request.step for request in model.requests if "that writes code" in request.system] == [0, 1, 2, 2]


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_kill_9_again_and_again_at_random_times(meet: Meet, seed: int) -> None:
    dice = random.Random(seed)
    print(f"seed {seed}")  # noqa: T201 - to draw the same times again
    person, model = meet(crew)
    before = state(person.repository)
    longest, ended = 0.3, False
    while not ended:
        process = person.start("--yes")
        try:
            ended = process.wait(dice.uniform(0.05, longest)) == 0
            assert ended, person.screen
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            longest += 0.3
            ended = _screen("Done: branch")(person)
    _whole(person, model, before)


def _goes_on(person: Person, model: ScriptedModel, before: dict[str, str]) -> None:
    """Hold that the same command ends the work, and that the journal only grew."""
    kept = person.journals()
    ended = person.run("--yes")
    assert ended.code == 0, ended.err + ended.out
    (journal,) = person.journals()
    assert all(entries == journal[: len(entries)] for entries in kept)
    assert len(kept) <= 1
    _whole(person, model, before)


def _whole(person: Person, model: ScriptedModel, before: dict[str, str]) -> None:
    """Hold that there is one branch with the fix, one journal, and nothing else: no process, no change."""
    (journal,) = person.journals()
    assert [entry.kind for entry in journal].count("delivered") == 1
    (branch,) = person.branches()
    assert only_the_fix(person.diff(branch))
    assert state(person.repository) == before
    assert model.refusals == ()
    until(lambda: not list(processes(person.home)), "all processes end")


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
def test_a_run_killed_before_its_repair_sends_the_same_request_again(meet: Meet) -> None:
    held = Held(lambda _, request: handed_back(request) > 0, repairing)
    person, model = meet(held)
    person.die(held.arrived.is_set)
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
def test_checks_at_which_a_run_was_killed_run_again(meet: Meet, folder: str) -> None:
    person, model = meet(_slowly)
    person.die(lambda: [*person.data.glob(f"checkouts/{folder}/base")])
    ended = person.run("--yes", "--json")
    assert ended.code == 0, ended.err
    assert handed_back(newest(model)) == 1
    assert [check["before"]["exit_code"] for check in ended.result["checks"]] == [1, 0]
    (branch,) = person.branches()
    assert only_the_fix(person.diff(branch))


@pytest.mark.long
@pytest.mark.req("K4", "L5")
def test_checks_take_nothing_of_the_sessions_time(meet: Meet) -> None:
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
