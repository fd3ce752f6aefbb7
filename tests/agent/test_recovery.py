"""Recovery: each kind of trouble has its remedies, each is an event, and the parent learns what is left (S11)."""

from dataclasses import replace
from itertools import product

import pytest

from bot.agent.limits import Limits, Resource
from bot.agent.session_events import AgentEvent, End, Info, Lifecycle, Recovery, RecoveryOutcome
from bot.agent.subagents.run import SMALLER, TABLE, Remedy, Trouble, remedy
from bot.agent.subagents.types import STANDARD, TYPES, AgentType
from bot.agent.tools.session_tools import NO_MORE
from bot.ports import ToolOutput
from bot.testing.model.reply import Fault, Reply, call, say, several, stop
from bot.testing.model.request_view import ModelRequest
from tests.agent.conftest import Open
from tests.agent.ground import assert_prefixes, drive, ended, of, results
from tests.agent.teams import children, final, script, task, team


def explorer(**limits: float) -> dict[str, AgentType]:
    """An explore type with limits of its own."""
    return {"explore": replace(TYPES["explore"], limits=limits)}


def looks(times: int) -> Reply:
    return several(*(call("LS", path=str(n)) for n in range(times)))


def outcomes(events: list[AgentEvent]) -> list[tuple[str, str]]:
    return [(event.trouble, event.outcome) for event in of(events, Recovery)]


@pytest.mark.req("S11")
def test_every_trouble_comes_to_an_end() -> None:
    """However often one is met, its remedies end with the parent; a tool's error is the model's, each time."""
    for trouble, times in product(Trouble, range(6)):
        found = remedy(trouble, times)
        if trouble is Trouble.TOOL:
            assert found is Remedy.MODEL
        else:
            assert found is (TABLE[trouble][times] if times < len(TABLE[trouble]) else Remedy.PARENT)
    assert TABLE[Trouble.LIMIT] == (Remedy.RAISE, Remedy.RAISE, Remedy.SPLIT)


@pytest.mark.req("S11")
async def test_a_limit_is_raised_twice(room: Open) -> None:
    """By half each time, and the session goes on as it was: nothing is sent anew."""

    def child(request: ModelRequest) -> Reply:
        return looks(2) if request.step < 4 else say("Seen.")

    r = room(script(task("look"), child))
    t = team(r, types=explorer(tool_calls=4))
    events = await drive(t.session)
    assert results(t.session)[0]["content"] == "Seen."
    assert outcomes(events) == [("limit", RecoveryOutcome.RECOVERED)]
    told = [event.text for event in of(events, Info) if event.kind == "recovery"]
    assert [text.partition(" (")[0] for text in told] == [
        "the limit of 4 tool calls was reached",
        "the limit of 6 tool calls was reached",
    ]
    assert len(children(r)) == 5
    assert_prefixes(children(r))


@pytest.mark.req("S11")
async def test_then_the_task_is_split(room: Open) -> None:
    """Two agents after each other do what is left; each knows what was done, the last what the first reported."""

    def child(request: ModelRequest) -> Reply:
        text = request.texts()[0]
        if "This is part 1 of 2" in text:
            return say("Half of it.")
        return say("All of it.") if "This is part 2 of 2" in text else looks(4)

    r = room(script(task("look"), child))
    t = team(r, types=explorer(tool_calls=4))
    events = await drive(t.session)
    assert results(t.session)[0]["content"] == "All of it."
    assert outcomes(events) == [("limit", RecoveryOutcome.RECOVERED)]
    last = children(r)[-1].texts()[0]
    assert "Report on part 1: Half of it." in last
    first = next(request.texts()[0] for request in children(r) if "This is part 1" in request.texts()[0])
    assert "- LS 3" in first
    assert list(t.pool.rows) == ["explore-1"]


