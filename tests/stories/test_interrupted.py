"""kill -9, SIGTERM and Ctrl-C at every kind of moment: the same command afterwards ends the work, once.

A moment comes about by what the outside sees: a request that arrives at the model and waits there, a command of the
work or a check that holds itself up the first time it runs, a line on the screen, a folder or a ref that appears.
"""

import random
import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import pytest

from bot.testing.model.reply import Fault, Policy, Reply, call, say, several
from bot.testing.model.request_view import ModelRequest
from bot.testing.model.server import ScriptedModel
from tests import forks
from tests.stories.conftest import Meet
from tests.stories.ground import FIX, FIXED, PATIENCE, Person, Script, approved, only_the_fix, processes, state, until

HOLD: Final = "if [ ! -e .git/held-{0} ]; then touch .git/held-{0}; sleep 600; fi"
"""A shell line that stands still the first time, and says so by a file that no publisher looks at."""
COMMAND: Final = HOLD.format("command")
CHECK: Final = HOLD.format("check")
EXITS: Final = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: -signal.SIGTERM, signal.SIGINT: 130}


@dataclass(slots=True)
class Held:
    """A model that lets the first request of some kind wait until it is released."""

    wanted: Callable[[int, ModelRequest], bool]
    policy: Policy
    fault: Fault | None = None
    arrived: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    seen: int = 0

    def __call__(self, request: ModelRequest) -> Reply | Fault:
        self.seen += 1
        if self.arrived.is_set() or not self.wanted(self.seen, request):
            return self.policy(request)
        self.arrived.set()
        if self.fault is not None:
            return self.fault
        self.released.wait(2 * PATIENCE)
        return self.policy(request)


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
    return lambda person: text in (person.home / "screen").read_text()


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
    "a check runs": Moment(seen=_file("checkouts/*/tree/.git/held-check"), policy=Script(commands=(CHECK,))),
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
def test_the_same_command_goes_on(meet: Meet, name: str, kind: signal.Signals) -> None:
    """Whatever ends the program whenever: started again it makes the one branch, and nothing was lost or left over."""
    moment = MOMENTS[name]
    held = Held(moment.request or (lambda _, __: False), moment.policy, moment.fault)
    person, model = meet(held)
    before = state(person.repository)
    process = _started(person)
    until(
        lambda: held.arrived.is_set() or moment.seen(person) or process.poll() is not None,
        f"{name}: {(person.home / 'screen').read_text()}",
    )
    assert process.poll() is None, f"it ended before {name}: {(person.home / 'screen').read_text()}"
    process.send_signal(kind)
    assert process.wait(PATIENCE) == EXITS[kind]
    held.released.set()
    _goes_on(person, model, before)


@pytest.mark.long
@pytest.mark.req("L9", "S4", "S11")
def test_a_writer_goes_on_after_kill_9(meet: Meet) -> None:
    """It had edited its fork and was about to report: started again, it alone is asked, with the bytes of the request
    that the kill struck; what it had read and edited is not done twice, and its work reaches the branch."""
    held = Held(lambda _, request: "sub-agent that writes code" in request.system and request.step == 2, crew)
    person, model = meet(held)
    before = state(person.repository)
    process = _started(person)
    until(lambda: held.arrived.is_set() or process.poll() is not None, (person.home / "screen").read_text())
    process.kill()
    process.wait(PATIENCE)
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
def test_kill_9_at_any_time(meet: Meet, seed: int) -> None:
    """The same with kill -9 again and again after random times, until the program is faster, or has told the end."""
    dice = random.Random(seed)
    print(f"seed {seed}")  # noqa: T201 - to draw the same times again
    person, model = meet(crew)
    before = state(person.repository)
    longest, ended = 0.3, False
    while not ended:
        process = _started(person)
        try:
            ended = process.wait(dice.uniform(0.05, longest)) == 0
            assert ended, (person.home / "screen").read_text()
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            longest += 0.3
            ended = _screen("Done: branch")(person)
    _whole(person, model, before)


def _started(person: Person) -> forks.Fork:
    """Start the command with its screen in a file."""
    with (person.home / "screen").open("wb") as screen:
        return forks.plangate().start(
            *person.command("--yes")[1:],
            env=person.environment(),
            cwd=person.home,
            stdout=screen.fileno(),
            stderr=screen.fileno(),
        )


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