@pytest.mark.req("S11")
async def test_what_cannot_be_recovered_comes_to_the_parent(room: Open) -> None:
    """With what was done so far; the parent goes on."""
    r = room(script(task("look"), lambda _: looks(4)))
    t = team(r, types=explorer(tool_calls=4))
    events = await drive(t.session)
    (result,) = results(t.session)
    assert result["is_error"]
    assert "What it did so far:" in result["content"]
    assert outcomes(events) == [("limit", RecoveryOutcome.UNRECOVERABLE)]
    assert final(events)["explore-1"].state is Lifecycle.FAILED
    assert ended(events).end is End.ANSWERED
    assert t.pool.metrics.recoveries == {("limit", "unrecoverable"): 1}


@pytest.mark.req("S11")
async def test_a_timeout_is_tried_once_more_with_less_to_do(room: Open) -> None:
    """One and a half times the time, told to do only what matters most; a second timeout is for the parent."""

    def child(request: ModelRequest) -> Reply:
        return say("The main thing.") if SMALLER in request.last_user_text else call("LS", path=".")

    r = room(script(several(task("look"), task("again")), child))
    t = team(r, types=explorer(seconds=50))

    def slow(*_: object) -> ToolOutput:
        r.clock.seconds += 60
        return ToolOutput("x")

    t.workspace.answer = slow
    events = await drive(t.session)
    assert [block["content"] for block in results(t.session)] == ["The main thing."] * 2
    assert set(outcomes(events)) == {("timeout", RecoveryOutcome.RECOVERED)}


@pytest.mark.req("S11", "P7")
async def test_what_is_denied_is_escalated(room: Open) -> None:
    """The child is told that it cannot ask; the parent learns what was denied, and may ask for it."""

    def child(request: ModelRequest) -> Reply:
        return say("I could not run it.") if request.step else call("Bash", command="make")

    r = room(script(task("run"), child))
    t = team(r)
    events = await drive(t.session)
    assert outcomes(events) == [("permission denied", RecoveryOutcome.ESCALATED)]
    assert "It was denied this" in results(t.session)[0]["content"]


@pytest.mark.req("S11", "S11a", "T3")
@pytest.mark.parametrize("shown", ("no such file", "Denied: Bash(curl:*) must be asked for."))
async def test_a_tool_error_goes_back_to_the_model(room: Open, shown: str) -> None:
    """It is counted, and the parent is not bothered, nor told to ask for what a file names in the harness's words."""
    r = room(script(task("look"), lambda request: say("I looked.") if request.step else call("LS", path=".")))
    t = team(r)
    t.workspace.answer = lambda *_: ToolOutput(shown, is_error=True)
    events = await drive(t.session)
    assert outcomes(events) == [("tool error", RecoveryOutcome.RECOVERED)]
    assert results(t.session)[0]["content"] == "I looked."


@pytest.mark.req("S11", "M9")
@pytest.mark.parametrize(
    ("outcome", "trouble"),
    ((Fault.status(400), "model communication"), (stop("refusal"), "other")),
    ids=["refused request", "refusal"],
)
async def test_a_model_that_fails_for_good(room: Open, outcome: Reply | Fault, trouble: str) -> None:
    """The client has tried what it can: the parent is told."""
    r = room(script(task("look"), lambda _: outcome))
    events = await drive(team(r).session)
    assert outcomes(events) == [(trouble, RecoveryOutcome.UNRECOVERABLE)]


@pytest.mark.req("S11")
async def test_a_child_may_ask_for_more(room: Open) -> None:
    """It is given half as much again, twice; then it is told to report."""

    def child(request: ModelRequest) -> Reply:
        asking = call("resource_request", resource="tool_calls", reason="many files")
        return asking if request.step < 3 else say("Enough.")

    r = room(script(task("look"), child))
    t = team(r, types=explorer(tool_calls=10))
    await drive(t.session)
    answers = [request.results[-1].text for request in children(r)[1:]]
    assert answers == ["You have half as much again of tool calls."] * 2 + [NO_MORE]


@pytest.mark.req("S11")
def test_what_has_no_bound_is_not_raised() -> None:
    """Limits stay what they are where there is none, and grow by the factor where there is one."""
    assert STANDARD.with_more(Resource.STEPS, 1.5) is STANDARD
    assert STANDARD.with_more(Resource.TOOL_CALLS, 1.5).tool_calls == 75
    assert Limits(tool_calls=1).with_more(Resource.TOOL_CALLS, 1.5).tool_calls == 2
